/*
 * stress_pack.c - packed rows are the same, bit for bit, for any number of workers, any number of
 * ranks, in memory or read, and from any saved position; alone and as sources of a mix. And an
 * epoch has every target once.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

enum { LENGTH = 64, DOCUMENTS = 700 };

static const int32_t all_workers[] = DRIVE_WORKERS;
static char folder[MAKE_PATH_MAX];
static uint32_t lengths[DOCUMENTS];
static uint64_t n_targets;

/* Token k of document d is d * 64 + k % 64, so a row tells what it has. */
static void make_set(void) {
    static uint16_t tokens[DOCUMENTS * 160];
    uint32_t n = 0;
    for (uint32_t d = 0; d < DOCUMENTS; d++) {
        lengths[d] = d * 2654435761u % 7 ? d * 2654435761u % 41 : d * 40503u % 160;
        for (uint32_t k = 0; k < lengths[d]; k++)
            tokens[n++] = (uint16_t)(d * 64 + k % 64);
        n_targets += lengths[d] > 1 ? lengths[d] - 1 : 0;
    }
    make_megatron(folder, "set", tokens, lengths, DOCUMENTS);
}

static const struct set {
    const char *spec; /* @ is the folder */
    bool is_whole;    /* an epoch has every row once */
} sets[] = {
    {"pack:{tokens:@/set.idx?documents=whole}?length=64&group=128&mask=yes", true},
    {"mix:{p=2 pack:{tokens:@/set.idx?documents=whole}?length=64; q=1 "
     "pack:{tokens:@/set.idx?documents=whole}?length=64&seed=3&group=50}",
     false},
    {"pack:{mix:{tokens:@/set.idx?documents=whole; tokens:@/set.idx?documents=whole}}?length=64",
     false},
};

static iter_dataset *open_set(const struct set *set) {
    char spec[4096], *to = spec;
    for (const char *at = set->spec; *at; at++)
        to += *at == '@' ? sprintf(to, "%s", folder) : (*to = *at, 1);
    *to = 0;
    iter_error err;
    iter_dataset *data;
    if (!EXPECT_OK(iter_dataset_open(spec, NULL, &data, &err), &err)) exit(1);
    return data;
}

/* Counts targets; a target must follow its input, in the same document. */
static uint64_t count_targets(const iter_batch *batch) {
    const uint16_t *data = iter_batch_find(batch, "data")->data;
    const int32_t *label = iter_batch_find(batch, "label")->data;
    const int32_t *segments = iter_batch_find(batch, "segments")->data;
    uint64_t n = 0;
    for (uint32_t i = 0; i < iter_batch_describe(batch).n_valid * LENGTH; i++) {
        const bool counts = segments[i] > 0;
        EXPECT_EQ(counts, label[i] != -100);
        if (!counts) continue;
        EXPECT_EQ(label[i] / 64, data[i] / 64);
        EXPECT_EQ(label[i] % 64, (data[i] + 1) % 64);
        n++;
    }
    return n;
}

static uint64_t run_and_compare(const struct set *set, iter_dataset *data,
                                const iter_loader_options *opt) {
    iter_loader *loader = drive_loader(data, NULL, opt);
    uint64_t sum = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        iter_error err;
        iter_batch *batch;
        uint64_t n = 0;
        while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
            n += count_targets(batch);
            sum += drive_hash(batch);
            iter_batch_unref(batch);
        }
        if (set->is_whole) EXPECT_EQ(n, n_targets);
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    iter_loader_unref(loader);
    return sum;
}

static void same_for_all(const struct set *set) {
    uint64_t want_sum = 0;
    for (int in_memory = 0; in_memory < 2; in_memory++)
        for (size_t w = 0; w < sizeof(all_workers) / sizeof(all_workers[0]); w++) {
            iter_dataset *data = open_set(set); /* its own: rows that were kept stay in memory */
            iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
            opt.batch_size = 8;
            opt.shuffle = ITER_SHUFFLE_FULL;
            opt.seed = 4;
            opt.reading.source = in_memory ? ITER_SOURCE_MEMORY : ITER_SOURCE_PREAD;
            opt.workers = all_workers[w];
            const uint64_t sum = run_and_compare(set, data, &opt);
            if (!want_sum) want_sum = sum;
            EXPECT_EQ(sum, want_sum);
            EXPECT_EQ(drive_run_resuming(data, NULL, &opt), want_sum);
            for (uint32_t ranks = 2; ranks <= 4; ranks *= 2)
                EXPECT_EQ(drive_run_ranks(data, NULL, opt, ranks), want_sum);
            iter_dataset_unref(data);
        }
}

int main(void) {
    make_folder(folder);
    make_set();
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        same_for_all(&sets[i]);
    make_folder_gone(folder);
    return EXPECT_DONE();
}
