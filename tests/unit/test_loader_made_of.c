/*
 * test_loader_made_of.c - what a loader tells about itself: its options, from which a second loader
 * delivers the same; the counters of next(); statistics for programs with an older header.
 */
#include <criterion/criterion.h>

#include <iter/iter.h>

#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/drive.h"
#include "tests/support/own_dataset.h"

TestSuite(loader_made_of, .timeout = 60);

/* ---- Options --------------------------------------------------------------------------------- */

/* Another loader over the same dataset and chain, with the first one's options but for workers. */
static iter_loader *second_of(iter_loader *first, int32_t workers) {
    iter_loader_options opt = {.struct_size = sizeof(opt)};
    cr_assert_eq(iter_loader_options_read(first, &opt, NULL), ITER_OK);
    opt.arrays = (iter_loader_arrays){0};
    opt.workers = workers;
    return drive_loader(iter_loader_dataset(first), iter_loader_chain(first), &opt);
}

Test(loader_made_of, a_second_loader_delivers_the_same) {
    static const uint64_t subset[] = {90, 3, 17, 44, 8, 71, 2, 63, 29, 55, 12, 38};
    static const char *const specs[] = {NULL, "block:block=8,buffer=2", "replacement"};
    for (int i = 0; i < 6; i++) {
        own_dataset own = {.n = 100};
        iter_dataset *data = own_open(&own, &own_ops);
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        char spec[64];
        uint64_t chosen[12];
        opt.batch_size = 7;
        opt.seed = 5;
        opt.shuffle = ITER_SHUFFLE_FULL;
        if (specs[i % 3] != NULL) opt.sampler.spec = strcpy(spec, specs[i % 3]);
        if (i >= 3) {
            opt.sampler.subset = memcpy(chosen, subset, sizeof(subset));
            opt.sampler.n_subset = 12;
        }
        iter_loader *first = drive_loader(data, NULL, &opt);
        memset(spec, 'x', sizeof(spec)); /* the caller's memory is its own again */
        memset(chosen, 0xff, sizeof(chosen));
        iter_loader *second = second_of(first, 2);
        cr_assert_eq(iter_loader_dataset(second), data);
        cr_assert_eq(drive_run(first, 2), drive_run(second, 2), "case %d", i);
        iter_loader_unref(first);
        iter_loader_unref(second);
        iter_dataset_unref(data);
    }
}

Test(loader_made_of, options_are_those_that_it_runs_with) {
    iter_error err = {ITER_OK, ""};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    own_dataset own = {.n = 100};
    iter_dataset *data = own_open(&own, &own_ops);
    opt.workers = ITER_WORKERS_AUTO;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_loader_options out = {.struct_size = sizeof(out)};
    cr_assert_eq(iter_loader_options_read(loader, &out, &err), ITER_OK);
    cr_assert_eq(out.batch_size, 32);
    cr_assert(out.workers > 0 && out.workers <= ITER_STATS_WORKERS);
    cr_assert(out.workers == iter_cores() || iter_cores() > ITER_STATS_WORKERS);
    cr_assert_eq(out.last_batch, ITER_LAST_KEEP);
    cr_assert_null(iter_loader_chain(loader));
    out.struct_size = sizeof(out) + 8;
    cr_assert_eq(iter_loader_options_read(loader, &out, &err), ITER_EINVAL);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

Test(loader_made_of, cores_are_at_most_those_of_the_affinity) {
    cpu_set_t set;
    cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    cr_assert(iter_cores() >= 1 && iter_cores() <= CPU_COUNT(&set));
    const int some = iter_cores() > 1 ? 2 : 1;
    cpu_set_t fewer;
    CPU_ZERO(&fewer);
    for (int i = 0; CPU_COUNT(&fewer) < some; i++)
        if (CPU_ISSET(i, &set)) CPU_SET(i, &fewer);
    cr_assert_eq(sched_setaffinity(0, sizeof(fewer), &fewer), 0);
    cr_assert(iter_cores() <= some);
}

/* ---- next() ---------------------------------------------------------------------------------- */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static iter_loader *asked; /* whose next() get() looks at */
static int64_t seen_since;

static iter_status look(void *user, iter_batch_view *fields, int32_t n_fields, iter_error *err) {
    (void)user, (void)fields, (void)n_fields, (void)err;
    seen_since = iter_loader_in_next(asked);
    return ITER_OK;
}

Test(loader_made_of, next_is_counted_with_its_time_and_thread) {
    own_dataset own = {.n = 40, .sleep_ns = 1000000};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 10;
    opt.collate = look;
    asked = drive_loader(data, NULL, &opt);
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    cr_assert_eq(iter_loader_stats_read(asked, &stats, NULL), ITER_OK);
    cr_assert(stats.next_calls == 0 && stats.next_first_ns == 0 && stats.next_tid == 0);
    const uint64_t begin = now_ns();
    uint64_t inside = 0;
    for (int i = 0; i < 5; i++) { /* four batches and the END */
        iter_batch *batch;
        const uint64_t start = now_ns();
        const iter_status s = iter_loader_next(asked, &batch, NULL);
        inside += now_ns() - start;
        cr_assert_eq(s, i < 4 ? ITER_OK : ITER_END);
        cr_assert_eq(iter_loader_in_next(asked), 0);
        if (i < 4) cr_assert((uint64_t)seen_since >= start, "not in next() while it works");
        iter_batch_unref(batch);
    }
    const uint64_t end = now_ns();
    cr_assert_eq(iter_loader_stats_read(asked, &stats, NULL), ITER_OK);
    cr_assert_eq(stats.next_calls, 5);
    cr_assert_eq(stats.next_tid, (int32_t)syscall(SYS_gettid));
    cr_assert(stats.next_first_ns >= begin && stats.next_last_ns <= end);
    cr_assert(stats.next_ns <= inside && stats.next_ns >= 4000000, "%llu of %llu ns",
              (unsigned long long)stats.next_ns, (unsigned long long)inside);
    cr_assert(stats.prefetch >= 1);
    iter_loader_unref(asked);
    iter_dataset_unref(data);
}

/* Each call that runs out of time adds its time; the batch is one call. */
Test(loader_made_of, a_wait_in_parts_is_one_call) {
    own_dataset own = {.n = 10, .sleep_ns = 30000000};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 10;
    opt.workers = 1;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_batch *batch;
    iter_status s;
    uint64_t inside = 0;
    do {
        const uint64_t start = now_ns();
        s = iter_loader_next_within(loader, 1, &batch, NULL);
        inside += now_ns() - start;
    } while (s == ITER_ETIMEDOUT);
    cr_assert_eq(s, ITER_OK);
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    cr_assert_eq(iter_loader_stats_read(loader, &stats, NULL), ITER_OK);
    cr_assert_eq(stats.next_calls, 1);
    cr_assert(stats.next_ns <= inside);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

Test(loader_made_of, an_older_program_gets_the_members_that_it_knows) {
    own_dataset own = {.n = 40};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader *loader = drive_loader(data, NULL, NULL);
    drive_run(loader, 1);
    iter_loader_stats stats;
    memset(&stats, 0x5a, sizeof(stats));
    stats.struct_size = offsetof(iter_loader_stats, next_calls);
    cr_assert_eq(iter_loader_stats_read(loader, &stats, NULL), ITER_OK);
    cr_assert_eq(stats.struct_size, offsetof(iter_loader_stats, next_calls));
    cr_assert_eq(stats.samples, 40);
    cr_assert_eq(stats.next_calls, 0x5a5a5a5a5a5a5a5a);
    static const size_t wrong[] = {0, 8, offsetof(iter_loader_stats, next_calls) - 1,
                                   sizeof(stats) + 1};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        stats.struct_size = wrong[i];
        cr_assert_eq(iter_loader_stats_read(loader, &stats, NULL), ITER_EINVAL);
    }
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}
