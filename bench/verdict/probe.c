/*
 * probe.c - chooses options that may improve a run, and measures loader and consumer alone with
 * each.
 *
 * Only changes that the arms suggest are tried: each costs a few seconds of measuring. All changes
 * take turns with the unchanged run, in the same rounds, so their ratios are as sure as any other
 * comparison.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/doctor/doctor.h"
#include "bench/measure/rounds.h"
#include "bench/verdict/diagnosis.h"

#define PROBE_SECONDS    6.0
#define WORKERS_MAX      16
#define DEEP_PREFETCH    14 /* added at least */
#define DEEPEST_PREFETCH 128
#define ROOM_BYTES       ((uint64_t)256 << 20) /* room in a budget for slots and scratch */
#define GOOD_BATCH       64
#define CONNECTIONS_MAX  1024
#define CONNECTIONS_FULL 0.8  /* share of them in flight, from which there are too few */
#define MEMORY_SHARE     0.25 /* of the machine's memory, for rows that are kept */
#define ARRAYS_S         30.0 /* time that loading the whole set may take */

/* ---- Choosing -------------------------------------------------------------------------------- */

static probe *propose(diagnosis *d, const char *option, evidence_change **out_change) {
    evidence *e = &d->e;
    if (e->n_changes == EVIDENCE_CHANGES) return NULL;
    evidence_change *change = &e->changes[e->n_changes];
    probe *p = &d->probes[e->n_changes++];
    memset(change, 0, sizeof(*change));
    memset(p, 0, sizeof(*p));
    snprintf(change->option, sizeof(change->option), "%s", option);
    p->options = d->run;
    /* By default the trainer would use a core less for every worker. */
    if (e->trains) p->options.threads = e->threads;
    p->ndarray = d->ndarray;
    *out_change = change;
    return p;
}

static void write_number(char *to, size_t capacity, uint64_t number) {
    snprintf(to, capacity, "%llu", (unsigned long long)number);
}

/* As many as the consumer needs, and a quarter more. If workers burn CPU time, no more than
 * cores. */
static int64_t more_workers(const evidence *e) {
    if (e->workers == 0) return 1;
    const double loader = 1 / e->rate[EVIDENCE_LOADER].median;
    const double needed = e->consumes ? loader * e->rate[EVIDENCE_CONSUMER].median : 2;
    double to = ceil((double)e->workers * needed * 1.25);
    if (to <= (double)e->workers) to = (double)e->workers + 1;
    const bool burns = e->cpu[EVIDENCE_LOADER] >= 0.7 * loader * (double)e->workers;
    if (burns && to > e->cores) to = e->cores;
    return to > WORKERS_MAX ? WORKERS_MAX : (int64_t)to;
}

static void propose_workers(diagnosis *d) {
    const evidence *e = &d->e;
    evidence_change *change;
    const int64_t to = more_workers(e);
    if (to <= e->workers) return;
    probe *p = propose(d, "workers", &change);
    if (p == NULL) return;
    p->options.workers = to;
    change->overlaps = true;
    write_number(change->from, sizeof(change->from), (uint64_t)e->workers);
    write_number(change->to, sizeof(change->to), (uint64_t)to);
}

/* Enough for the longest wait but one in a thousand, and half as much again. */
static uint64_t deep_enough(const diagnosis *d) {
    const double batch_s = (double)d->e.batch / d->e.rate[EVIDENCE_CONSUMER].median;
    const double wait_s = (double)histogram_quantile(&d->arms[d->watched].next_ns, 0.999) * 1e-9;
    const double more = d->e.consumes ? 1.5 * wait_s / batch_s : 0;
    const double to = (double)d->e.prefetch + fmax(ceil(more), DEEP_PREFETCH);
    return to > DEEPEST_PREFETCH ? DEEPEST_PREFETCH : (uint64_t)to;
}

static void propose_prefetch(diagnosis *d) {
    const evidence *e = &d->e;
    evidence_change *change;
    if (e->workers == 0 || e->prefetch >= DEEPEST_PREFETCH) return;
    probe *p = propose(d, "prefetch", &change);
    if (p == NULL) return;
    p->options.prefetch = deep_enough(d);
    change->deeper = true;
    write_number(change->from, sizeof(change->from), e->prefetch);
    write_number(change->to, sizeof(change->to), p->options.prefetch);
}

static uint64_t file_bytes(const diagnosis *d) {
    const iter_description *desc = iter_dataset_describe(d->dataset);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < desc->n_files; i++)
        if (desc->files[i].bytes != ITER_UNKNOWN) bytes += desc->files[i].bytes;
    return bytes;
}

/* Memory that this process may use: a container may have less than the machine. */
static double machine_bytes(void) {
    return fmin((double)bench_machine_here().memory_bytes,
                doctor_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup"));
}

/* Proposes a budget that holds the whole set, if the present one does not. */
static void propose_memory(diagnosis *d, uint64_t needed) {
    evidence_change *change;
    probe *p = propose(d, "memory", &change);
    if (p == NULL) return;
    p->options.memory = needed;
    p->options.source = ITER_SOURCE_AUTO;
    snprintf(change->from, sizeof(change->from), "%llu MiB",
             (unsigned long long)(d->run.memory >> 20));
    snprintf(change->to, sizeof(change->to), "%llu MiB", (unsigned long long)(needed >> 20));
}

static void propose_source(diagnosis *d) {
    evidence_change *change;
    if (!d->e.reads || (double)file_bytes(d) > MEMORY_SHARE * machine_bytes()) return;
    const uint64_t needed = 2 * file_bytes(d) + ROOM_BYTES;
    if (d->run.memory > 0 && d->run.memory < needed) {
        propose_memory(d, needed);
        return;
    }
    probe *p = propose(d, "source", &change);
    if (p == NULL) return;
    p->options.source = ITER_SOURCE_MEMORY;
    snprintf(change->from, sizeof(change->from), "%s", bench_source_text(d->stats.source));
    snprintf(change->to, sizeof(change->to), "memory");
}

/* Proposes to send fewer bytes to the GPU: rows as they are stored, or none. */
static void propose_device(diagnosis *d) {
    const evidence *e = &d->e;
    evidence_change *change;
    probe *p = NULL;
    if (!e->to_device) return;
    if (d->run.finish != ITER_FINISH_DEVICE && e->copy_bytes > 0.9 * e->row_bytes)
        p = propose(d, "finish", &change);
    if (p != NULL) {
        p->options.finish = ITER_FINISH_DEVICE;
        snprintf(change->from, sizeof(change->from), "%s", bench_finish_text(d->run.finish));
        snprintf(change->to, sizeof(change->to), "device");
    }
    p = d->run.resident == ITER_RESIDENT_NO ? propose(d, "resident", &change) : NULL;
    if (p == NULL) return;
    p->options.resident = ITER_RESIDENT_YES;
    snprintf(change->from, sizeof(change->from), "no");
    snprintf(change->to, sizeof(change->to), "yes");
}

/* Proposes to make rows once and keep them as arrays, if they have one size and fit. */
static void propose_arrays(diagnosis *d, iter_error *err) {
    const iter_description *desc = iter_dataset_describe(d->dataset);
    double bytes = 0;
    evidence_change *change;
    if (d->ndarray || desc->n_samples == ITER_UNKNOWN || bench_rows_vary(desc)) return;
    for (int32_t i = 0; i < desc->n_fields; i++)
        bytes += (double)iter_desc_bytes(&desc->fields[i].desc) * (double)desc->n_samples;
    if (bytes > MEMORY_SHARE * machine_bytes()) return;
    const evidence_arm arm = d->e.has[EVIDENCE_DECODE] ? EVIDENCE_DECODE : EVIDENCE_LOADER;
    const double takes = (double)desc->n_samples / d->e.rate[arm].median;
    const bool quick = d->has_arrays || takes <= ARRAYS_S;
    if (quick && diagnosis_arrays(d, err) < 0) return;
    probe *p = propose(d, "loader", &change);
    if (p == NULL) return;
    if (!quick)
        snprintf(p->why_not, sizeof(p->why_not), "making all %llu rows would take about %.0f s",
                 (unsigned long long)desc->n_samples, takes);
    p->ndarray = true;
    p->options.loader = BENCH_NDARRAY;
    snprintf(change->from, sizeof(change->from), "dataloader");
    snprintf(change->to, sizeof(change->to), "ndarray");
}

/* Where a stage of that name begins in a chain, or NULL. */
static const char *stage_in(const char *chain, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = chain; at != NULL; at = strchr(at, '|')) {
        at += strspn(at, "| ");
        if (strncmp(at, name, length) == 0 && strchr(": |", at[length]) != NULL) return at;
    }
    return NULL;
}

/* Proposes the chain without the stage that takes most of the workers' time. */
static void propose_without_stage(diagnosis *d) {
    const evidence *e = &d->e;
    const evidence_stage *worst = NULL;
    evidence_change *change;
    for (int i = 0; i < e->n_stages; i++)
        if (e->stages[i].kind == EVIDENCE_OF_CHAIN &&
            (worst == NULL || e->stages[i].share > worst->share))
            worst = &e->stages[i];
    if (worst == NULL || d->run.chain == NULL) return;
    const char *at = stage_in(d->run.chain, worst->name);
    if (at == NULL) return;
    const char *bar = strchr(at, '|');
    size_t before = (size_t)(at - d->run.chain);
    if (bar == NULL) /* the last one: its bar goes, too */
        while (before > 0 && (d->run.chain[before - 1] == ' ' || d->run.chain[before - 1] == '|'))
            before--;
    const char *after = bar != NULL ? bar + 1 + strspn(bar + 1, " ") : "";
    char *chain = malloc(strlen(d->run.chain) + 1);
    probe *p = chain != NULL ? propose(d, "chain", &change) : NULL;
    if (p == NULL) {
        free(chain);
        return;
    }
    sprintf(chain, "%.*s%s", (int)before, d->run.chain, after);
    p->chain = chain;
    p->options.chain = chain[0] != '\0' ? chain : NULL;
    /* It may have been the stage that gave all rows one length, which a trainer needs. */
    if (!e->trains && !e->to_device)
        p->options.ragged = bench_rows_vary(iter_dataset_describe(d->dataset));
    change->experiment = true;
    snprintf(change->from, sizeof(change->from), "with %.120s", worst->name);
    snprintf(change->to, sizeof(change->to), "without it");
}

/* Proposes that the decoder scales images down, if a stage does so anyway. */
static void propose_jpeg_scale(diagnosis *d) {
    static const char *const stages[] = {"random-resized-crop", "resize", "resize-short"};
    evidence_change *change;
    const char *at = NULL;
    for (size_t i = 0; at == NULL && i < sizeof(stages) / sizeof(stages[0]); i++)
        at = stage_in(d->run.chain, stages[i]);
    if (at == NULL || strstr(d->run.chain, "jpeg-scale") != NULL) return;
    size_t length = strcspn(at, "|");
    while (length > 0 && at[length - 1] == ' ')
        length--;
    const int before = (int)(at - d->run.chain) + (int)length;
    const char *option = memchr(at, ':', length) != NULL ? ",jpeg-scale=fast" : ":jpeg-scale=fast";
    char *chain = malloc(strlen(d->run.chain) + strlen(option) + 1);
    probe *p = chain != NULL ? propose(d, "chain", &change) : NULL;
    if (p == NULL) {
        free(chain);
        return;
    }
    sprintf(chain, "%.*s%s%s", before, d->run.chain, option, at + length);
    p->chain = chain;
    p->options.chain = chain;
    change->experiment = true;
    snprintf(change->from, sizeof(change->from), "jpeg-scale=exact");
    snprintf(change->to, sizeof(change->to), "jpeg-scale=fast");
}

/* More requests in flight, or larger ones, by what limits them. */
static void propose_remote(diagnosis *d) {
    const evidence_remote *r = &d->e.remote;
    const verdict_remote kind = verdict_remote_of(&d->e);
    evidence_change *change;
    if (kind == REMOTE_LATENCY && r->in_flight < CONNECTIONS_FULL * r->connections)
        propose_prefetch(d); /* batches ahead are too few to ask for more */
    else if (kind == REMOTE_LATENCY && r->connections < CONNECTIONS_MAX &&
             strstr(d->run.data, "connections=") == NULL && strncmp(d->run.data, "mix:", 4) != 0) {
        const int to = (int)fmin(4.0 * r->connections, CONNECTIONS_MAX);
        char *data;
        if (asprintf(&data, "%s%cconnections=%d", d->run.data,
                     strchr(d->run.data, '?') != NULL ? '&' : '?', to) < 0)
            return;
        probe *p = propose(d, "connections", &change);
        if (p == NULL) {
            free(data);
            return;
        }
        p->data = data;
        p->options.data = data;
        p->options.dataset = NULL; /* another client */
        write_number(change->from, sizeof(change->from), (uint64_t)r->connections);
        write_number(change->to, sizeof(change->to), (uint64_t)to);
    }
    if ((kind == REMOTE_REQUESTS || kind == REMOTE_THROTTLED) &&
        d->run.shuffle == ITER_SHUFFLE_FULL && d->run.sampler == NULL) {
        probe *p = propose(d, "shuffle", &change);
        if (p == NULL) return;
        p->options.shuffle = ITER_SHUFFLE_BLOCK;
        change->experiment = true;
        snprintf(change->from, sizeof(change->from), "full");
        snprintf(change->to, sizeof(change->to), "block");
    }
}

static void propose_layout(diagnosis *d) {
    const feed_turning turning = feed_turns(&d->feed);
    evidence_change *change;
    if (turning.n_batches == 0 || d->run.chain == NULL) return;
    const bool to_nchw = strcmp(turning.wants, "nchw") == 0;
    const char *at = strstr(d->run.chain, to_nchw ? "nhwc" : "nchw");
    char *chain = at != NULL ? malloc(strlen(d->run.chain) + 1) : NULL;
    probe *p = chain != NULL ? propose(d, "layout", &change) : NULL;
    if (p == NULL) {
        free(chain);
        return;
    }
    sprintf(chain, "%.*s%s%s", (int)(at - d->run.chain), d->run.chain, turning.wants, at + 4);
    p->chain = chain;
    p->options.chain = chain;
    p->moves_consumer = true;
    snprintf(change->from, sizeof(change->from), "to:%s", to_nchw ? "nhwc" : "nchw");
    snprintf(change->to, sizeof(change->to), "to:%s", turning.wants);
}

static void propose_batch(diagnosis *d) {
    evidence_change *change;
    if (!d->e.trains || d->e.batch >= GOOD_BATCH / 2) return;
    probe *p = propose(d, "batch", &change);
    if (p == NULL) return;
    p->options.batch = GOOD_BATCH;
    p->moves_consumer = true;
    write_number(change->from, sizeof(change->from), d->e.batch);
    write_number(change->to, sizeof(change->to), GOOD_BATCH);
}

static void propose_threads(diagnosis *d) {
    const evidence *e = &d->e;
    evidence_change *change;
    if (!e->trains || e->threads <= (uint64_t)e->cores) return;
    probe *p = propose(d, "threads", &change);
    if (p == NULL) return;
    p->options.threads = (uint64_t)e->cores;
    p->moves_consumer = true;
    write_number(change->from, sizeof(change->from), e->threads);
    write_number(change->to, sizeof(change->to), (uint64_t)e->cores);
}

static void choose(diagnosis *d, iter_error *err) {
    const verdict_limit look = verdict_look(&d->e);
    d->e.n_changes = 0;
    if (d->has_feed) propose_layout(d);
    propose_threads(d);
    propose_batch(d);
    if (look == LIMIT_CONSUMER || look == LIMIT_NONE) return;
    propose_device(d);
    if (look != LIMIT_READ || !verdict_waits_for_server(&d->e)) propose_workers(d);
    propose_source(d);
    if (look == LIMIT_READ) propose_remote(d);
    if (look == LIMIT_DECODE) propose_arrays(d, err);
    if (look == LIMIT_DECODE && d->e.by_shares) propose_jpeg_scale(d);
    if (look == LIMIT_TRANSFORM) propose_without_stage(d);
    if (look == LIMIT_PREFETCH || look == LIMIT_WORKER || look == LIMIT_CPU) propose_prefetch(d);
}

/* ---- Trying ---------------------------------------------------------------------------------- */

typedef struct trial {
    bench_arm arm;
    feed_trainer feed;
    bool has_arm, has_feed;
    int loader_side, consumer_side; /* among the sides; -1 = none */
} trial;

static void open_trial(diagnosis *d, int i, trial *t) {
    const probe *p = &d->probes[i];
    const bench_arrays *arrays = p->ndarray ? &d->arrays : NULL;
    iter_error err;
    t->loader_side = t->consumer_side = -1;
    if (p->why_not[0] != '\0')
        bench_fail(&err, ITER_EUNSUPPORTED, "%s", p->why_not);
    else
        t->has_arm = arm_open(&p->options, arrays, &t->arm, &err) == ITER_OK;
    if (t->has_arm && p->moves_consumer && d->has_feed)
        t->has_feed = feed_open(&p->options, arrays, &t->feed, &err) == ITER_OK;
    d->e.changes[i].feasible = t->has_arm && (!p->moves_consumer || !d->has_feed || t->has_feed);
    if (!d->e.changes[i].feasible)
        snprintf(d->e.changes[i].why_not, sizeof(d->e.changes[i].why_not), "%.150s", err.message);
}

static double per_sample(uint64_t ns, uint64_t samples, double otherwise) {
    return samples > 0 ? (double)ns * 1e-9 / (double)samples : otherwise;
}

static iter_status take_ratios(diagnosis *d, const trial *trials, const measure_rounds *rounds,
                               int consumer_side, iter_error *err) {
    iter_status s = ITER_OK;
    for (int i = 0; s == ITER_OK && i < d->e.n_changes; i++) {
        evidence_change *change = &d->e.changes[i];
        const trial *t = &trials[i];
        measure_interval loader = {1, 1, 1, 0}, consumer = {1, 1, 1, 0};
        if (!change->feasible) continue;
        s = measure_rounds_ratio(rounds, 0, t->loader_side, &loader, err);
        if (s == ITER_OK && t->consumer_side >= 0)
            s = measure_rounds_ratio(rounds, consumer_side, t->consumer_side, &consumer, err);
        change->loader_ratio = loader.median;
        change->consumer_ratio = consumer.median;
        change->loader_low = loader.low;
        change->loader_high = loader.high;
        change->consumer_low = consumer.low;
        change->consumer_high = consumer.high;
        change->cpu_loader = per_sample(t->arm.cpu_ns, t->arm.samples, d->e.cpu[EVIDENCE_LOADER]);
        change->cpu_consumer = t->consumer_side >= 0
                                   ? per_sample(t->feed.alone.cpu_ns, t->feed.alone.samples,
                                                d->e.cpu[EVIDENCE_CONSUMER])
                                   : d->e.cpu[EVIDENCE_CONSUMER];
        change->feasible = isfinite(change->loader_ratio) && isfinite(change->consumer_ratio);
    }
    return s;
}

static iter_status try_all(diagnosis *d, trial *trials, iter_error *err) {
    measure_side sides[MEASURE_SIDES_MAX];
    measure_rounds rounds = {0};
    bool steady;
    int n = 0, consumer_side = -1;
    sides[n++] = arm_side(&d->arms[EVIDENCE_LOADER]);
    for (int i = 0; i < d->e.n_changes; i++)
        if (d->e.changes[i].feasible && trials[i].has_feed) consumer_side = 1;
    if (consumer_side > 0) sides[n++] = feed_side(&d->feed, "consumer");
    for (int i = 0; i < d->e.n_changes; i++) {
        if (!d->e.changes[i].feasible) continue;
        trials[i].loader_side = n;
        sides[n++] = arm_side(&trials[i].arm);
        if (!trials[i].has_feed) continue;
        trials[i].consumer_side = n;
        sides[n++] = feed_side(&trials[i].feed, "consumer");
    }
    if (n <= 1) return ITER_OK;
    const double seconds =
        d->run.seconds > 0 ? fmin(0.6 * d->run.seconds, PROBE_SECONDS) : PROBE_SECONDS;
    iter_status s =
        rounds_measure(d->asked.prove ? "changes (step 2 of 3)" : "changes (step 2 of 2)", sides, n,
                       seconds, 1.5 * seconds, &rounds, &steady, err);
    if (s == ITER_OK) s = take_ratios(d, trials, &rounds, consumer_side, err);
    measure_rounds_free(&rounds);
    return s;
}

iter_status probe_changes(diagnosis *d, iter_error *err) {
    trial *trials = calloc(EVIDENCE_CHANGES, sizeof(*trials));
    if (trials == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for trials");
    choose(d, err);
    for (int i = 0; i < d->e.n_changes; i++)
        open_trial(d, i, &trials[i]);
    iter_status s = try_all(d, trials, err);
    for (int i = 0; i < d->e.n_changes; i++) {
        if (trials[i].has_arm) arm_close(&trials[i].arm);
        if (trials[i].has_feed) feed_close(&trials[i].feed);
    }
    free(trials);
    return s;
}

void probe_free(diagnosis *d) {
    for (int i = 0; i < d->e.n_changes; i++) {
        free(d->probes[i].chain);
        free(d->probes[i].data);
    }
    d->e.n_changes = 0;
}
