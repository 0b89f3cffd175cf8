/*
 * stress_determinism.c - the same rows, bit for bit, for any number of workers, any source, any
 * number of ranks, any SIMD level, and from any saved position. Every row must be what its index
 * says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

#define N 243

static const char *const augment = "random-crop:size=32,pad=4 | random-flip | "
                                   "normalize:mean=0.49;0.48;0.45,std=0.25;0.24;0.26 | to:f32,nchw";
static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
static const int32_t all_workers[] = {0, 1, 2, 8};
#ifdef __SANITIZE_THREAD__ /* ten times slower there */
static const size_t most_often = 2;
#else
/* for so many of that list make a new loader after each batch */
static const size_t most_often = 3;
#endif
static char folder[512];

static iter_loader_options base(void) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.seed = 7;
    opt.memory.limit = 64 << 20;
    return opt;
}

/* Every source and every number of workers. *want is the expected hash; 0 = not known yet, it is
 * set. */
static void same_for_level(const char *chain_text, int32_t last_batch, int32_t shuffle,
                           uint64_t *want) {
    iter_chain *chain = chain_text ? drive_chain(chain_text) : NULL;
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++) {
        for (size_t w = 0; w < sizeof(all_workers) / sizeof(all_workers[0]); w++) {
            /* a shared one would stay in memory once it was loaded */
            iter_dataset *own = drive_open(folder);
            iter_loader_options opt = base();
            opt.reading.source = sources[s];
            opt.workers = all_workers[w];
            opt.last_batch = last_batch;
            opt.shuffle = shuffle;
            opt.sampler.block = 32; /* of a block shuffle */
            opt.sampler.buffer_blocks = 4;
            iter_loader *loader = drive_loader(own, chain, &opt);
            const uint64_t got = drive_run(loader, 2);
            iter_loader_unref(loader);
            if (!*want) *want = got;
            EXPECT_EQ(got, *want);
            if (w <= most_often) EXPECT_EQ(drive_run_resuming(own, chain, &opt), *want);
            for (uint32_t ranks = 2; ranks <= 4 && w <= most_often; ranks *= 2)
                EXPECT_EQ(drive_run_ranks(own, chain, opt, ranks), *want);
            opt.batch_size = 64;
            loader = drive_loader(own, chain, &opt);
            EXPECT_EQ(drive_run(loader, 2), *want);
            iter_loader_unref(loader);
            iter_dataset_unref(own);
        }
    }
    iter_chain_unref(chain);
}

static void same_for_all(const char *chain_text, int32_t last_batch, int32_t shuffle) {
    static const char *const levels[] = {"generic", "avx2", "avx512"};
    uint64_t want = 0;
    int n_levels = sizeof(levels) / sizeof(levels[0]);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* these would see nothing new */
    n_levels = 0;
#endif
    /* a level that the machine lacks falls back to one that it has */
    for (int i = 0; chain_text && i < n_levels; i++) {
        setenv("ITER_CPU", levels[i], 1);
        same_for_level(chain_text, last_batch, shuffle, &want);
    }
    unsetenv("ITER_CPU");
    if (!want) same_for_level(chain_text, last_batch, shuffle, &want);
}

/* Rows are right, each sample comes once an epoch, epochs differ, and O_DIRECT reads the same. */
static void rows_are_right(int32_t source, int32_t workers, int32_t o_direct) {
    iter_dataset *data = drive_open(folder);
    iter_loader_options opt = base();
    opt.reading.source = source;
    opt.workers = workers;
    opt.reading.o_direct = o_direct;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    uint64_t first[2] = {0};
    for (int e = 0; e < 2; e++) {
        uint8_t seen[N] = {0};
        iter_error err;
        iter_batch *batch;
        iter_status s;
        for (int b = 0; (s = iter_loader_next(loader, &batch, &err)) == ITER_OK; b++) {
            EXPECT_EQ(drive_wrong_rows(batch), 0);
            if (b == 0) first[e] = iter_batch_index(batch)[0] << 32 | iter_batch_index(batch)[1];
            for (uint32_t i = 0; i < iter_batch_describe(batch).n_rows; i++)
                seen[iter_batch_index(batch)[i]]++;
            iter_batch_unref(batch);
        }
        EXPECT_STATUS(s, ITER_END, &err);
        for (int i = 0; i < N; i++)
            EXPECT_EQ(seen[i], 1);
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    EXPECT(first[0] != first[1]);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

int main(void) {
    drive_cifar(folder, N);
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++) {
        for (int32_t workers = 0; workers <= 2; workers++)
            rows_are_right(sources[s], workers, 0);
        rows_are_right(sources[s], 2, 1);
    }
    same_for_all(augment, ITER_LAST_KEEP, ITER_SHUFFLE_FULL);
    same_for_all(NULL, ITER_LAST_KEEP, ITER_SHUFFLE_BLOCK);
#ifndef __SANITIZE_THREAD__ /* ten times slower there, with nothing new for the threads */
    same_for_all(NULL, ITER_LAST_KEEP, ITER_SHUFFLE_FULL);
    same_for_all(augment, ITER_LAST_PAD, ITER_SHUFFLE_FULL);
#endif
    make_folder_gone(folder);
    return EXPECT_DONE();
}
