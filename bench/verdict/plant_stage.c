/*
 * plant_stage.c - a stage of a chain that copies its row and takes time for it.
 *
 * CPU time is spent by the thread's own clock, so that it is the same work if threads share a core.
 * Sleep is accumulated and taken a millisecond at a time. With `times` the thread sleeps in
 * proportion to what it does between two rows, so the whole process becomes so many times slower.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <iter/ranks.h>

#include "bench/common/bench_util.h"
#include "bench/verdict/plant.h"

#define SLEEP_LEAST_US 1000.0

typedef struct stage_options {
    double us;
    int32_t how; /* 0 = burn, 1 = sleep */
    int64_t every;
    int64_t worker;
    double times;
    int64_t rank;
} stage_options;

typedef struct stage_state {
    int64_t rows;
    double owed_us;
    int64_t worker; /* this thread's number + 1; 0 = unknown so far */
    int64_t rank;   /* this process's number + 1; 0 = unknown so far */
    double left_us; /* when the last row was done */
} stage_state;

static const iter_option rows[] = {
    {"us", "microseconds a row", ITER_OPTION_DOUBLE, offsetof(stage_options, us), 0, 1e9, NULL, 0},
    {"how", "what they are spent on", ITER_OPTION_CHOICE, offsetof(stage_options, how), 0, 0,
     "burn|sleep", 0},
    {"every", "only every so many rows, and then for all of them", ITER_OPTION_INT,
     offsetof(stage_options, every), 1, INT32_MAX, NULL, 0},
    {"worker", "only in this worker; -1 = in all", ITER_OPTION_INT, offsetof(stage_options, worker),
     -1, 1024, NULL, 0},
    {"times", "instead of us: sleep until the time since the last row is so many times as long",
     ITER_OPTION_DOUBLE, offsetof(stage_options, times), 1, 100, NULL, 0},
    {"rank", "only in this rank of several processes; -1 = in all", ITER_OPTION_INT,
     offsetof(stage_options, rank), -1, INT32_MAX, NULL, 0},
    {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0},
};

static const stage_options defaults = {.every = 1, .worker = -1, .times = 1, .rank = -1};

static double thread_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static iter_status stage_plan(const void *options, const iter_desc *in, iter_desc *out,
                              size_t *out_scratch, iter_error *err) {
    (void)options, (void)err;
    *out = *in;
    *out_scratch = 0;
    return ITER_OK;
}

/* Workers are called iter0-w0, iter0-w1, ..., some time after they start. The caller's thread
 * counts as the first. */
static int64_t this_worker(stage_state *s) {
    char name[32] = "";
    long long number = 0;
    if (s->worker == 0 && pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
        sscanf(name, "iter%*u-w%lld", &number) == 1)
        s->worker = number + 1;
    return s->worker > 0 ? s->worker - 1 : 0;
}

static int64_t this_rank(stage_state *s) {
    iter_ranks told;
    if (s->rank == 0) s->rank = iter_ranks_read(&told, NULL) == ITER_OK ? told.rank + 1 : 1;
    return s->rank - 1;
}

static void sleep_owed(stage_state *s) {
    if (s->owed_us < SLEEP_LEAST_US) return;
    bench_sleep(s->owed_us * 1e-6);
    s->owed_us = 0;
}

static void spend(stage_state *s, const stage_options *o) {
    if (o->times > 1) {
        if (s->left_us > 0) s->owed_us += (o->times - 1) * (bench_now() * 1e6 - s->left_us);
        sleep_owed(s);
        s->left_us = bench_now() * 1e6;
        return;
    }
    if (o->how == 1) {
        s->owed_us += o->us * (double)o->every;
        sleep_owed(s);
        return;
    }
    const double until = thread_us() + o->us * (double)o->every;
    while (thread_us() < until) {
    }
}

static iter_status stage_apply(void *state, const void *options, const iter_tensor *in,
                               iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
    stage_state *s = state;
    const stage_options *o = options;
    (void)rng, (void)scratch, (void)err;
    memcpy(out->data, in->data, iter_desc_bytes(&in->desc));
    out->desc.dims[0] = in->desc.dims[0];
    if (o->worker >= 0 && this_worker(s) != o->worker) return ITER_OK;
    if (o->rank >= 0 && this_rank(s) != o->rank) return ITER_OK;
    if (++s->rows % o->every == 0) spend(s, o);
    return ITER_OK;
}

const iter_transform_ops plant_stage = {
    .base = {.struct_size = sizeof(iter_transform_ops),
             .name = "takes-time",
             .help = "copies its row and takes time over it",
             .options = rows,
             .defaults = &defaults,
             .options_size = sizeof(stage_options),
             .state_size = sizeof(stage_state)},
    .role = ITER_DATA,
    .plan = stage_plan,
    .apply = stage_apply,
};
