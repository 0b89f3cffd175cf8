/*
 * stress_windows.c - a block shuffle that reads by windows: right rows, and hardly more bytes than
 * the rows have.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/builtin_tables.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/source_fault.h"

#define ROW 3073u

static const int32_t worker_counts[] = {0, 1, 2, 4};

/* Blocks of 196,672 bytes: a window that is cut at their edges reads up to 8,190 bytes more. */
static iter_loader *open_blocks_of(const char *folder, int32_t workers, uint32_t ranks,
                                   const iter_source_ops *source) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 32;
    opt.workers = workers;
    opt.shuffle = ITER_SHUFFLE_BLOCK;
    opt.sampler.block = 64;
    opt.sampler.buffer_blocks = 4;
    opt.reading.source = ITER_SOURCE_RING;
    opt.ranks = ranks;
    opt.prefetch = 2; /* `ahead` below counts on it */
    opt.seed = 5;
    opt.reading.ops = source;
    opt.faults.on_error = source ? ITER_ON_ERROR_BLANK : ITER_ON_ERROR_FAIL;
    iter_dataset *data = drive_open(folder);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_dataset_unref(data);
    return loader;
}

static iter_loader *open_blocks(const char *folder, int32_t workers, uint32_t ranks) {
    return open_blocks_of(folder, workers, ranks, NULL);
}

static uint64_t bytes_read(iter_loader *loader) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    EXPECT_OK(iter_loader_stats_read(loader, &stats, NULL), NULL);
    return stats.path_bytes[ITER_PATH_RING] + stats.path_bytes[ITER_PATH_PREAD];
}

/* Takes rows until END, at most `most` batches. */
static uint32_t take(iter_loader *loader, uint32_t most) {
    uint32_t rows = 0, wrong = 0;
    iter_batch *batch;
    for (uint32_t i = 0; i < most && iter_loader_next(loader, &batch, NULL) == ITER_OK; i++) {
        rows += iter_batch_describe(batch).n_rows;
        wrong += drive_wrong_rows(batch);
        iter_batch_unref(batch);
    }
    EXPECT_EQ(wrong, 0);
    return rows;
}

/* Whole blocks in each file: it reads what it delivers, plus ragged ends, plus the group that it
 * reads ahead. */
static void reads_little(const char *folder, uint32_t n) {
    for (int w = 0; w < 4; w++) {
        iter_loader *loader = open_blocks(folder, worker_counts[w], 1);
        for (int e = 0; e < 3; e++) {
            EXPECT_EQ(take(loader, UINT32_MAX), n);
            EXPECT_OK(iter_loader_reset(loader, NULL), NULL);
        }
        const uint64_t ahead = 2 * 4 * 64 * ROW;
        const double more = (double)bytes_read(loader) / (double)(3 * (uint64_t)n * ROW + ahead);
        if (!EXPECT(more < 1.06)) fprintf(stderr, "  %d workers: %.3f\n", worker_counts[w], more);
        iter_loader_unref(loader);
    }
}

/* Bytes read, once a loader whose consumer waits reads no more. */
static uint64_t bytes_at_rest(iter_loader *loader) {
    uint64_t bytes = bytes_read(loader);
    for (int quiet_ms = 0; quiet_ms < 20; quiet_ms++) {
        usleep(1000);
        const uint64_t now = bytes_read(loader);
        if (now != bytes) quiet_ms = 0;
        bytes = now;
    }
    return bytes;
}

/* After seeking back, requests made before must not keep frames: the next group is still read
 * ahead, and little more. */
static void goes_back(const char *folder, uint32_t n) {
    const uint64_t group = 4 * 64 * ROW;
    for (int w = 0; w < 4; w++) {
        iter_loader *loader = open_blocks(folder, worker_counts[w], 1);
        uint64_t before = 0;
        for (uint32_t i = 0; i < 3; i++) {
            take(loader, n / 32 * 3 / 4);
            before = bytes_at_rest(loader);
            EXPECT_OK(iter_loader_seek(loader, 0, 0, NULL), NULL);
        }
        uint32_t rows = take(loader, 1);
        /* A frame that a window of before still goes into is asked for again a batch later. */
        for (int ms = 1; ms < 3000 && bytes_read(loader) - before < group * 3 / 2; ms++) {
            usleep(1000);
            if (ms % 1000 == 0) rows += take(loader, 1);
        }
        EXPECT(bytes_read(loader) - before >= group * 3 / 2);
        rows += take(loader, UINT32_MAX);
        EXPECT_EQ(rows, n);
        /* As much as is read ahead of the last row may have been on its way at the seek. */
        const double more =
            (double)(bytes_read(loader) - before) / (double)(n * ROW + 2 * 2 * group);
        if (!EXPECT(more < 1.06)) fprintf(stderr, "  %d workers: %.3f\n", worker_counts[w], more);
        iter_loader_unref(loader);
    }
}

/* If a loader begins in the middle of a group, windows are read ahead into all frames before the
 * first row asks for its own, and all may be read before the worker looks again. */
static void begins_anywhere(void) {
    const source_fault_plan plan = {.inner = &iter__source_pread};
    char folder[MAKE_PATH_MAX];
    drive_cifar(folder, 243);
    iter_dataset *data = drive_open(folder);
    for (int w = 1; w < 4; w++) {
        source_fault_set(&plan);
        for (uint32_t at = 0; at < 2 * 243; at += 16) {
            iter_error error = {.status = ITER_OK};
            iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
            opt.batch_size = 16;
            opt.workers = worker_counts[w];
            opt.shuffle = ITER_SHUFFLE_BLOCK;
            opt.sampler.block = 32;
            opt.sampler.buffer_blocks = 4;
            opt.seed = 7;
            opt.reading.source = ITER_SOURCE_RING;
            opt.reading.ops = &source_fault_ops;
            iter_loader *loader = drive_loader(data, NULL, &opt);
            iter_batch *batch = NULL;
            EXPECT_OK(iter_loader_seek(loader, at / 243, at % 243 / 16 * 16, NULL), NULL);
            const iter_status got = iter_loader_next_within(loader, 20000, &batch, &error);
            if (EXPECT_OK(got, &error)) EXPECT_EQ(drive_wrong_rows(batch), 0);
            iter_batch_unref(batch);
            iter_loader_unref(loader);
        }
    }
    iter_dataset_unref(data);
    make_folder_gone(folder);
}

/* Blocks that span two files, and two ranks, each of which needs half of the rows. */
static void over_the_ends(void) {
    char folder[MAKE_PATH_MAX];
    drive_cifar(folder, 3499);
    for (int w = 0; w < 4; w++) {
        for (uint32_t ranks = 1; ranks <= 2; ranks++) {
            iter_loader *loader = open_blocks(folder, worker_counts[w], ranks);
            uint32_t rows = 0;
            for (int e = 0; e < 2; e++) {
                rows = take(loader, UINT32_MAX);
                EXPECT_OK(iter_loader_reset(loader, NULL), NULL);
            }
            EXPECT(rows == (ranks == 1 ? 3499u : 1749u));
            iter_loader_unref(loader);
        }
    }
    make_folder_gone(folder);
}

/* If a window fails, its rows are read again, each alone and not into memory that other workers
 * read. The fault belongs to a place, so some of those reads fail, too. */
static void windows_that_fail(const char *folder, uint32_t n) {
    for (int w = 0; w < 4; w++) {
        const source_fault_plan plan = {.inner = &iter__source_pread, .seed = 3, .eio_always = 200};
        iter_loader_stats stats = {.struct_size = sizeof(stats)};
        iter_batch *batch;
        uint32_t rows = 0, failed = 0;
        source_fault_set(&plan);
        iter_loader *loader = open_blocks_of(folder, worker_counts[w], 1, &source_fault_ops);
        while (iter_loader_next(loader, &batch, NULL) == ITER_OK) {
            const iter_batch_info info = iter_batch_describe(batch);
            rows += info.n_rows;
            failed += info.n_failed;
            if (info.n_failed == 0) EXPECT_EQ(drive_wrong_rows(batch), 0);
            iter_batch_unref(batch);
        }
        EXPECT_EQ(rows, n);
        EXPECT_OK(iter_loader_stats_read(loader, &stats, NULL), NULL);
        EXPECT(stats.retried_reads > 2 * failed && failed > 0);
        EXPECT_EQ(source_fault_seen()->into_arena, 0);
        iter_loader_unref(loader);
    }
}

/* The order says how it lies, however it was asked for: by `shuffle`, by a spec, or by a table of
 * the caller's. So all three are read alike. */
static void every_spelling(const char *folder, uint32_t n) {
    static iter_sampler_ops mine;
    uint64_t bytes[3];
    char plan[4096] = "";
    mine = iter__sampler_block;
    mine.base.name = "mine";
    const iter_block_options blocks = {64, 4};
    for (int spelling = 0; spelling < 3; spelling++) {
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        opt.batch_size = 32;
        opt.workers = 1;
        opt.reading.source = ITER_SOURCE_RING;
        opt.seed = 5;
        if (spelling == 0) {
            opt.shuffle = ITER_SHUFFLE_BLOCK;
            opt.sampler.block = 64, opt.sampler.buffer_blocks = 4;
        } else if (spelling == 1) {
            opt.sampler.spec = "block:64,4";
        } else {
            opt.sampler.ops = &mine, opt.sampler.options = &blocks;
        }
        iter_dataset *data = drive_open(folder);
        iter_loader *loader = drive_loader(data, NULL, &opt);
        iter_dataset_unref(data);
        if (spelling == 0) {
            snprintf(plan, sizeof(plan), "%s", iter_loader_plan_text(loader));
            EXPECT(strstr(plan, "windows of files") != NULL);
        }
        EXPECT_STR(iter_loader_plan_text(loader), plan);
        EXPECT_EQ(take(loader, UINT32_MAX), n);
        bytes[spelling] = bytes_read(loader);
        iter_loader_unref(loader);
    }
    /* Row by row a page would be read for each row; in windows little more than the rows. */
    for (int spelling = 0; spelling < 3; spelling++)
        EXPECT(bytes[spelling] < (uint64_t)n * ROW * 2);
}

int main(void) {
    char folder[MAKE_PATH_MAX];
    const uint32_t n = 5 * 1280;
    drive_cifar(folder, n);
    reads_little(folder, n);
    goes_back(folder, n);
    begins_anywhere();
    windows_that_fail(folder, n);
    every_spelling(folder, n);
    make_folder_gone(folder);
    over_the_ends();
    return EXPECT_DONE();
}
