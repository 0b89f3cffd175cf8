/*
 * stress_label_order.c - `balanced` and `repeat` in loaders: the same rows for any number of
 * workers and ranks, and from any saved position; every row is what its index says; a position of
 * other counts is refused.
 */
#include <pthread.h>
#include <string.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

#define N 243

static const int32_t all_workers[] = {0, 1, 2, 8};

static iter_loader_options with(const char *spec) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.sampler.spec = spec;
    opt.seed = 7;
    opt.memory.limit = 64 << 20;
    return opt;
}

static void same_rows(iter_dataset *data, const char *spec) {
    uint64_t want = 0;
    for (size_t w = 0; w < sizeof(all_workers) / sizeof(all_workers[0]); w++) {
        iter_loader_options opt = with(spec);
        opt.workers = all_workers[w];
        iter_loader *loader = drive_loader(data, NULL, &opt);
        const uint64_t got = drive_run(loader, 2);
        iter_loader_unref(loader);
        if (!want) want = got;
        EXPECT_EQ(got, want);
        if (all_workers[w] == 8) continue;
        EXPECT_EQ(drive_run_resuming(data, NULL, &opt), want);
        for (uint32_t ranks = 1; ranks <= 4; ranks *= 2)
            EXPECT_EQ(drive_run_ranks(data, NULL, opt, ranks), want);
    }
}

/* How often each label comes in an epoch. */
static void expect_labels(iter_dataset *data, const char *spec, const uint64_t *subset,
                          uint64_t n_subset, const uint32_t *want) {
    iter_loader_options opt = with(spec);
    iter_error err;
    iter_batch *batch;
    uint32_t got[10] = {0};
    opt.sampler.subset = subset;
    opt.sampler.n_subset = n_subset;
    opt.workers = 2;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
        const uint8_t *labels = iter_batch_find(batch, "label")->data;
        EXPECT_EQ(drive_wrong_rows(batch), 0);
        for (uint32_t i = 0; i < iter_batch_describe(batch).n_rows; i++)
            if (iter_batch_valid(batch)[i]) got[labels[i]]++;
        iter_batch_unref(batch);
    }
    for (int k = 0; k < 10; k++)
        EXPECT_EQ(got[k], want[k]);
    iter_loader_unref(loader);
}

/* A position is bound to the order: other counts, or another number of draws, are refused. */
static void positions_are_bound(iter_dataset *data, const char *spec, const char *other) {
    iter_loader_options opt = with(spec), unlike = with(other);
    iter_error err;
    iter_batch *batch;
    unsigned char saved[256];
    size_t size;
    iter_loader *a = drive_loader(data, NULL, &opt), *b = drive_loader(data, NULL, &unlike);
    EXPECT_OK(iter_loader_next(a, &batch, &err), &err);
    iter_batch_unref(batch);
    EXPECT_OK(iter_loader_save(a, saved, sizeof(saved), &size, &err), &err);
    EXPECT_OK(iter_loader_restore(a, saved, size, &err), &err);
    EXPECT(iter_loader_restore(b, saved, size, &err) < 0);
    iter_loader_unref(a);
    iter_loader_unref(b);
}

/* So many samples that several threads ask for their labels: by reads, and by get(). Loaders of one
 * dataset do so at once. */
static void *open_balanced(void *data) {
    for (int i = 0; i < 5; i++) {
        const iter_loader_options opt = with("balanced");
        iter_loader_unref(drive_loader(data, NULL, &opt));
    }
    return NULL;
}

static void labels_by_threads(void) {
    char folder[512];
    iter_error err;
    iter_dataset *sets[2];
    drive_cifar(folder, 3000);
    sets[0] = drive_open(folder);
    EXPECT_OK(iter_dataset_open("synthetic:?n=3000&classes=7&shape=4", NULL, &sets[1], &err), &err);
    for (int k = 0; k < 2; k++) {
        pthread_t threads[3];
        for (int t = 0; t < 3; t++)
            EXPECT_EQ(pthread_create(&threads[t], NULL, open_balanced, sets[k]), 0);
        for (int t = 0; t < 3; t++)
            pthread_join(threads[t], NULL);
        iter_dataset_unref(sets[k]);
    }
    make_folder_gone(folder);
}

int main(void) {
    static const uint32_t even[10] = {24, 24, 24, 24, 24, 24, 24, 24, 24, 24},
                          some[10] = {25, 25, 25, 240, 24, 24, 24, 0, 24, 24},
                          part[10] = {0, 0, 20, 40, 0, 0, 0, 0, 0, 0},
                          pair[10] = {0, 0, 15, 15, 0, 0, 0, 0, 0, 0};
    char folder[512];
    uint64_t subset[30];
    drive_cifar(folder, N);
    iter_dataset *data = drive_open(folder);
    same_rows(data, "balanced");
    same_rows(data, "balanced:samples=117");
    same_rows(data, "repeat:3=10,7=0");
    expect_labels(data, "balanced", NULL, 0, even);
    expect_labels(data, "balanced:classes=10", NULL, 0, even);
    expect_labels(data, "repeat:3=10,7=0", NULL, 0, (const uint32_t *)some);
    /* a subset of labels 2 (20 samples) and 3 (10) */
    for (uint64_t i = 0; i < 30; i++)
        subset[i] = i < 20 ? 10 * i + 2 : 10 * (i - 20) + 3;
    expect_labels(data, "balanced", subset, 30, pair);
    expect_labels(data, "repeat:3=4", subset, 30, part);
    positions_are_bound(data, "repeat:3=10", "repeat:3=10,4=2");
    positions_are_bound(data, "balanced", "balanced:samples=230");
    iter_dataset_unref(data);
    make_folder_gone(folder);
    labels_by_threads();
    return EXPECT_DONE();
}
