/*
 * stress_faults.c - what disks and kernels do to reads, under a loader: errors once and for ever,
 * files that shrink, reads that hang or are lost, a source that is full. The output must not depend
 * on the number of workers, nor on whether the source is asynchronous.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/source_fault.h"

#define N 500

static char folder[512];
static const int32_t worker_counts[] = {0, 1, 2, 8};
static const iter_source_ops *const sources[] = {&source_fault_ops, &source_fault_sync_ops};

static iter_loader_options options(int32_t workers, const iter_source_ops *source) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 32;
    opt.workers = workers;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.seed = 3;
    opt.reading.source = ITER_SOURCE_RING; /* read as needed; the next line names the source */
    opt.reading.ops = source;
    opt.memory.limit = 64 << 20;
    return opt;
}

static iter_loader *open_with(const source_fault_plan *faults, const iter_loader_options *opt) {
    source_fault_plan plan = *faults;
    plan.inner = &iter__source_pread;
    source_fault_set(&plan);
    iter_dataset *data = drive_open(folder);
    iter_loader *loader = drive_loader(data, NULL, opt);
    iter_dataset_unref(data);
    return loader;
}

static iter_loader_stats stats_of(iter_loader *loader) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    EXPECT_OK(iter_loader_stats_read(loader, &stats, NULL), NULL);
    return stats;
}

/* What one epoch looked like: a hash of good rows, and what failed. */
typedef struct seen {
    uint64_t hash;
    uint32_t n_ok, n_bad, n_rows, n_invalid, n_failed, wrong;
    char first[504]; /* the first error */
} seen;

static seen one_epoch(iter_loader *loader) {
    seen out = {.hash = 0};
    for (;;) {
        iter_error err = {.status = ITER_OK};
        iter_batch *batch;
        const iter_status s = iter_loader_next(loader, &batch, &err);
        if (s == ITER_END) break;
        if (s < 0) {
            if (!out.n_bad++) memcpy(out.first, err.message, sizeof(out.first));
            out.hash = out.hash * 31 + 1;
            if (s == ITER_ECANCELED || s == ITER_ESTATE || out.n_bad > 1000) break;
            continue;
        }
        const iter_batch_info info = iter_batch_describe(batch);
        out.n_ok++;
        out.n_rows += info.n_rows;
        out.n_failed += info.n_failed;
        out.wrong += drive_wrong_rows(batch);
        for (uint32_t i = 0; i < info.n_rows; i++)
            out.n_invalid += !iter_batch_valid(batch)[i];
        out.hash = out.hash * 31 + drive_hash(batch);
        iter_batch_unref(batch);
    }
    EXPECT_OK(iter_loader_reset(loader, NULL), NULL);
    return out;
}

/* ---- Faults that retries must hide ----------------------------------------------------------- */

static void mended(const char *what, source_fault_plan plan) {
    for (int s = 0; s < 2; s++) {
        for (int w = 0; w < 4; w++) {
            const iter_loader_options opt = options(worker_counts[w], sources[s]);
            iter_loader *loader = open_with(&plan, &opt);
            for (int e = 0; e < 2; e++) {
                const seen got = one_epoch(loader);
                const int fine = EXPECT_EQ(got.n_bad, 0) & EXPECT_EQ(got.n_rows, N) &
                                 EXPECT_EQ(got.wrong, 0) & EXPECT_EQ(got.n_failed, 0);
                if (!fine)
                    fprintf(stderr, "  %s, source %d, %d workers, epoch %d: %s\n", what, s,
                            worker_counts[w], e, got.first);
            }
            EXPECT_EQ(stats_of(loader).n_failures, 0);
            iter_loader_unref(loader);
        }
    }
}

static void all_mended(void) {
    mended("no fault", (source_fault_plan){.seed = 1});
    mended("EIO once", (source_fault_plan){.seed = 2, .eio_once = 100, .try_errno = EAGAIN});
    EXPECT(atomic_load(&source_fault_seen()->eio) > 0);
    mended("lost", (source_fault_plan){.seed = 3, .lost = 200, .try_errno = EAGAIN});
    EXPECT(atomic_load(&source_fault_seen()->lost) > 0);
    mended("short", (source_fault_plan){.seed = 4, .interrupted = 500, .try_again = 500});
    EXPECT(atomic_load(&source_fault_seen()->interrupted) > 0);
    mended("full once each",
           (source_fault_plan){.seed = 5, .queue_full = 1000, .try_errno = EOPNOTSUPP});
    mended(
        "full and idle",
        (source_fault_plan){
            .seed = 6, .queue_full = 500, .idle_waits = 900, .reorder = true, .try_errno = EAGAIN});
    mended("slow, in any order",
           (source_fault_plan){.seed = 7, .delay_ns = 300000, .reorder = true, .idle_waits = 200});
    mended("all of it", (source_fault_plan){.seed = 8,
                                            .eio_once = 30,
                                            .lost = 30,
                                            .interrupted = 100,
                                            .queue_full = 200,
                                            .try_again = 300,
                                            .idle_waits = 300,
                                            .delay_ns = 100000,
                                            .reorder = true});
}

/* A source that is full at times must not leave gaps in a set that is loaded ahead. */
static void preload_full(void) {
    for (int s = 0; s < 2; s++) {
        iter_loader_options opt = options(1, sources[s]);
        opt.reading.source = ITER_SOURCE_MEMORY;
        iter_loader *loader = open_with(&(source_fault_plan){.seed = 9,
                                                             .queue_full = 1000,
                                                             .eio_once = 300,
                                                             .reorder = true,
                                                             .interrupted = 300},
                                        &opt);
        const seen got = one_epoch(loader);
        EXPECT_EQ(got.n_rows, N);
        EXPECT_EQ(got.wrong, 0);
        iter_loader_unref(loader);
    }
}

/* An idle source turns away the only read. No completion will come that offers it again. */
static void full_and_alone(void) {
    for (int w = 0; w < 4; w++) {
        iter_loader_options opt = options(worker_counts[w], &source_fault_ops);
        const uint64_t one = 77;
        opt.sampler.subset = &one;
        opt.sampler.n_subset = 1;
        opt.lookahead = ITER_LOOKAHEAD_EPOCH;
        opt.faults.timeout_ms = 5000;
        iter_loader *loader = open_with(
            &(source_fault_plan){.seed = 10, .queue_full = 1000, .try_errno = EOPNOTSUPP}, &opt);
        iter_error err;
        iter_batch *batch;
        if (EXPECT_OK(iter_loader_next(loader, &batch, &err), &err))
            EXPECT_EQ(drive_wrong_rows(batch), 0);
        iter_batch_unref(batch);
        EXPECT_STATUS(iter_loader_next(loader, &batch, &err), ITER_END, &err);
        iter_loader_unref(loader);
    }
}

/* ---- Faults that stay ------------------------------------------------------------------------ */

static void same_for_all(const char *what, source_fault_plan plan, int32_t on_error,
                         bool must_fail) {
    seen want = {.hash = 0};
    for (int s = 0; s < 2; s++) {
        for (int w = 0; w < 4; w++) {
            iter_loader_options opt = options(worker_counts[w], sources[s]);
            opt.faults.on_error = on_error;
            iter_loader *loader = open_with(&plan, &opt);
            const seen got = one_epoch(loader);
            if (s + w == 0) want = got;
            int fine = EXPECT_EQ(got.n_ok + got.n_bad, (N + 31) / 32) & EXPECT_EQ(got.wrong, 0);
            fine &= EXPECT(got.hash == want.hash) & EXPECT_EQ(got.n_invalid, want.n_invalid) &
                    EXPECT_EQ(got.n_failed, want.n_failed);
            const iter_loader_stats stats = stats_of(loader);
            if (must_fail) fine &= EXPECT(stats.n_failures > 0);
            if (on_error == ITER_ON_ERROR_FAIL)
                fine &= EXPECT(got.n_bad > 0 && strstr(got.first, "data_batch_") &&
                               strstr(got.first, ".bin:"));
            if (on_error != ITER_ON_ERROR_FAIL)
                fine &= EXPECT_EQ(got.n_bad, 0) & EXPECT_EQ(got.n_failed, stats.n_failures);
            if (on_error == ITER_ON_ERROR_BLANK) fine &= EXPECT_EQ(got.n_invalid, got.n_failed);
            if (on_error == ITER_ON_ERROR_REPLACE) fine &= EXPECT_EQ(got.n_invalid, 0);
            iter_failure list[ITER_STATS_WORKERS];
            const size_t n = iter_loader_failures(loader, list, ITER_STATS_WORKERS);
            EXPECT_EQ(n, stats.n_failures);
            for (size_t i = 0; i < n && i < ITER_STATS_WORKERS; i++) {
                fine &= EXPECT_EQ(list[i].status, ITER_EIO) &
                        EXPECT(strstr(list[i].message, "data_batch_"));
                if (i) fine &= EXPECT(list[i].position / 32 >= list[i - 1].position / 32);
            }
            if (!fine)
                fprintf(stderr, "  %s, on_error %d, source %d, %d workers: %s\n", what, on_error, s,
                        worker_counts[w], got.first);
            iter_loader_unref(loader);
        }
    }
}

static void all_that_stays(void) {
    for (int32_t on_error = ITER_ON_ERROR_FAIL; on_error <= ITER_ON_ERROR_BLANK; on_error++) {
        same_for_all("EIO", (source_fault_plan){.seed = 11, .eio_always = 20}, on_error, true);
        same_for_all(
            "EIO after misses",
            (source_fault_plan){.seed = 12, .eio_always = 20, .try_errno = EAGAIN, .reorder = true},
            on_error, true);
        same_for_all("shrunk", (source_fault_plan){.seed = 13, .shrunk = 20, .delay_ns = 50000},
                     on_error, true);
    }
}

/* After `max_failures` the same batch fails again and again, and the message has the count. */
static void gives_up(void) {
    for (int w = 0; w < 4; w++) {
        iter_loader_options opt = options(worker_counts[w], &source_fault_ops);
        opt.faults.on_error = ITER_ON_ERROR_BLANK;
        opt.faults.max_failures = 5;
        iter_loader *loader = open_with(&(source_fault_plan){.seed = 11, .eio_always = 20}, &opt);
        iter_error err;
        iter_batch *batch;
        iter_status s;
        uint32_t n = 0;
        static uint32_t want;
        while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
            n++;
            iter_batch_unref(batch);
        }
        EXPECT_ERROR(s, ITER_EIO, &err, "max_failures = 5");
        EXPECT_ERROR(iter_loader_next(loader, &batch, &err), ITER_EIO, &err, "max_failures = 5");
        if (w == 0) want = n;
        EXPECT_EQ(n, want);
        iter_loader_unref(loader);
    }
}

/* ---- Reads that hang ------------------------------------------------------------------------- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* next() names what it waits for at every timeout, and goes on when the reads come back. */
static void hang_and_return(void) {
    for (int s = 0; s < 2; s++) {
        for (int w = 0; w < 4; w++) {
            if (s == 1 && w == 3) continue;
            iter_loader_options opt = options(worker_counts[w], sources[s]);
            opt.faults.timeout_ms = 30;
            iter_loader *loader =
                open_with(&(source_fault_plan){.seed = 21, .hang = 20, .try_errno = EAGAIN}, &opt);
            iter_error err;
            iter_batch *batch;
            iter_status status;
            uint32_t n_rows = 0, n_late = 0, n_named = 0, wrong = 0;
            while ((status = iter_loader_next(loader, &batch, &err)) != ITER_END) {
                if (status == ITER_ETIMEDOUT) {
                    EXPECT_ERROR(status, ITER_ETIMEDOUT, &err, "next: ");
                    EXPECT(batch == NULL);
                    /* if the machine is busy, a thread may be late, too */
                    n_named += strstr(err.message, "data_batch_") != NULL;
                    if (++n_late == 5) source_fault_release();
                    if (n_late > 1000) break;
                    continue;
                }
                if (!EXPECT_OK(status, &err)) break;
                n_rows += iter_batch_describe(batch).n_rows;
                wrong += drive_wrong_rows(batch);
                iter_batch_unref(batch);
            }
            EXPECT(n_late >= 5);
            EXPECT(n_named >= 1);
            EXPECT_EQ(n_rows, N);
            EXPECT_EQ(wrong, 0);
            iter_loader_unref(loader);
        }
    }
}

/* A loader is dropped while reads hang: they are canceled, and it does not take long. */
static void hang_and_go(void) {
    for (int w = 0; w < 4; w++) {
        iter_loader_options opt = options(worker_counts[w], &source_fault_ops);
        opt.faults.timeout_ms = 20;
        opt.faults.grace_ms = 5000;
        iter_loader *loader =
            open_with(&(source_fault_plan){.seed = 22, .hang = 300, .try_errno = EAGAIN}, &opt);
        iter_error err;
        iter_batch *batch, *held = NULL;
        iter_status status;
        while ((status = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
            if (held) iter_batch_unref(held);
            held = batch;
        }
        EXPECT_EQ(status, ITER_ETIMEDOUT);
        const double start = seconds();
        EXPECT_OK(iter_loader_stop(loader, &err), &err);
        EXPECT(seconds() - start < 3);
        EXPECT_EQ(iter_loader_next(loader, &batch, &err), ITER_ECANCELED);
        iter_loader_unref(loader);
        if (held) iter_batch_unref(held);
    }
}

/* LeakSanitizer's, if the build has it: memory that is leaked on purpose must not be reported. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

/* Reads that hang and ignore cancel: stop() reports them after the grace time, and the memory that
 * they may still write to stays allocated until they end. */
static void hang_for_good(void) {
    for (int w = 0; w < 3; w++) {
        iter_loader_options opt = options(worker_counts[w], &source_fault_ops);
        opt.faults.timeout_ms = 20;
        opt.faults.grace_ms = 60;
        const long live = iter__alloc_live();
        if (w == 0 && __lsan_disable) __lsan_disable();
        iter_loader *loader = open_with(
            &(source_fault_plan){.seed = 23, .hang = 300, .deaf = true, .try_errno = EAGAIN}, &opt);
        iter_error err;
        iter_batch *batch;
        iter_status status = ITER_OK;
        for (int i = 0; i < 1000;
             i++) { /* if the machine is busy, next() may be late before any read is */
            status = iter_loader_next(loader, &batch, &err);
            iter_batch_unref(batch);
            if (status < 0 && strstr(err.message, "data_batch_")) break;
        }
        EXPECT_EQ(status, ITER_ETIMEDOUT);
        const double start = seconds();
        EXPECT_EQ(iter_loader_stop(loader, &err), ITER_ETIMEDOUT);
        EXPECT(strlen(err.message) > 20 && seconds() - start < 3);
        EXPECT(strstr(err.message, "60 ms"));
        iter_loader_unref(loader);
        EXPECT(iter__alloc_live() > live); /* the reads may still write there */
        source_fault_release();
        const struct timespec pause = {.tv_nsec = 5000000};
        for (int i = 0; i < 1000 && w > 0 && iter__alloc_live() != live; i++)
            nanosleep(&pause, NULL);
        /* The threads leave, and the last one frees the loader. Without threads it stays for
         * good. */
        if (w > 0) EXPECT_EQ(iter__alloc_live(), live);
        if (w == 0 && __lsan_enable) __lsan_enable();
    }
}

/* reset, seek and restore while reads into slots are in flight: old reads must not spoil new
 * rows. */
static void drop_in_flight(int32_t source) {
    for (int w = 0; w < 4; w++) {
        iter_loader_options opt = options(worker_counts[w], &source_fault_ops);
        opt.reading.source = source;
        opt.batch_size = 16;
        opt.memory.limit = 3 << 20;
        iter_loader *loader = open_with(&(source_fault_plan){.seed = 31,
                                                             .delay_ns = 400000,
                                                             .reorder = true,
                                                             .queue_full = 100,
                                                             .try_errno = EAGAIN},
                                        &opt);
        char saved[512];
        size_t size = 0;
        uint32_t random = 12345;
        for (int step = 0; step < 300; step++) {
            iter_error err;
            iter_batch *batch = NULL;
            random = random * 1664525 + 1013904223;
            const uint32_t what = random >> 24;
            if (what < 30) {
                EXPECT_OK(iter_loader_reset(loader, &err), &err);
            } else if (what < 60) {
                EXPECT_OK(iter_loader_seek(loader, what % 3, what % 10 * 16, &err), &err);
            } else if (what < 90 && size) {
                EXPECT_OK(iter_loader_restore(loader, saved, size, &err), &err);
            } else if (what < 120) {
                EXPECT_OK(iter_loader_save(loader, saved, sizeof(saved), &size, &err), &err);
            } else {
                const iter_status s = iter_loader_next(loader, &batch, &err);
                if (s == ITER_END) {
                    EXPECT_OK(iter_loader_reset(loader, &err), &err);
                } else if (EXPECT_OK(s, &err)) {
                    EXPECT_EQ(drive_wrong_rows(batch), 0);
                }
            }
            iter_batch_unref(batch);
        }
        iter_loader_unref(loader);
    }
}

/* ---- Real files that change while they are open ---------------------------------------------- */

static void real_truncation(int32_t shuffle) {
    static const int32_t real[] = {ITER_SOURCE_RING, ITER_SOURCE_PREAD};
    for (int s = 0; s < 2; s++) {
        for (int w = 0; w < 3; w++) {
            char own[512], path[512];
            drive_cifar(own, N);
            iter_dataset *data = drive_open(own);
            iter_loader_options opt = options(worker_counts[w], NULL);
            opt.reading.source = real[s];
            opt.shuffle = shuffle;
            opt.faults.on_error = ITER_ON_ERROR_BLANK;
            const int32_t cut_at = 3073 * 40 + 100; /* in the middle of record 40 */
            EXPECT_EQ(truncate(make_path(path, own, "data_batch_3.bin"), cut_at), 0);
            iter_loader *loader = drive_loader(data, NULL, &opt);
            const seen got = one_epoch(loader);
            EXPECT_EQ(got.n_rows, N);
            EXPECT_EQ(got.n_invalid, N / 5 - 40);
            EXPECT_EQ(got.n_bad, 0);
            EXPECT_EQ(got.wrong, 0);
            iter_failure list[N];
            const size_t n = iter_loader_failures(loader, list, N);
            EXPECT_EQ(n, N / 5 - 40);
            for (size_t i = 0; i < n; i++) {
                EXPECT(list[i].index >= 2 * N / 5 + 40 && list[i].index < 3 * N / 5);
                EXPECT(strstr(list[i].message, "data_batch_3.bin") &&
                       strstr(list[i].message, "changed while open"));
            }
            iter_loader_unref(loader);
            iter_dataset_unref(data);
            make_folder_gone(own);
        }
    }
}

/* ITER_SOURCE_MEMORY refuses a file that shrank after open, and names it. With AUTO, or if failed
 * samples are allowed, the loader reads what is left. */
static void real_truncation_in_memory(void) {
    char own[512], path[512];
    iter_error err;
    drive_cifar(own, N);
    iter_dataset *data = drive_open(own);
    EXPECT_EQ(truncate(make_path(path, own, "data_batch_3.bin"), 5000), 0);
    iter_loader_options opt = options(0, NULL);
    opt.reading.source = ITER_SOURCE_MEMORY;
    iter_loader *loader;
    EXPECT_ERROR(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_EIO, &err,
                 "data_batch_3.bin");
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    for (opt.reading.source = ITER_SOURCE_AUTO; opt.reading.source <= ITER_SOURCE_MEMORY;
         opt.reading.source++) {
        loader = drive_loader(data, NULL, &opt);
        EXPECT_EQ(one_epoch(loader).n_invalid, N / 5 - 1);
        const iter_loader_stats stats = stats_of(loader);
        bool said = false; /* if there is no io_uring, another fallback comes first */
        for (int32_t i = 0; i < stats.n_fallbacks; i++)
            said = said || strstr(stats.fallbacks[i], "reading as needed");
        EXPECT(said);
        iter_loader_unref(loader);
    }
    iter_dataset_unref(data);
    make_folder_gone(own);
}

/* If a file is deleted while it is open, either all rows are still right, or the failure names the
 * file. */
static void real_deletion(void) {
    static const int32_t real[] = {ITER_SOURCE_RING, ITER_SOURCE_PREAD};
    for (int s = 0; s < 2; s++) {
        char own[512], path[512];
        drive_cifar(own, N);
        iter_dataset *data = drive_open(own);
        iter_loader_options opt = options(2, NULL);
        opt.reading.source = real[s];
        iter_loader *loader = drive_loader(data, NULL, &opt);
        EXPECT_EQ(unlink(make_path(path, own, "data_batch_2.bin")), 0);
        const seen got = one_epoch(loader);
        EXPECT_EQ(got.wrong, 0);
        EXPECT_EQ(got.n_ok + got.n_bad, (N + 31) / 32);
        if (got.n_bad) EXPECT(strstr(got.first, "data_batch_2.bin"));
        iter_loader_unref(loader);
        iter_dataset_unref(data);
        make_folder_gone(own);
    }
}

#define STEP(call)                                          \
    do {                                                    \
        const double start = seconds();                     \
        call;                                               \
        printf("%-40s %.2f s\n", #call, seconds() - start); \
        fflush(stdout);                                     \
    } while (0)

int main(void) {
    drive_cifar(folder, N);
    STEP(all_mended());
    STEP(full_and_alone());
    STEP(preload_full());
    STEP(all_that_stays());
    STEP(gives_up());
    STEP(hang_and_return());
    STEP(hang_and_go());
    STEP(hang_for_good());
    STEP(drop_in_flight(ITER_SOURCE_RING));
    STEP(drop_in_flight(ITER_SOURCE_PREAD));
    STEP(real_truncation(ITER_SHUFFLE_FULL));
    STEP(real_truncation(ITER_SHUFFLE_BLOCK)); /* by windows */
    STEP(real_truncation_in_memory());
    STEP(real_deletion());
    make_folder_gone(folder);
    return EXPECT_DONE();
}
