/*
 * observer.c - attributes time by sampling instead of clocks in the hot path.
 *
 * A worker publishes its stage with one store; a thread of ours reads that, by default 500 times a
 * second. With n looks, a share s has the standard error sqrt(s (1 - s) / n): under 1 % after five
 * seconds. The time between two looks is random; otherwise a consumer that sleeps 1 ms per batch
 * would be met in the same phase again and again.
 *
 * The loader's counters of waiting would not do: a wait is counted when it ends, and may have begun
 * long before. Chunks and run-queue time come from the loader. The run-queue time of the consumer's
 * threads comes from /proc/self/task, read before and after each stretch.
 */
#include "diagnose/observer.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/diagnose_util.h"
#include "diagnose/run_queue.h"

#define LOOK_S   0.002           /* mean time between looks, if the options name none */
#define OWN_NAME "iter-observer" /* run_queue.c knows the prefix */

/* What a stage means for the loader as a whole. */
typedef enum stage_class { IDLE, WAITS_FOR_BYTES, READS, DECODES, CHAINS, BUSY } stage_class;

/* What a number of looks saw. */
typedef struct looks {
    uint64_t n, counts[EVIDENCE_WORKERS][EVIDENCE_STAGES];
    observer_load load;
} looks;

struct observer {
    iter_loader *loader;
    observer_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* guards looks, also while the thread looks */
    atomic_bool on, stops;
    int32_t n_stages, n_workers;
    bool inline_; /* worker 0 is the consumer's thread */
    stage_class classes[EVIDENCE_STAGES];
    looks open, kept; /* since the stretch began, and of all stretches that ended */
    double seconds;
    uint64_t since_ns;
    iter_loader_stats before, sum;
    run_queue queue_before;
    double delayed_s; /* of the consumer's most delayed thread, summed over stretches */
};

/* ---- Looking --------------------------------------------------------------------------------- */

/* How much of the loader is at work now, and at what. If a batch is waited for, or bytes are, the
 * loader can do no more than it does. */
static void add_load(const observer *o, const int at[], bool awaited, observer_load *out) {
    const int reads = at[READS], decodes = at[DECODES], chains = at[CHAINS];
    const int made = reads + decodes + chains, busy = made + at[BUSY];
    const double load = awaited || at[WAITS_FOR_BYTES] > 0 ? 1
                        : o->inline_                       ? 0
                                                           : (double)busy / o->n_workers;
    out->busy += load;
    if (made > 0) {
        out->read += load * reads / made;
        out->decode += load * decodes / made;
        out->chain += load * chains / made;
    } else if (at[WAITS_FOR_BYTES] > 0) {
        out->read += load;
        out->wait_bytes += load;
    } else {
        out->other += load;
    }
}

static void look(observer *o) {
    int at[BUSY + 1] = {0};
    pthread_mutex_lock(&o->lock);
    o->open.n++;
    const bool awaited = iter_loader_in_next(o->loader) != 0;
    for (int32_t w = 0; w < o->n_workers; w++) {
        const int32_t stage = iter_loader_stage_now(o->loader, w);
        if (stage < 0 || stage >= o->n_stages) continue;
        o->open.counts[w][stage]++;
        at[o->classes[stage]]++;
    }
    add_load(o, at, awaited, &o->open.load);
    pthread_mutex_unlock(&o->lock);
}

static void *run(void *user) {
    observer *o = user;
    uint32_t random = 1; /* a linear congruential generator (Numerical Recipes) */
    pthread_setname_np(pthread_self(), OWN_NAME);
    while (!atomic_load(&o->stops)) {
        random = random * 1664525u + 1013904223u;
        diagnose_sleep(o->options.look_s * (0.5 + (double)random / UINT32_MAX));
        if (atomic_load(&o->on)) look(o);
        if (o->options.tick != NULL && !atomic_load(&o->stops)) o->options.tick(o->options.user);
    }
    return NULL;
}

/* ---- Stages ---------------------------------------------------------------------------------- */

static evidence_kind kind_of(const char *name) {
    static const struct {
        const char *name;
        evidence_kind kind;
    } kinds[] = {{"idle", EVIDENCE_OF_NONE},      {"wait-bytes", EVIDENCE_OF_NONE},
                 {"wait-slot", EVIDENCE_OF_NONE}, {"wait-turn", EVIDENCE_OF_TURN},
                 {"open", EVIDENCE_OF_NONE},      {"read", EVIDENCE_OF_READ},
                 {"get", EVIDENCE_OF_DECODE},     {"decode", EVIDENCE_OF_DECODE},
                 {"copy", EVIDENCE_OF_DECODE}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(name, kinds[i].name) == 0) return kinds[i].kind;
    return EVIDENCE_OF_CHAIN;
}

static stage_class class_of(const char *name) {
    if (strcmp(name, "wait-bytes") == 0) return WAITS_FOR_BYTES;
    if (strcmp(name, "batch") == 0) return BUSY; /* also handing over: once per batch */
    if (strcmp(name, "idle") == 0 || strcmp(name, "wait-slot") == 0) return IDLE;
    switch (kind_of(name)) {
    case EVIDENCE_OF_READ: return READS;
    case EVIDENCE_OF_DECODE:
    case EVIDENCE_OF_TURN: return DECODES;
    case EVIDENCE_OF_CHAIN: return CHAINS;
    default: return BUSY;
    }
}

/* ---- Life ------------------------------------------------------------------------------------ */

/* Signals are for the program's own threads. */
static int start_thread(observer *o) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&o->thread, NULL, run, o);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

iter_status observer_start(iter_loader *loader, const observer_options *options, observer **out,
                           iter_error *err) {
    observer *o = calloc(1, sizeof(*o));
    *out = NULL;
    if (o == NULL) return diagnose_fail(err, ITER_ENOMEM, "no memory for an observer");
    if (options != NULL) o->options = *options;
    if (o->options.look_s <= 0) o->options.look_s = LOOK_S;
    o->loader = loader;
    o->n_stages = iter_loader_n_stages(loader);
    if (o->n_stages > EVIDENCE_STAGES) o->n_stages = EVIDENCE_STAGES;
    for (int32_t s = 0; s < o->n_stages; s++)
        o->classes[s] = class_of(iter_loader_stage_name(loader, s));
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    if (iter_loader_stats_read(loader, &stats, err) < 0) {
        free(o);
        return ITER_ESTATE;
    }
    o->inline_ = stats.n_workers == 0;
    o->n_workers = o->inline_ ? 1 : stats.n_workers;
    pthread_mutex_init(&o->lock, NULL);
    if (start_thread(o) != 0) {
        pthread_mutex_destroy(&o->lock);
        free(o);
        return diagnose_fail(err, ITER_ENOMEM, "no thread for an observer");
    }
    *out = o;
    return ITER_OK;
}

void observer_stop(observer *o) {
    if (o == NULL) return;
    atomic_store(&o->stops, true);
    pthread_join(o->thread, NULL);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* ---- Stretches ------------------------------------------------------------------------------- */

/* After stop(), workers have no threads whose times could be read. */
static uint64_t since(uint64_t before, uint64_t now) {
    return now > before ? now - before : 0;
}

void observer_on(observer *o) {
    run_queue_read(&o->queue_before);
    o->before = (iter_loader_stats){.struct_size = sizeof(o->before)};
    if (iter_loader_stats_read(o->loader, &o->before, NULL) < 0) return;
    o->since_ns = diagnose_now_ns();
    atomic_store(&o->on, true);
}

/* Keeps what the stretch saw. */
static void keep_looks(observer *o, looks *out_stretch) {
    pthread_mutex_lock(&o->lock);
    looks *kept = &o->kept, *open = &o->open;
    kept->n += open->n;
    for (int32_t w = 0; w < o->n_workers; w++)
        for (int32_t s = 0; s < o->n_stages; s++)
            kept->counts[w][s] += open->counts[w][s];
    if (out_stretch != NULL) *out_stretch = *open;
    memset(open, 0, sizeof(*open));
    pthread_mutex_unlock(&o->lock);
}

/* Adds what happened between two readings of the counters. */
static void add_stats(observer *o, const iter_loader_stats *now) {
    for (int32_t w = 0; w < o->n_workers; w++) {
        iter_worker_stats *sum = &o->sum.workers[w];
        const iter_worker_stats *a = &o->before.workers[w], *b = &now->workers[w];
        sum->busy_ns += since(a->busy_ns, b->busy_ns);
        sum->run_delay_ns += since(a->run_delay_ns, b->run_delay_ns);
        sum->chunks += since(a->chunks, b->chunks);
        sum->bytes += since(a->bytes, b->bytes);
    }
    o->sum.next_wait_ns += since(o->before.next_wait_ns, now->next_wait_ns);
}

void observer_off(observer *o) {
    atomic_store(&o->on, false);
    iter_loader_stats now = {.struct_size = sizeof(now)};
    run_queue queue;
    o->seconds += (double)(diagnose_now_ns() - o->since_ns) * 1e-9;
    keep_looks(o, NULL);
    if (iter_loader_stats_read(o->loader, &now, NULL) < 0) return;
    add_stats(o, &now);
    run_queue_read(&queue);
    o->delayed_s += run_queue_between(&o->queue_before, &queue, 0, NULL);
}

void observer_cut(observer *o, const iter_loader_stats *now, observer_stretch *out) {
    static const looks none;
    looks stretch = none;
    run_queue queue;
    const uint64_t now_ns = diagnose_now_ns();
    keep_looks(o, &stretch);
    out->load = stretch.load;
    out->load.n = stretch.n;
    add_stats(o, now);
    for (int32_t w = 0; w < o->n_workers; w++) {
        out->worker_delay_s +=
            (double)since(o->before.workers[w].run_delay_ns, now->workers[w].run_delay_ns) * 1e-9;
        out->worker_cpu_s +=
            (double)since(o->before.workers[w].cpu_ns, now->workers[w].cpu_ns) * 1e-9;
    }
    run_queue_read(&queue);
    out->delay_s = run_queue_between(&o->queue_before, &queue, now->next_tid, &out->own_delay_s);
    o->delayed_s += out->delay_s;
    o->seconds += (double)(now_ns - o->since_ns) * 1e-9;
    o->since_ns = now_ns;
    o->before = *now;
    o->queue_before = queue;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_worker(const observer *o, int32_t w, evidence_worker *out) {
    const iter_worker_stats *sum = &o->sum.workers[w];
    const double ns = o->seconds * 1e9;
    double busy = 0;
    for (int32_t s = 0; s < o->n_stages; s++) {
        out->stages[s] = o->kept.n > 0 ? (double)o->kept.counts[w][s] / (double)o->kept.n : 0;
        const char *name = iter_loader_stage_name(o->loader, s);
        if (strcmp(name, "wait-bytes") == 0)
            out->wait_bytes = out->stages[s];
        else if (strncmp(name, "wait", 4) == 0)
            out->wait_slot += out->stages[s];
        else if (strcmp(name, "idle") != 0)
            busy += out->stages[s];
    }
    out->chunks = sum->chunks;
    out->busy_s = sum->chunks > 0 ? (double)sum->busy_ns * 1e-9 / (double)sum->chunks : 0;
    out->bytes = sum->chunks > 0 ? (double)sum->bytes / (double)sum->chunks : 0;
    out->busy = busy;
    out->runnable = (double)sum->run_delay_ns / ns;
}

void observer_read(observer *o, evidence *out) {
    if (o->seconds <= 0) return;
    pthread_mutex_lock(&o->lock);
    out->n_workers = o->n_workers < EVIDENCE_WORKERS ? o->n_workers : EVIDENCE_WORKERS;
    out->n_stages = o->n_stages;
    for (int32_t w = 0; w < out->n_workers; w++)
        read_worker(o, w, &out->worker[w]);
    for (int32_t s = 0; s < o->n_stages; s++) {
        evidence_stage *stage = &out->stages[s];
        snprintf(stage->name, sizeof(stage->name), "%s", iter_loader_stage_name(o->loader, s));
        stage->kind = kind_of(stage->name);
        stage->share = 0;
        for (int32_t w = 0; w < out->n_workers; w++)
            stage->share += out->worker[w].stages[s] / out->n_workers;
    }
    out->observed_s = o->seconds;
    out->wait_share = (double)o->sum.next_wait_ns * 1e-9 / o->seconds;
    out->consumer_runnable = o->delayed_s / o->seconds;
    pthread_mutex_unlock(&o->lock);
}
