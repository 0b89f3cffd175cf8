/*
 * stress_calls.c - calls of several threads at once, and calls in signal handlers: reset and seek
 * while another thread waits in next(); two stops; a stop while next() reads in another thread;
 * statistics during a stop; cancel() in a handler; save after cancel; next() with its own timeout.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "tests/support/bounded.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/own_dataset.h"
#include "tests/support/source_drive.h"

#define PATIENT 20.0

/* ---- Moves while another thread waits -------------------------------------------------------- */

typedef enum go { GO_RESET, GO_RESET_LAST, GO_SEEK, GO_SEEK_END, GO_RESTORE, N_GOS } go;

typedef struct waiter {
    iter_loader *loader;
    iter_status status;
    uint32_t epoch;
    uint64_t number;
} waiter;

static void wait_in_next(void *arg) {
    waiter *w = arg;
    iter_batch *batch;
    w->status = iter_loader_next(w->loader, &batch, NULL);
    if (w->status != ITER_OK) return;
    w->epoch = iter_batch_describe(batch).epoch;
    w->number = iter_batch_describe(batch).number;
    iter_batch_unref(batch);
}

static void *wait_thread(void *arg) {
    bounded(wait_in_next, arg, PATIENT, "next() while another thread goes elsewhere");
    return NULL;
}

/* get() hangs in the last batch, which another thread waits for in next(). Then the loader is
 * moved, and next() must return the batch at the new place. */
static void goes_elsewhere(go where, int32_t lookahead) {
    own_dataset own = {.n = 40, .block_from = 30};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.workers = 2;
    opt.batch_size = 10;
    opt.prefetch = 6;
    opt.lookahead = lookahead;
    opt.epochs = where == GO_RESET_LAST || where == GO_SEEK_END ? 1 : 0;
    atomic_store(&own.block, true);
    iter_dataset *data = own_open(&own, &own_ops);
    waiter w = {.loader = drive_loader(data, NULL, &opt)};
    iter_error err;
    iter_batch *batch;
    uint8_t saved[512];
    size_t size;
    EXPECT_OK(iter_loader_save(w.loader, saved, sizeof(saved), &size, &err), &err);
    for (int i = 0; i < 3; i++) {
        if (EXPECT_OK(iter_loader_next(w.loader, &batch, &err), &err)) iter_batch_unref(batch);
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_thread, &w) != 0) return;
    bounded_sleep(0.05);
    switch (where) {
    case GO_RESET: EXPECT_OK(iter_loader_reset(w.loader, &err), &err); break;
    case GO_RESET_LAST: EXPECT_EQ(iter_loader_reset(w.loader, &err), ITER_END); break;
    case GO_SEEK: EXPECT_OK(iter_loader_seek(w.loader, 0, 0, &err), &err); break;
    case GO_SEEK_END: EXPECT_OK(iter_loader_seek(w.loader, 1, 0, &err), &err); break;
    default: EXPECT_OK(iter_loader_restore(w.loader, saved, size, &err), &err); break;
    }
    atomic_store(&own.block, false);
    pthread_join(thread, NULL);
    const bool ends = where == GO_RESET_LAST || where == GO_SEEK_END;
    EXPECT_EQ(w.status, ends ? ITER_END : ITER_OK);
    EXPECT_EQ(w.epoch, where == GO_RESET ? 1 : 0);
    EXPECT_EQ(w.number, 0);
    iter_loader_unref(w.loader);
    iter_dataset_unref(data);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

typedef struct stopper {
    iter_loader *loader;
    atomic_bool *over;
    iter_status status;
    double ended;
} stopper;

static void *stop_it(void *arg) {
    stopper *s = arg;
    s->status = iter_loader_stop(s->loader, NULL);
    s->ended = bounded_seconds();
    return NULL;
}

static void *look_at_it(void *arg) {
    stopper *s = arg;
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    while (!atomic_load(s->over))
        s->status = iter_loader_stats_read(s->loader, &stats, NULL);
    return NULL;
}

/* The second stop must wait until the workers have left, and return the first one's status. */
static void two_stops(int64_t grace_ms, iter_status answer) {
    own_dataset own = {.n = 1000};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.workers = 3;
    opt.batch_size = 10;
    opt.faults.grace_ms = grace_ms;
    atomic_store(&own.block, true);
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_dataset_unref(data);
    while (atomic_load(&own.n_inside) == 0)
        bounded_sleep(0.001);
    atomic_bool over = false;
    stopper stops[2] = {{.loader = loader}, {.loader = loader}},
            looks = {.loader = loader, .over = &over};
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, look_at_it, &looks);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[1 + i], NULL, stop_it, &stops[i]);
    bounded_sleep(0.1);
    const double released = bounded_seconds();
    if (answer == ITER_OK) atomic_store(&own.block, false);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[1 + i], NULL);
        EXPECT_EQ(stops[i].status, answer);
        if (answer == ITER_OK) EXPECT(stops[i].ended >= released);
    }
    atomic_store(&over, true);
    pthread_join(threads[0], NULL);
    EXPECT_EQ(iter_loader_stop(loader, NULL), answer);
    atomic_store(&own.block, false);
    iter_loader_unref(loader);
    while (!atomic_load(&own.n_closed)) /* the last thread frees the dataset */
        bounded_sleep(0.001);
}

/* A ring whose try_read() is slow and reads nothing, and which counts its reads. */
static atomic_bool trying;
static atomic_int n_in_flight, n_left_at_close;

static iter_status slow_try_read(void *state, iter_read *read) {
    (void)state, (void)read;
    atomic_store(&trying, true);
    bounded_sleep(0.1);
    return ITER_AGAIN;
}

static iter_status counted_submit(void *state, iter_read *read) {
    const iter_status status = source_named("ring")->submit(state, read);
    if (status == ITER_PENDING) atomic_fetch_add(&n_in_flight, 1);
    return status;
}

static int32_t counted_reap(void *state, iter_read **out, int32_t max) {
    const int32_t n = source_named("ring")->reap(state, out, max);
    atomic_fetch_sub(&n_in_flight, n);
    return n;
}

static void counted_close(void *state) {
    atomic_fetch_add(&n_left_at_close, atomic_load(&n_in_flight));
    source_named("ring")->close(state);
}

/* Without workers: another thread stops the loader when next() is about to issue reads. The source
 * must not be closed before they end. */
static void stop_while_reading(void) {
    char folder[512];
    drive_cifar(folder, 100);
    iter_source_ops slow = *source_named("ring");
    slow.try_read = slow_try_read;
    slow.submit = counted_submit;
    slow.reap = counted_reap;
    slow.close = counted_close;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.reading.source = ITER_SOURCE_RING;
    opt.reading.ops = &slow;
    iter_dataset *data = drive_open(folder);
    waiter w = {.loader = drive_loader(data, NULL, &opt)};
    iter_error err;
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_thread, &w) != 0) return;
    while (!atomic_load(&trying))
        bounded_sleep(0.001);
    EXPECT_OK(iter_loader_stop(w.loader, &err), &err);
    pthread_join(thread, NULL);
    EXPECT_EQ(w.status, ITER_ECANCELED);
    iter_loader_unref(w.loader);
    EXPECT_EQ(atomic_load(&n_left_at_close), 0);
    iter_dataset_unref(data);
    make_folder_gone(folder);
}

static bool has_ring(void) {
    source_drive drive;
    const iter_source_ops *ring = source_named("ring");
    const iter_source_config config = {.depth = 8};
    if (!ring || source_drive_open(&drive, ring, &config) != ITER_OK) return false;
    source_drive_close(&drive);
    return true;
}

/* ---- A signal handler cancels ---------------------------------------------------------------- */

static _Atomic(iter_loader *) interrupted;

static void cancel_in_handler(int number) {
    (void)number;
    iter_loader_cancel(atomic_load(&interrupted));
}

static void cancels_in_a_handler(void *arg) {
    (void)arg;
    struct sigaction action = {.sa_handler = cancel_in_handler}, before;
    sigaction(SIGALRM, &action, &before);
    own_dataset own = {.n = 100000};
    iter_dataset *data = own_open(&own, &own_ops);
    for (int round = 0; round < 300; round++) {
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        opt.workers = round % 3;
        opt.batch_size = 4;
        iter_loader *loader = drive_loader(data, NULL, &opt);
        atomic_store(&interrupted, loader);
        const struct itimerval soon = {.it_value = {.tv_usec = 200 + round % 700}};
        setitimer(ITIMER_REAL, &soon, NULL);
        iter_error err;
        iter_batch *batch;
        iter_status s;
        for (;;) { /* until the signal comes, however late */
            s = iter_loader_next(loader, &batch, &err);
            if (s == ITER_OK) iter_batch_unref(batch);
            if (s == ITER_END) s = iter_loader_reset(loader, &err);
            if (s < 0) break;
        }
        EXPECT_STATUS(s, ITER_ECANCELED, &err);
        uint8_t saved[512]; /* as a program does that is told to exit */
        size_t size;
        EXPECT_OK(iter_loader_save(loader, saved, sizeof(saved), &size, &err), &err);
        iter_loader *again = drive_loader(data, NULL, &opt);
        uint32_t epochs[2];
        uint64_t samples[2];
        iter_loader_position(loader, &epochs[0], &samples[0]);
        EXPECT_OK(iter_loader_restore(again, saved, size, &err), &err);
        iter_loader_position(again, &epochs[1], &samples[1]);
        EXPECT_EQ(samples[0], samples[1]);
        iter_loader_unref(again);
        iter_loader_unref(loader);
    }
    iter_dataset_unref(data);
    sigaction(SIGALRM, &before, NULL);
}

/* ---- next() with a timeout of its own -------------------------------------------------------- */

static void next_within(int32_t workers) {
    own_dataset own = {.n = 40};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.workers = workers;
    opt.batch_size = 10;
    iter_dataset *data = own_open(&own, &own_ops);
    iter_error err;
    iter_batch *batch;
    atomic_store(&own.block, workers > 0);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    if (workers > 0) {
        EXPECT_EQ(iter_loader_next_within(loader, 0, &batch, &err), ITER_AGAIN);
        EXPECT(batch == NULL);
        EXPECT_ERROR(iter_loader_next_within(loader, 30, &batch, &err), ITER_ETIMEDOUT, &err,
                     "batch 0 of epoch 0 is not ready");
        /* A second call in a row goes on with the same wait. */
        EXPECT_ERROR(iter_loader_next_within(loader, 30, &batch, &err), ITER_ETIMEDOUT, &err,
                     "batch 0 of epoch 0 is not ready");
        double waited = 0;
        EXPECT(sscanf(strstr(err.message, "after "), "after %lf ms", &waited) == 1);
        EXPECT(waited >= 59);
        iter_loader_stats stats = {.struct_size = sizeof(stats)};
        atomic_store(&own.block, false);
        EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
        iter_batch_unref(batch);
        EXPECT_OK(iter_loader_stats_read(loader, &stats, &err), &err);
        EXPECT(stats.next_wait_ns >= 59000000);
        EXPECT_OK(iter_loader_seek(loader, 0, 0, &err), &err);
    }
    int n = 0;
    for (iter_status s;
         (s = iter_loader_next_within(loader, n % 3 - 1, &batch, &err)) != ITER_END;) {
        if (s == ITER_AGAIN || s == ITER_ETIMEDOUT) continue;
        if (!EXPECT_OK(s, &err)) break;
        EXPECT_EQ(iter_batch_describe(batch).number, n);
        iter_batch_unref(batch);
        n++;
    }
    EXPECT_EQ(n, 4);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* ---- A stop that waits for less time --------------------------------------------------------- */

static void stop_within(void) {
    own_dataset own = {.n = 40};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.workers = 1;
    opt.batch_size = 10;
    opt.faults.grace_ms = 3600 * 1000; /* a stop that took this limit would not end */
    iter_dataset *data = own_open(&own, &own_ops);
    iter_error err;
    iter_batch *batch;
    atomic_store(&own.block, true);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    EXPECT_EQ(iter_loader_next_within(loader, 30, &batch, &err), ITER_ETIMEDOUT);
    EXPECT_ERROR(iter_loader_stop_within(loader, 20, &err), ITER_ETIMEDOUT, &err, "after 20 ms");
    EXPECT_ERROR(iter_loader_stop(loader, &err), ITER_ETIMEDOUT, &err, "after 20 ms");
    iter_dataset_unref(data);
    atomic_store(&own.block, false);
    iter_loader_unref(loader);
    while (!atomic_load(&own.n_closed)) /* the last thread frees the dataset */
        bounded_sleep(0.001);
}

int main(void) {
    stop_within();
    for (go where = 0; where < N_GOS; where++) {
        goes_elsewhere(where, ITER_LOOKAHEAD_ENDLESS);
        goes_elsewhere(where, ITER_LOOKAHEAD_EPOCH);
    }
    two_stops(5000, ITER_OK);
    two_stops(50, ITER_ETIMEDOUT);
    if (has_ring()) stop_while_reading();
    bounded(cancels_in_a_handler, NULL, 3 * PATIENT, "cancel() in a handler");
    for (int32_t workers = 0; workers <= 2; workers++)
        next_within(workers);
    return EXPECT_DONE();
}
