/*
 * stress_drop.c - reads that never end by themselves do not hold up a loader that goes elsewhere:
 * after seek(), restore() and reset() they are dropped, each at most once, and the new place's
 * batches come.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/bounded.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

#define N          500 /* in five files */
#define BATCH      10
#define FILES_AWAY 2   /* their reads never end */
#define N_AWAY     200 /* samples in them */
#define DEPTH      64
#define ROUNDS     100
#define GIVE_UP_MS 60000 /* no read takes that long */
#define N_WAYS     3

/* ---- A source whose first files do not answer ------------------------------------------------ */

typedef struct away {
    void *inner;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t more;
    bool woken, canceled;
    iter_read *queued[DEPTH];
    uint32_t n;
} away;

static atomic_uint n_away, n_dropped, n_dropped_twice;

static void away_close(void *state) {
    away *s = state;
    iter__source_pread.close(s->inner);
    free(s->inner);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->more);
}

static iter_status away_open(void *state, const iter_source_config *config, char *fallback,
                             size_t capacity, iter_error *err) {
    away *s = state;
    s->inner = calloc(1, iter__source_pread.base.state_size + 1);
    if (!s->inner) return ITER_ENOMEM;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    const iter_status status = iter__source_pread.open(s->inner, config, fallback, capacity, err);
    if (status < 0) free(s->inner);
    return status;
}

static iter_status away_read(void *state, iter_read *read) {
    away *s = state;
    return iter__source_pread.read(s->inner, read);
}

static iter_status away_submit(void *state, iter_read *read) {
    away *s = state;
    pthread_mutex_lock(&s->lock);
    const bool full = s->n == DEPTH;
    if (!full) s->queued[s->n++] = read;
    pthread_mutex_unlock(&s->lock);
    if (!full && read->object < FILES_AWAY) atomic_fetch_add(&n_away, 1);
    return full ? ITER_AGAIN : ITER_PENDING;
}

static iter_status away_commit(void *state) {
    away *s = state;
    pthread_mutex_lock(&s->lock);
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    return ITER_OK;
}

static bool ends(const away *s, const iter_read *read) {
    return s->canceled || read->reserved[0] || read->object >= FILES_AWAY;
}

static int32_t away_reap(void *state, iter_read **out, int32_t max) {
    away *s = state;
    int32_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n && n < max;) {
        iter_read *read = s->queued[i];
        if (!ends(s, read)) {
            i++;
            continue;
        }
        s->queued[i] = s->queued[--s->n];
        if (read->object < FILES_AWAY)
            read->status = ITER_ECANCELED;
        else
            (void)iter__source_pread.read(s->inner, read);
        out[n++] = read;
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

static iter_status away_wait(void *state, int64_t timeout_ns) {
    away *s = state;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(timeout_ns < 0 || timeout_ns > 50000000 ? 50000000 : timeout_ns);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&s->lock);
    bool over = s->woken;
    for (uint32_t i = 0; i < s->n; i++)
        over |= ends(s, s->queued[i]);
    if (!over) (void)pthread_cond_timedwait(&s->more, &s->lock, &until);
    s->woken = false;
    pthread_mutex_unlock(&s->lock);
    return ITER_OK;
}

static void signal_it(away *s, bool *flag) {
    pthread_mutex_lock(&s->lock);
    *flag = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

static void away_wake(void *state) {
    signal_it(state, &((away *)state)->woken);
}

static void away_cancel(void *state) {
    signal_it(state, &((away *)state)->canceled);
}

static void away_drop(void *state, iter_read *read) {
    away *s = state;
    pthread_mutex_lock(&s->lock);
    if (read->reserved[0]) atomic_fetch_add(&n_dropped_twice, 1);
    read->reserved[0] = 1;
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(&n_dropped, 1);
}

static const iter_source_ops away_ops = {
    .base = {.struct_size = sizeof(iter_source_ops), .name = "away", .state_size = sizeof(away)},
    .open = away_open,
    .close = away_close,
    .read = away_read,
    .submit = away_submit,
    .commit = away_commit,
    .reap = away_reap,
    .wait = away_wait,
    .wake = away_wake,
    .cancel = away_cancel,
    .drop = away_drop};

/* ---- Loaders that go elsewhere --------------------------------------------------------------- */

static uint32_t draw(uint32_t *seed, uint32_t n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

/* Goes to a place whose reads do not end, and waits until one of them is in flight. */
static void go_away(iter_loader *loader, int32_t workers, uint32_t sample) {
    iter_error err;
    iter_batch *batch;
    const unsigned before = atomic_load(&n_away);
    EXPECT_OK(iter_loader_seek(loader, 0, sample, &err), &err);
    if (workers == 0) {
        EXPECT_EQ(iter_loader_next_within(loader, 1, &batch, &err), ITER_ETIMEDOUT);
        return;
    }
    while (atomic_load(&n_away) == before)
        bounded_sleep(0.0005);
}

static void take(iter_loader *loader, uint64_t sample) {
    iter_error err;
    iter_batch *batch = NULL;
    if (!EXPECT_OK(iter_loader_next_within(loader, GIVE_UP_MS, &batch, &err), &err)) return;
    EXPECT_EQ(iter_batch_index(batch)[0], sample);
    EXPECT_EQ(drive_wrong_rows(batch), 0);
    iter_batch_unref(batch);
}

static void one_loader(const char *folder, int32_t workers, uint32_t prefetch) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    uint8_t saved[512];
    size_t size = 0;
    iter_error err;
    uint32_t seed = 1 + (uint32_t)workers;
    opt.batch_size = BATCH;
    opt.workers = workers;
    opt.prefetch = prefetch;
    opt.memory.limit = 64 << 20;
    opt.reading.ops = &away_ops;
    opt.reading.source = ITER_SOURCE_RING;
    iter_dataset *data = drive_open(folder);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    EXPECT_OK(iter_loader_seek(loader, 0, N_AWAY, &err), &err);
    take(loader, N_AWAY);
    EXPECT_OK(iter_loader_save(loader, saved, sizeof(saved), &size, &err), &err);
    atomic_store(&n_dropped, 0);
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t back = N_AWAY + BATCH * draw(&seed, (N - N_AWAY) / BATCH - 1);
        go_away(loader, workers, BATCH * draw(&seed, N_AWAY / BATCH));
        switch (draw(&seed, N_WAYS)) {
        case 0:
            EXPECT_OK(iter_loader_restore(loader, saved, size, &err), &err);
            take(loader, N_AWAY + BATCH);
            continue;
        case 1: EXPECT_OK(iter_loader_reset(loader, &err), &err); break;
        default: break;
        }
        EXPECT_OK(iter_loader_seek(loader, 0, back, &err), &err);
        take(loader, back);
    }
    EXPECT(atomic_load(&n_dropped) >= ROUNDS);
    EXPECT_EQ(atomic_load(&n_dropped_twice), 0);
    printf("%d workers, prefetch %u: %u reads that do not end, %u dropped\n", workers, prefetch,
           atomic_load(&n_away), atomic_load(&n_dropped));
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

int main(void) {
    char folder[512];
    drive_cifar(folder, N);
    for (int32_t workers = 0; workers <= 3; workers++) {
        one_loader(folder, workers, 0);
        one_loader(folder, workers, 2);
    }
    make_folder_gone(folder);
    return EXPECT_DONE();
}
