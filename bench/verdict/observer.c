/*
 * observer.c - attributes time by sampling instead of clocks in the hot path.
 *
 * A worker publishes its stage with one store; a thread of ours reads that 500 times a second. With
 * n looks, a share s has the standard error sqrt(s (1 - s) / n): under 1 % after five seconds. The
 * time between two looks is random; otherwise a consumer that sleeps 1 ms per batch would be met in
 * the same phase again and again.
 *
 * The loader's counters of waiting would not do: a wait is counted when it ends, and may have begun
 * long before. Chunks and run-queue time come from the loader. The run-queue time of the consumer's
 * threads comes from /proc/self/task, read before and after each stretch.
 */
#include "bench/verdict/observer.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/common/bench_util.h"

#define LOOK_S      0.002 /* mean time between looks */
#define THREADS_MAX 256
#define OWN_NAME    "observer"

typedef struct thread_delay {
    long id;
    uint64_t ns;
} thread_delay;

struct observer {
    iter_loader *loader;
    pthread_t thread;
    pthread_mutex_t lock; /* guards counts, also while the thread looks */
    atomic_bool on, stops;
    int32_t n_stages, n_workers;
    bool inline_; /* worker 0 is the consumer's thread */
    uint64_t n_looks, counts[EVIDENCE_WORKERS][EVIDENCE_STAGES];
    double seconds;
    uint64_t since_ns;
    iter_loader_stats before, sum;
    int n_before;
    thread_delay delays[THREADS_MAX];
    double delayed_s; /* of the consumer's most delayed thread, summed over stretches */
};

/* ---- Looking --------------------------------------------------------------------------------- */

static void look(observer *o) {
    pthread_mutex_lock(&o->lock);
    o->n_looks++;
    for (int32_t w = 0; w < o->n_workers; w++) {
        const int32_t stage = iter_loader_stage_now(o->loader, w);
        if (stage >= 0 && stage < o->n_stages) o->counts[w][stage]++;
    }
    pthread_mutex_unlock(&o->lock);
}

static void *run(void *user) {
    observer *o = user;
    uint32_t random = 1; /* a linear congruential generator (Numerical Recipes) */
    pthread_setname_np(pthread_self(), OWN_NAME);
    while (!atomic_load(&o->stops)) {
        random = random * 1664525u + 1013904223u;
        bench_sleep(LOOK_S * (0.5 + (double)random / UINT32_MAX));
        if (atomic_load(&o->on)) look(o);
    }
    return NULL;
}

iter_status observer_start(iter_loader *loader, observer **out, iter_error *err) {
    observer *o = calloc(1, sizeof(*o));
    *out = NULL;
    if (o == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for an observer");
    o->loader = loader;
    o->n_stages = iter_loader_n_stages(loader);
    if (o->n_stages > EVIDENCE_STAGES) o->n_stages = EVIDENCE_STAGES;
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    if (iter_loader_stats_read(loader, &stats, err) < 0) {
        free(o);
        return ITER_ESTATE;
    }
    o->inline_ = stats.n_workers == 0;
    o->n_workers = o->inline_ ? 1 : stats.n_workers;
    pthread_mutex_init(&o->lock, NULL);
    if (pthread_create(&o->thread, NULL, run, o) != 0) {
        pthread_mutex_destroy(&o->lock);
        free(o);
        return bench_fail(err, ITER_ENOMEM, "no thread for an observer");
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

/* ---- Run queues ------------------------------------------------------------------------------ */

/* The consumer's threads: all except a loader's, a ring's and the observer. */
static bool is_consumer(const char *task) {
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", task);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    if (fgets(name, sizeof(name), file) == NULL) name[0] = '\0';
    fclose(file);
    return strncmp(name, "iter-", 5) != 0 && strncmp(name, "iou-", 4) != 0 &&
           strncmp(name, OWN_NAME, strlen(OWN_NAME)) != 0;
}

static uint64_t delay_of(const char *task) {
    char path[64];
    unsigned long long ran, waited = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%.16s/schedstat", task);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    if (fscanf(file, "%llu %llu", &ran, &waited) != 2) waited = 0;
    fclose(file);
    return waited;
}

static int read_delays(thread_delay *out) {
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *d; tasks != NULL && n < THREADS_MAX && (d = readdir(tasks)) != NULL;) {
        if (d->d_name[0] == '.' || !is_consumer(d->d_name)) continue;
        out[n++] = (thread_delay){atol(d->d_name), delay_of(d->d_name)};
    }
    if (tasks != NULL) closedir(tasks);
    return n;
}

static double most_delayed(const observer *o) {
    thread_delay now[THREADS_MAX];
    const int n = read_delays(now);
    double most = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < o->n_before; k++)
            if (o->delays[k].id == now[i].id && now[i].ns > o->delays[k].ns)
                most = fmax(most, (double)(now[i].ns - o->delays[k].ns) * 1e-9);
    return most;
}

/* ---- Stretches ------------------------------------------------------------------------------- */

void observer_on(observer *o) {
    o->n_before = read_delays(o->delays);
    o->before = (iter_loader_stats){.struct_size = sizeof(o->before)};
    if (iter_loader_stats_read(o->loader, &o->before, NULL) < 0) return;
    o->since_ns = bench_now_ns();
    atomic_store(&o->on, true);
}

void observer_off(observer *o) {
    atomic_store(&o->on, false);
    iter_loader_stats now = {.struct_size = sizeof(now)};
    o->seconds += (double)(bench_now_ns() - o->since_ns) * 1e-9;
    if (iter_loader_stats_read(o->loader, &now, NULL) < 0) return;
    for (int32_t w = 0; w < o->n_workers; w++) {
        iter_worker_stats *sum = &o->sum.workers[w];
        const iter_worker_stats *a = &o->before.workers[w], *b = &now.workers[w];
        sum->busy_ns += b->busy_ns - a->busy_ns;
        sum->run_delay_ns += b->run_delay_ns - a->run_delay_ns;
        sum->chunks += b->chunks - a->chunks;
        sum->bytes += b->bytes - a->bytes;
    }
    o->sum.next_wait_ns += now.next_wait_ns - o->before.next_wait_ns;
    o->delayed_s += most_delayed(o);
}

/* ---- Reading --------------------------------------------------------------------------------- */

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

static void read_worker(const observer *o, int32_t w, evidence_worker *out) {
    const iter_worker_stats *sum = &o->sum.workers[w];
    const double ns = o->seconds * 1e9;
    double busy = 0;
    for (int32_t s = 0; s < o->n_stages; s++) {
        out->stages[s] = o->n_looks > 0 ? (double)o->counts[w][s] / (double)o->n_looks : 0;
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
