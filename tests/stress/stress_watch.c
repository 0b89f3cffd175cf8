/*
 * stress_watch.c - the watchdog names the stage that stalls within the limit: a get() that sleeps,
 * a stage that sleeps, a source that hangs, a sampler that hangs, with and without workers. Its
 * callback cancels, drops the last reference, or does not return.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/builtin_tables.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/own_dataset.h"
#include "tests/support/source_fault.h"

#define N        96
#define STUCK    37
#define STALL_MS 300
#define LATE_MS  8000 /* for a busy machine, and sanitizers */

/* What the callback saw; it also ends the hang. A machine that stops for STALL_MS makes other
 * batches late, too: their reports are true, and are counted apart. */
typedef struct watcher {
    iter_stall first, last; /* of the batch that hangs, and of all */
    atomic_int n, n_others; /* reports of that batch, and of others */
    atomic_int n_early;     /* of batches that were not late */
    atomic_bool *hold;      /* NULL = the faulty source */
    atomic_bool *stuck;     /* a report before this is set is about another batch; NULL = none is */
    iter_loader *cancels;
    atomic_bool blocks;
} watcher;

static atomic_bool hold;  /* while it is set, the thread that handles sample STUCK sleeps */
static atomic_bool stuck; /* it sleeps */

static void pause_ms(int64_t ms) {
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void sleep_while_held(void) {
    atomic_store(&stuck, atomic_load(&hold));
    while (atomic_load(&hold))
        pause_ms(1);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void on_stall(void *user, const iter_stall *stall) {
    watcher *w = user;
    const bool first = atomic_load(&w->n) == 0;
    w->last = *stall;
    if (stall->waited_ns < STALL_MS * (uint64_t)1000000) atomic_fetch_add(&w->n_early, 1);
    if (first ? w->stuck && !atomic_load(w->stuck) : stall->batch != w->first.batch) {
        atomic_fetch_add(&w->n_others, 1);
        return;
    }
    if (first) w->first = *stall;
    atomic_fetch_add(&w->n, 1);
    if (w->cancels) iter_loader_cancel(w->cancels);
    while (atomic_load(&w->blocks))
        pause_ms(1);
    if (w->hold) {
        atomic_store(w->hold, false);
    } else {
        source_fault_release();
    }
}

static iter_loader_options options(int32_t workers, watcher *w) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8;
    opt.workers = workers;
    opt.memory.limit = 64 << 20;
    opt.watch.stall_ms = STALL_MS;
    opt.watch.on_stall = on_stall;
    opt.watch.user = w;
    return opt;
}

/* Takes an epoch; returns the number of its rows. */
static uint32_t one_epoch(iter_loader *loader) {
    iter_error err;
    iter_batch *batch;
    iter_status s;
    uint32_t n = 0;
    while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
        n += iter_batch_describe(batch).n_rows;
        iter_batch_unref(batch);
    }
    EXPECT_STATUS(s, ITER_END, &err);
    return n;
}

/* The report came in time, once, and all reports are in the statistics, too. */
static bool check_report(iter_loader *loader, const watcher *w, const char *stage) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    EXPECT_OK(iter_loader_stats_read(loader, &stats, NULL), NULL);
    const iter_stall *stall = &w->first;
    bool fine = EXPECT_EQ(atomic_load(&w->n), 1) & EXPECT_EQ(atomic_load(&w->n_early), 0) &
                EXPECT_EQ(stats.n_stalls, (uint64_t)atomic_load(&w->n_others) + 1);
    fine &= EXPECT_STR(stall->stage, stage) & EXPECT_STR(stats.stall_text, w->last.message);
    fine &= EXPECT_EQ(stall->struct_size, sizeof(*stall));
    fine &= EXPECT(stall->waited_ns >= STALL_MS * (uint64_t)1000000) &
            EXPECT(stall->waited_ns < LATE_MS * (uint64_t)1000000);
    fine &= EXPECT(strstr(stall->message, stage) != NULL);
    if (!fine) fprintf(stderr, "  %s: %s\n", stage, stall->message);
    return fine;
}

/* ---- get() ----------------------------------------------------------------------------------- */

static iter_status describe(void *user, iter_description *out, iter_error *err) {
    (void)user, (void)err;
    out->n_samples = N;
    out->n_fields = 1;
    out->fields[0] = (iter_field){
        .name = "data", .role = ITER_DATA, .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {2}}};
    return ITER_OK;
}

static iter_status start(void *user, void **out_state, iter_error *err) {
    (void)err;
    *out_state = user;
    return ITER_OK;
}

static void stop(void *user, void *state) {
    (void)user, (void)state;
}

static iter_status get(void *user, void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)state, (void)rng, (void)err;
    for (uint32_t i = 0; i < n; i++) {
        int32_t *row = (int32_t *)rows[0].data + i * rows[0].strides[0];
        row[0] = (int32_t)indices[i];
        row[1] = 0;
        if (user && indices[i] == STUCK) sleep_while_held();
    }
    return ITER_OK;
}

static const iter_dataset_ops slow_ops = {.struct_size = sizeof(slow_ops),
                                          .name = "slow",
                                          .describe = describe,
                                          .start = start,
                                          .stop = stop,
                                          .get = get};
static const iter_dataset_ops slow_serial_ops = {
    .struct_size = sizeof(slow_ops), .name = "slow", .describe = describe, .get = get};

static iter_dataset *open_slow(const iter_dataset_ops *ops, bool sleeps) {
    static int sleeper;
    iter_dataset *data = NULL;
    EXPECT_OK(iter_dataset_create(ops, sleeps ? &sleeper : NULL, &data, NULL), NULL);
    return data;
}

static void sleeping_get(const iter_dataset_ops *ops, int32_t workers) {
    watcher w = {.hold = &hold, .stuck = &stuck};
    const iter_loader_options opt = options(workers, &w);
    iter_dataset *data = open_slow(ops, true);
    atomic_store(&stuck, false);
    atomic_store(&hold, true);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    EXPECT_EQ(one_epoch(loader), N);
    check_report(loader, &w, "get");
    /* get() was called for a whole batch, so the report has the batch's first sample. */
    EXPECT_EQ(w.first.sample, STUCK / 8 * 8);
    /* Without start(), get() runs in one worker at a time: a worker that sleeps over a later batch
     * may keep another one from an earlier batch. */
    if (ops->start || workers < 2) EXPECT_EQ(w.first.batch, STUCK / 8);
    EXPECT(w.first.batch <= STUCK / 8);
    EXPECT_EQ(w.first.epoch, 0);
    EXPECT(w.first.worker >= 0 && w.first.worker < (workers ? workers : 1));
    EXPECT_STR(w.first.file, "");
    EXPECT(strstr(w.first.message, workers ? "worker " : "the caller's thread"));
    EXPECT(strstr(w.first.message, "(slow), sample 32"));
    /* about the time since the call began */
    EXPECT(w.first.since_ns > STALL_MS * (uint64_t)500000);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* ---- A stage --------------------------------------------------------------------------------- */

static iter_status nap_plan(const void *opt, const iter_desc *in, iter_desc *out,
                            size_t *out_scratch, iter_error *err) {
    (void)opt, (void)err;
    *out = *in;
    *out_scratch = 0;
    return ITER_OK;
}

static iter_status nap(void *state, const void *opt, const iter_tensor *in, iter_tensor *out,
                       iter_rng *rng, void *scratch, iter_error *err) {
    (void)state, (void)opt, (void)rng, (void)scratch, (void)err;
    memcpy(out->data, in->data, 2 * sizeof(int32_t));
    if (*(const int32_t *)in->data == STUCK) sleep_while_held();
    return ITER_OK;
}

static const iter_transform_ops nap_ops = {
    .base = {sizeof(iter_transform_ops), "nap", "sleeps", NULL, NULL, 0, 0},
    .plan = nap_plan,
    .apply = nap};

static void sleeping_stage(int32_t workers) {
    watcher w = {.hold = &hold, .stuck = &stuck};
    const iter_loader_options opt = options(workers, &w);
    iter_registry *registry;
    iter_chain *chain;
    iter_error err;
    EXPECT_OK(iter_registry_create(&registry, &err), &err);
    EXPECT_OK(iter_registry_add_transform(registry, &nap_ops, &err), &err);
    if (!EXPECT_OK(iter_chain_parse("nap | cast:dtype=f32", registry, &chain, &err), &err)) return;
    iter_dataset *data = open_slow(&slow_ops, false);
    atomic_store(&stuck, false);
    atomic_store(&hold, true);
    iter_loader *loader = drive_loader(data, chain, &opt);
    EXPECT_EQ(one_epoch(loader), N);
    check_report(loader, &w, "nap");
    EXPECT_EQ(w.first.sample, STUCK);
    EXPECT_EQ(w.first.batch, STUCK / 8);
    EXPECT(w.first.since_ns > STALL_MS * (uint64_t)500000);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    iter_registry_destroy(registry);
}

/* ---- A source -------------------------------------------------------------------------------- */

static char folder[512];

static void hung_source(const iter_source_ops *source, int32_t workers, int32_t shuffle) {
    watcher w = {.hold = NULL};
    iter_loader_options opt = options(workers, &w);
    opt.reading.source = ITER_SOURCE_RING;
    opt.reading.ops = source;
    opt.shuffle = shuffle;
    opt.sampler.block = 32;
    const source_fault_plan plan = {
        .inner = &iter__source_pread, .seed = 5, .hang = 1000, .try_errno = EAGAIN};
    source_fault_set(&plan);
    iter_dataset *data = drive_open(folder);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    EXPECT_EQ(one_epoch(loader), N);
    check_report(loader, &w, "read");
    EXPECT_EQ(w.first.worker, -1);
    EXPECT_EQ(w.first.batch, 0);
    EXPECT(strstr(w.first.file, "data_batch_"));
    EXPECT(strstr(w.first.message, "data_batch_") && strstr(w.first.message, "in flight for"));
    EXPECT(w.first.sample < N);
    if (shuffle == ITER_SHUFFLE_NONE) EXPECT_EQ(w.first.offset % 3073, 0);
    EXPECT(w.first.since_ns >= w.first.waited_ns / 2 &&
           w.first.since_ns < LATE_MS * (uint64_t)1000000);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* A stage that hangs over bytes that were already read: the report must name the stage and the
 * sample's file, not a read that came later. */
static atomic_int n_naps;

static iter_status nap_over_bytes(void *state, const void *opt, const iter_tensor *in,
                                  iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
    (void)state, (void)opt, (void)rng, (void)scratch, (void)err;
    memcpy(out->data, in->data, iter_desc_bytes(&in->desc));
    if (atomic_fetch_add(&n_naps, 1) == 20) sleep_while_held();
    return ITER_OK;
}

static void sleeping_over_bytes(int32_t workers) {
    static const iter_transform_ops ops = {
        .base = {sizeof(iter_transform_ops), "nap", "sleeps", NULL, NULL, 0, 0},
        .plan = nap_plan,
        .apply = nap_over_bytes};
    watcher w = {.hold = &hold, .stuck = &stuck};
    iter_loader_options opt = options(workers, &w);
    opt.reading.source = ITER_SOURCE_RING;
    opt.reading.ops = &source_fault_ops;
    const source_fault_plan plan = {.inner = &iter__source_pread, .try_errno = EAGAIN};
    source_fault_set(&plan);
    iter_registry *registry;
    iter_chain *chain;
    iter_error err;
    EXPECT_OK(iter_registry_create(&registry, &err), &err);
    EXPECT_OK(iter_registry_add_transform(registry, &ops, &err), &err);
    if (!EXPECT_OK(iter_chain_parse("nap", registry, &chain, &err), &err)) return;
    iter_dataset *data = drive_open(folder);
    atomic_store(&n_naps, 0);
    atomic_store(&stuck, false);
    atomic_store(&hold, true);
    iter_loader *loader = drive_loader(data, chain, &opt);
    EXPECT_EQ(one_epoch(loader), N);
    check_report(loader, &w, "nap");
    EXPECT(w.first.worker >= 0 && w.first.sample < N);
    EXPECT(strstr(w.first.file, "data_batch_"));
    EXPECT_EQ(w.first.offset % 3073, 0);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    iter_registry_destroy(registry);
}

/* A stall that lasts is reported once, even if next() gives up and is called again. */
static void *let_go_soon(void *arg) {
    pause_ms(5 * STALL_MS);
    atomic_store((atomic_bool *)arg, false);
    return NULL;
}

static void said_once(int32_t workers, int64_t timeout_ms) {
    atomic_bool ignored;
    watcher w = {.hold = &ignored, .stuck = &stuck};
    iter_loader_options opt = options(workers, &w);
    opt.faults.timeout_ms = timeout_ms;
    iter_dataset *data = open_slow(&slow_ops, true);
    atomic_store(&stuck, false);
    atomic_store(&hold, true);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    pthread_t releaser;
    pthread_create(&releaser, NULL, let_go_soon, &hold);
    iter_error err;
    iter_batch *batch;
    iter_status s;
    int n_late = 0;
    while ((s = iter_loader_next(loader, &batch, &err)) != ITER_END) {
        n_late += s == ITER_ETIMEDOUT;
        if (s < 0 && s != ITER_ETIMEDOUT) break;
        iter_batch_unref(batch);
    }
    EXPECT_STATUS(s, ITER_END, &err);
    if (timeout_ms) EXPECT(n_late > 0);
    check_report(loader, &w, "get");
    pthread_join(releaser, NULL);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* The message of a timeout names the stage in the same way. */
static void timeout_says_the_same(int32_t workers) {
    iter_loader_options opt = options(workers, NULL);
    opt.watch.stall_ms = 0;
    opt.watch.on_stall = NULL;
    opt.faults.timeout_ms = STALL_MS;
    atomic_store(&stuck, false);
    atomic_store(&hold, true);
    iter_dataset *data = open_slow(&slow_ops, true);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_error err;
    iter_batch *batch;
    iter_status s;
    while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK)
        iter_batch_unref(batch);
    EXPECT_ERROR(s, ITER_ETIMEDOUT, &err,
                 "next: batch 4 of epoch 0 is not ready after 300 ms: worker ");
    EXPECT(strstr(err.message, "is in get (slow), sample 32 and on, for "));
    atomic_store(&hold, false);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* ---- A sampler that hangs -------------------------------------------------------------------- */

static iter_status sampler_open(void *state, const void *opt, const iter_sampler_context *context,
                                iter_error *err) {
    (void)state, (void)opt, (void)context, (void)err;
    return ITER_OK;
}

static iter_status sampler_begin(void *state, uint32_t epoch, iter_error *err) {
    (void)epoch, (void)err;
    *(uint64_t *)state = 0;
    return ITER_OK;
}

#define HANGS_AT 43 /* in batch 5 of 8 samples: the earlier ones are delivered and dropped */

static iter_status sampler_next(void *state, uint32_t capacity, uint64_t *out, uint32_t *out_n,
                                iter_error *err) {
    (void)err;
    uint64_t *at = state;
    *out_n = 0;
    for (; *at < N && *out_n < capacity; (*at)++) {
        if (*at == HANGS_AT) sleep_while_held();
        out[(*out_n)++] = *at;
    }
    return ITER_OK;
}

static const iter_sampler_ops hanging_sampler = {
    .base = {sizeof(iter_sampler_ops), "hanging", "hangs", NULL, NULL, 0, sizeof(uint64_t)},
    .open = sampler_open,
    .begin = sampler_begin,
    .next_batch = sampler_next};

static void hung_sampler(int32_t workers) {
    watcher w = {.hold = &hold, .stuck = &stuck};
    iter_loader_options opt = options(workers, &w);
    opt.sampler.ops = &hanging_sampler;
    iter_dataset *data = open_slow(&slow_ops, false);
    atomic_store(&stuck, false);
    atomic_store(&hold, true);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    EXPECT_EQ(one_epoch(loader), N);
    check_report(loader, &w, "open");
    EXPECT_EQ(w.first.batch, HANGS_AT / 8);
    EXPECT_EQ(w.first.sample, ITER_UNKNOWN);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* ---- What a callback may do ------------------------------------------------------------------ */

/* It cancels: next() must return, though the worker still hangs. */
static void cancels(int32_t workers) {
    atomic_bool ignored;
    watcher w = {.hold = &ignored, .stuck = &stuck};
    iter_loader_options opt = options(workers, &w);
    iter_dataset *data = open_slow(&slow_ops, true);
    atomic_store(&stuck, false);
    atomic_store(&hold, true);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    w.cancels = loader;
    pthread_t releaser;
    pthread_create(&releaser, NULL, let_go_soon, &hold);
    iter_error err;
    iter_batch *batch;
    iter_status s;
    while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK)
        iter_batch_unref(batch);
    EXPECT_STATUS(s, ITER_ECANCELED, &err);
    if (workers) EXPECT(atomic_load(&hold));
    EXPECT_EQ(atomic_load(&w.n), 1);
    pthread_join(releaser, NULL);
    EXPECT_OK(iter_loader_stop(loader, &err), &err);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* It drops the last reference: the thread frees the loader. */
typedef struct dropper {
    iter_loader *loader;
    atomic_bool main_left;
} dropper;

static void drop_last(void *user, const iter_stall *stall) {
    dropper *d = user;
    (void)stall;
    iter_loader_cancel(d->loader);
    atomic_store(&hold, false);
    while (!atomic_load(&d->main_left))
        pause_ms(1);
    iter_loader_unref(d->loader);
}

static void last_unref(void) {
    own_dataset own = {.n = N};
    dropper d = {.loader = NULL};
    iter_loader_options opt = options(2, NULL);
    opt.watch.on_stall = drop_last;
    opt.watch.user = &d;
    atomic_store(&own.block, true);
    iter_dataset *data = own_open(&own, &own_ops);
    d.loader = drive_loader(data, NULL, &opt);
    iter_loader *mine = iter_loader_ref(d.loader);
    iter_dataset_unref(data);
    iter_batch *batch;
    EXPECT_EQ(iter_loader_next(mine, &batch, NULL), ITER_ECANCELED);
    atomic_store(&own.block, false);
    iter_loader_unref(mine);
    atomic_store(&d.main_left, true);
    for (int i = 0; i < 10000 && !atomic_load(&own.n_closed); i++)
        pause_ms(1);
    EXPECT_EQ(atomic_load(&own.n_closed), 1);
}

/* It does not return: stop() reports that, and the memory that it needs stays allocated. */
static void never_returns(void) {
    own_dataset own = {.n = N};
    watcher w = {.hold = &own.block};
    iter_loader_options opt = options(1, &w);
    opt.faults.grace_ms = 50;
    atomic_store(&own.block, true);
    atomic_store(&w.blocks, true);
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_dataset_unref(data);
    pthread_t releaser;
    pthread_create(&releaser, NULL, let_go_soon, &own.block);
    iter_error err;
    iter_batch *batch;
    if (EXPECT_OK(iter_loader_next(loader, &batch, &err), &err)) iter_batch_unref(batch);
    EXPECT_ERROR(iter_loader_stop(loader, &err), ITER_ETIMEDOUT, &err, "on_stall");
    iter_loader_unref(loader);
    EXPECT_EQ(atomic_load(&own.n_closed), 0);
    atomic_store(&w.blocks, false);
    pthread_join(releaser, NULL);
    for (int i = 0; i < 10000 && !atomic_load(&own.n_closed); i++)
        pause_ms(1);
    EXPECT_EQ(atomic_load(&own.n_closed), 1);
}

/* If nothing hangs, nothing is reported, and the watchdog's thread ends at once. */
static void all_is_well(void) {
    for (int32_t workers = 0; workers <= 4; workers += 2) {
        watcher w = {.hold = &hold};
        iter_loader_options opt = options(workers, &w);
        opt.watch.stall_ms = 1000000;
        iter_dataset *data = drive_open(folder);
        const double from = seconds();
        for (int i = 0; i < 20; i++) {
            iter_loader *loader = drive_loader(data, NULL, &opt);
            if (i % 2) EXPECT_EQ(one_epoch(loader), N);
            iter_loader_unref(loader);
        }
        EXPECT(seconds() - from < 20);
        EXPECT_EQ(atomic_load(&w.n), 0);
        iter_dataset_unref(data);
    }
}

/* ---- Activity, read from another thread ------------------------------------------------------ */

typedef struct looker {
    iter_loader *loader;
    atomic_bool done;
    uint32_t n_looks, n_wrong, n_busy;
} looker;

static void *look(void *arg) {
    looker *l = arg;
    iter_activity_info infos[8];
    do { /* the thread may begin when all is over */
        const int32_t n = iter_loader_activity(l->loader, infos, 8);
        for (int32_t i = 0; i < n; i++) {
            const int32_t stage = iter_loader_stage_now(l->loader, i);
            l->n_wrong += stage < 0 || stage >= iter_loader_n_stages(l->loader);
            l->n_wrong += !infos[i].stage[0] || infos[i].worker != i;
            l->n_wrong += infos[i].sample != ITER_UNKNOWN && infos[i].sample >= N;
            l->n_wrong += infos[i].sample != ITER_UNKNOWN && !strstr(infos[i].file, "data_batch_");
            l->n_busy += infos[i].sample != ITER_UNKNOWN;
        }
        l->n_looks++;
    } while (!atomic_load(&l->done));
    return NULL;
}

static void looked_at(int32_t workers, int32_t source) {
    iter_chain *chain = drive_chain("random-crop:size=32,pad=4 | normalize:mean=0.5,std=0.2 | "
                                    "to:f32,nchw");
    watcher w = {.hold = &hold};
    iter_loader_options opt = options(workers, &w);
    opt.watch.stall_ms = 60000;
    opt.reading.source = source;
    opt.shuffle = ITER_SHUFFLE_FULL;
    iter_dataset *data = drive_open(folder);
    looker l = {.loader = drive_loader(data, chain, &opt)};
    EXPECT_EQ(iter_loader_stage_now(l.loader, workers ? workers : 1), -1);
    EXPECT_EQ(iter_loader_stage_now(l.loader, -1), -1);
    pthread_t thread;
    pthread_create(&thread, NULL, look, &l);
    for (int e = 0; e < 20; e++) {
        EXPECT_EQ(one_epoch(l.loader), N);
        EXPECT_OK(iter_loader_reset(l.loader, NULL), NULL);
    }
    atomic_store(&l.done, true);
    pthread_join(thread, NULL);
    EXPECT_EQ(l.n_wrong, 0);
    EXPECT(l.n_looks > 0);
    iter_loader_unref(l.loader);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
}

int main(void) {
    drive_cifar(folder, N);
    for (int32_t workers = 0; workers <= 2; workers++) {
        sleeping_get(&slow_ops, workers);
        sleeping_get(&slow_serial_ops, workers);
        sleeping_stage(workers);
        hung_sampler(workers);
        hung_source(&source_fault_ops, workers, ITER_SHUFFLE_NONE);
        hung_source(&source_fault_sync_ops, workers, ITER_SHUFFLE_NONE);
        hung_source(&source_fault_ops, workers, ITER_SHUFFLE_BLOCK);
        sleeping_over_bytes(workers);
        said_once(workers, 0);
        if (workers) said_once(workers, 2 * STALL_MS);
        if (workers) timeout_says_the_same(workers);
        cancels(workers);
        looked_at(workers, ITER_SOURCE_MEMORY);
        looked_at(workers, ITER_SOURCE_RING);
        looked_at(workers, ITER_SOURCE_PREAD);
    }
    last_unref();
    never_returns();
    all_is_well();
    make_folder_gone(folder);
    return EXPECT_DONE();
}
