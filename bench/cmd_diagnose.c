/*
 * cmd_diagnose.c - `iterbench --model ...` and `--compute-ms ...`: runs a training, or an emulated
 * one, finds the term that limits it and a change that helps. With --prove it makes the change and
 * measures again.
 *
 * Arms over the same batches take turns: reading alone, with decoding, the whole loader, the
 * consumer alone, both. While both run, an observer samples the workers. Then each change that may
 * help is tried with loader and consumer alone. The verdict is a function of all these figures. The
 * proof runs both, with the change and without, in turns.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_stop.h"
#include "bench/common/bench_util.h"
#include "bench/doctor/doctor.h"
#include "bench/iterbench.h"
#include "bench/limits/photo_yard.h"
#include "bench/measure/rounds.h"
#include "bench/verdict/diagnosis.h"
#include "bench/verdict/plant.h"
#include "diagnose/report_html.h"

#define RECORD_S   1.0 /* about so long; in batches at least RECORD_MIN, at most RECORD_MAX */
#define RECORD_MIN 12
#define RECORD_MAX 5000

/* ---- Opening --------------------------------------------------------------------------------- */

iter_status diagnosis_arrays(diagnosis *d, iter_error *err) {
    if (d->has_arrays) return ITER_OK;
    iter_status s = bench_arrays_load(&d->run, UINT64_MAX, &d->arrays, err);
    d->has_arrays = s == ITER_OK;
    return s;
}

/* Without the chain, no stage pads rows of different lengths. */
static void leave_chain_out(const diagnosis *d, bench_options *o) {
    o->chain = NULL;
    o->ragged = bench_rows_vary(iter_dataset_describe(d->dataset));
}

static iter_status open_arm(diagnosis *d, evidence_arm arm, iter_error *err) {
    bench_options *o = &d->arm_options[arm];
    *o = d->run;
    if (arm == EVIDENCE_READ || arm == EVIDENCE_DECODE) *o = bench_options_on_host(&d->run);
    if (arm == EVIDENCE_READ) o->only_reads = true;
    if ((arm == EVIDENCE_READ && !d->e.by_shares) || arm == EVIDENCE_DECODE) leave_chain_out(d, o);
    if (arm == EVIDENCE_READ) o->consumer = BENCH_CONSUMER_NONE;
    iter_status s = arm_open(o, d->ndarray ? &d->arrays : NULL, &d->arms[arm], err);
    d->is_open[arm] = s == ITER_OK;
    if (s == ITER_OK && arm == EVIDENCE_BOTH) feed_from(&d->feed, &d->arms[arm]);
    return s;
}

static bool reads_while_running(const diagnosis *d) {
    iter_loader_stats stats;
    if (d->ndarray || arm_stats(&d->arms[EVIDENCE_LOADER], &stats, NULL) < 0) return false;
    return stats.source != ITER_SOURCE_MEMORY && stats.source != ITER_SOURCE_NULL;
}

static iter_status open_arms(diagnosis *d, iter_error *err) {
    iter_status s = open_arm(d, EVIDENCE_LOADER, err);
    d->e.reads = s == ITER_OK && reads_while_running(d);
    d->e.by_shares = photo_yard_fits(iter_dataset_describe(d->dataset));
    if (s == ITER_OK && d->run.chain != NULL && !d->e.by_shares)
        s = open_arm(d, EVIDENCE_DECODE, err);
    if (s == ITER_OK && d->e.reads) s = open_arm(d, EVIDENCE_READ, err);
    if (s == ITER_OK && d->e.consumes) s = open_arm(d, EVIDENCE_BOTH, err);
    d->watched = d->e.consumes ? EVIDENCE_BOTH : EVIDENCE_LOADER;
    return s;
}

/* If a plant has made the dataset already, it is shared. */
static iter_status open_dataset(diagnosis *d, iter_error *err) {
    if (d->run.dataset == NULL) return bench_dataset_open(&d->run, &d->dataset, err);
    d->dataset = iter_dataset_ref(d->run.dataset);
    return ITER_OK;
}

static iter_status open_all(diagnosis *d, iter_error *err) {
    const bench_options *o = &d->asked;
    d->e.trains = o->model != BENCH_MODEL_NONE;
    iter_status s = ITER_OK;
    d->e.consumes = d->e.trains || d->run.compute_ms > 0;
    d->ndarray = o->loader == BENCH_NDARRAY;
    if (s == ITER_OK) s = bench_cache_prepare(o, &d->cache, err);
    if (s == ITER_OK) s = open_dataset(d, err);
    d->run.dataset = d->dataset;
    d->run.cold_slices = o->cache == BENCH_CACHE_COLD;
    if (s == ITER_OK && d->ndarray) s = diagnosis_arrays(d, err);
    if (s == ITER_OK && d->e.consumes) {
        s = feed_open(&d->run, d->ndarray ? &d->arrays : NULL, &d->feed, err);
        d->has_feed = s == ITER_OK;
        if (d->has_feed) d->run.chain = d->feed.options.chain;
    }
    if (s == ITER_OK) s = open_arms(d, err);
    if (s == ITER_OK) s = observer_start(d->arms[d->watched].loaders[0], NULL, &d->observer, err);
    return s;
}

static void close_all(diagnosis *d) {
    observer_stop(d->observer);
    probe_free(d);
    for (int i = 0; i < EVIDENCE_ARMS; i++)
        if (d->is_open[i]) arm_close(&d->arms[i]);
    if (d->has_feed) feed_close(&d->feed);
    if (d->has_arrays) bench_arrays_free(&d->arrays); /* after the loaders, which borrow them */
    iter_dataset_unref(d->dataset);
    plant_free(d->planted);
    measure_rounds_free(&d->rounds);
    timeline_free(&d->lives);
}

/* ---- Arms ------------------------------------------------------------------------------------ */

static iter_status watched_run(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                               iter_error *err) {
    diagnosis *d = user;
    observer_on(d->observer);
    iter_status s = arm_run(&d->arms[d->watched], n, true, out_samples, out_seconds, err);
    observer_off(d->observer);
    return s;
}

static iter_status watched_warm(void *user, uint64_t n, iter_error *err) {
    diagnosis *d = user;
    const measure_side side = arm_side(&d->arms[d->watched]);
    return side.warm(side.user, n, err);
}

static bool watched_rests(void *user) {
    diagnosis *d = user;
    const measure_side side = arm_side(&d->arms[d->watched]);
    return side.rests(side.user);
}

static measure_side side_of(diagnosis *d, evidence_arm arm) {
    if (arm == EVIDENCE_CONSUMER) return feed_side(&d->feed, "consumer");
    if (arm == EVIDENCE_RESIDENT) return feed_resident_side(&d->feed, "resident");
    if (arm == d->watched)
        return (measure_side){"watched", watched_run, watched_warm, d, watched_rests};
    return arm_side(&d->arms[arm]);
}

static double per_sample(uint64_t ns, uint64_t samples) {
    return samples > 0 ? (double)ns * 1e-9 / (double)samples : NAN;
}

static iter_status ratio_of(const measure_rounds *rounds, int a, int b, measure_interval *out,
                            iter_error *err) {
    *out = (measure_interval){NAN, NAN, NAN, 0};
    return a < 0 || b < 0 ? ITER_OK : measure_rounds_ratio(rounds, a, b, out, err);
}

/* The counters of an arm that is the consumer over replayed batches; NULL for other arms. */
static const feed_count *replays(const diagnosis *d, int arm) {
    return arm == EVIDENCE_CONSUMER   ? &d->feed.alone
           : arm == EVIDENCE_RESIDENT ? &d->feed.resident
                                      : NULL;
}

static bool has_arm(const diagnosis *d, int arm) {
    if (arm == EVIDENCE_RESIDENT) return d->has_feed && d->feed.copies.link != NULL;
    return arm == EVIDENCE_CONSUMER ? d->has_feed : d->is_open[arm];
}

static iter_status measure_arms(diagnosis *d, iter_error *err) {
    measure_side sides[EVIDENCE_ARMS];
    int at[EVIDENCE_ARMS], n = 0;
    evidence *e = &d->e;
    for (int arm = 0; arm < EVIDENCE_ARMS; arm++) {
        e->has[arm] = has_arm(d, arm);
        at[arm] = e->has[arm] ? n : -1;
        if (e->has[arm]) sides[n++] = side_of(d, (evidence_arm)arm);
    }
    const double seconds = d->run.seconds > 0 ? d->run.seconds : ROUNDS_SECONDS;
    iter_status s = rounds_measure(d->asked.prove ? "arms (step 1 of 3)" : "arms (step 1 of 2)",
                                   sides, n, seconds, 1.5 * seconds, &d->rounds, &e->steady, err);
    e->rounds = d->rounds.n_rounds;
    e->unsteady_rounds = d->rounds.n_dropped;
    for (int arm = 0; s == ITER_OK && arm < EVIDENCE_ARMS; arm++) {
        s = ratio_of(&d->rounds, at[arm], at[arm], &e->rate[arm], err);
        const feed_count *count = replays(d, arm);
        e->cpu[arm] = !e->has[arm]    ? NAN
                      : count != NULL ? per_sample(count->cpu_ns, count->samples)
                                      : per_sample(d->arms[arm].cpu_ns, d->arms[arm].samples);
    }
    const int read = at[EVIDENCE_READ], decode = at[EVIDENCE_DECODE], loader = at[EVIDENCE_LOADER],
              consumer = at[EVIDENCE_CONSUMER], both = at[EVIDENCE_BOTH];
    if (s == ITER_OK) s = ratio_of(&d->rounds, consumer, loader, &e->loader_by_consumer, err);
    if (s == ITER_OK) s = ratio_of(&d->rounds, consumer, both, &e->both_by_consumer, err);
    if (s == ITER_OK)
        s = ratio_of(&d->rounds, at[EVIDENCE_RESIDENT], both, &e->both_by_resident, err);
    if (s == ITER_OK) s = ratio_of(&d->rounds, decode, loader, &e->loader_by_decode, err);
    if (s == ITER_OK) s = ratio_of(&d->rounds, read, decode, &e->decode_by_read, err);
    return s;
}

/* Bytes that travel to the GPU per sample, and the rates of the link to it. */
static iter_status gather_link(diagnosis *d, iter_error *err) {
    const bench_arm *arm = &d->arms[EVIDENCE_LOADER];
    evidence *e = &d->e;
    d->link = (gpu_link_rates)GPU_LINK_RATES_NONE;
    e->to_device = d->run.device != 0;
    if (!e->to_device || bench_stopped()) return ITER_OK;
    const double batches = (double)arm->batches;
    gpu_link *link; /* not the feed's, whose buffers are needed again */
    iter_status s = gpu_link_open(d->run.device, &link, err);
    if (s < 0) return s;
    s = gpu_link_measure(link, d->feed.held, d->has_feed ? d->feed.n_held : 0,
                         iter_loader_n_fields(arm->loaders[0]), (double)arm->copied_bytes / batches,
                         &d->link, err);
    gpu_link_close(link);
    e->copy_bytes = d->link.batch_bytes / (double)d->run.batch;
    e->row_bytes = (double)arm->bytes / (double)arm->samples;
    e->link_bytes_per_s = d->link.plain_bytes_per_s;
    return s;
}

/* Bytes that the arm has read per delivered sample. */
static double bytes_a_sample(const bench_arm *arm) {
    iter_loader_stats stats;
    double bytes = 0;
    if (arm_stats(arm, &stats, NULL) < 0 || stats.samples == 0) return 0;
    for (int i = 0; i < ITER_PATH_COUNT; i++)
        bytes += (double)stats.path_bytes[i];
    return bytes / (double)stats.samples;
}

/* CPU time for an answer: that of all arms' workers, because their reading goes on while others
 * have their turn. Without workers it does not. */
static double cpu_an_answer(const diagnosis *d, evidence_arm arm) {
    const evidence *e = &d->e;
    double ns = 0;
    if (e->workers == 0)
        return e->sample_bytes > 0 ? e->cpu[arm] * e->remote.bytes / e->sample_bytes : 0;
    for (int i = 0; i < EVIDENCE_ARMS; i++) {
        iter_loader_stats stats;
        if (!d->is_open[i] || arm_stats(&d->arms[i], &stats, NULL) < 0) continue;
        for (int32_t w = 0; w < stats.n_workers; w++)
            ns += (double)stats.workers[w].cpu_ns;
    }
    return ns * 1e-9 / e->remote.answers;
}

/* Of all arms together, which read the same. How many requests are in flight follows from how long
 * one takes and how many come in a second while an arm reads. */
static void gather_remote(diagnosis *d) {
    const iter_loader_stats *stats = &d->stats;
    evidence *e = &d->e;
    const double n = (double)stats->answers;
    const evidence_arm arm = e->has[EVIDENCE_READ] ? EVIDENCE_READ : EVIDENCE_LOADER;
    e->remote = (evidence_remote){.answers = n, .connections = stats->connections};
    if (n == 0) return;
    e->remote.throttled = (double)stats->answers_throttled / n;
    e->remote.again = (double)stats->answers_again / n;
    e->remote.bytes = (double)stats->answer_bytes / n;
    e->remote.first_s = (double)stats->answer_first_ns * 1e-9 / n;
    e->remote.whole_s = (double)stats->answer_ns * 1e-9 / n;
    e->remote.cpu_s = cpu_an_answer(d, arm);
    if (e->remote.bytes > 0)
        e->remote.in_flight =
            e->rate[arm].median * e->sample_bytes / e->remote.bytes * e->remote.whole_s;
}

static void gather(diagnosis *d) {
    evidence *e = &d->e;
    const double allowed = doctor_cpu_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    e->cores = (int)fmax(fmin(bench_machine_here().cores, ceil(allowed)), 1);
    d->stats.struct_size = sizeof(d->stats);
    arm_stats(&d->arms[d->watched], &d->stats, NULL);
    e->workers = d->stats.n_workers;
    e->prefetch = d->run.prefetch > 0 ? d->run.prefetch : 2;
    e->batch = d->run.batch;
    e->in_order = d->run.shuffle == ITER_SHUFFLE_NONE && d->run.sampler == NULL;
    e->sample_bytes = e->has[EVIDENCE_READ] ? bytes_a_sample(&d->arms[EVIDENCE_READ]) : 0;
    gather_remote(d);
    e->threads = d->e.trains ? feed_model_threads(&d->feed) : 0;
    observer_read(d->observer, e);
    if (!d->has_feed) return;
    const feed_turning turning = feed_turns(&d->feed);
    if (turning.n_batches > 0) e->convert_s = turning.seconds / (double)turning.n_batches;
    snprintf(e->convert_text, sizeof(e->convert_text), "%.60s", turning.text);
    snprintf(e->wants, sizeof(e->wants), "%.7s", turning.wants);
}

/* ---- A second of the run, event by event ----------------------------------------------------- */

/* Records apart from the measuring, so that recording disturbs no figure. */
static iter_status record(diagnosis *d, iter_error *err) {
    const bench_options *o = &d->asked;
    if (bench_stopped() || (o->json == NULL && o->html == NULL && o->trace == NULL)) return ITER_OK;
    iter_profile_options opt = ITER_PROFILE_OPTIONS_INIT;
    opt.filename = o->trace != NULL ? o->trace : "";
    const double rate = d->e.rate[d->watched].median / (double)d->e.batch;
    const double n = fmin(fmax(rate * RECORD_S, RECORD_MIN), RECORD_MAX);
    uint64_t samples;
    double seconds;
    iter_status s = iter_profile_start(&opt, err);
    /* With ITER_PROFILE set, the whole run is recorded already, and there is no separate second. */
    if (s == ITER_ESTATE && o->trace == NULL) return ITER_OK;
    if (s < 0) return s;
    s = arm_run(&d->arms[d->watched], (uint64_t)n, false, &samples, &seconds, err);
    iter_profile_pause();
    if (s == ITER_OK) s = timeline_collect(0, &d->lives, err);
    iter_status stopped = iter_profile_stop(s == ITER_OK ? err : NULL);
    iter_profile_clear();
    return s == ITER_OK ? stopped : s;
}

/* ---- Proof ----------------------------------------------------------------------------------- */

static iter_status prove(diagnosis *d, iter_error *err) {
    d->proved = (measure_interval){NAN, NAN, NAN, 0};
    if (!d->asked.prove || d->v.n_changes == 0 || bench_stopped()) return ITER_OK;
    const probe *p = &d->probes[d->v.changes[0].of];
    feed_trainer other;
    bench_arm arm;
    bool steady, has_other = false;
    measure_rounds rounds = {0};
    iter_status s = ITER_OK;
    if (p->moves_consumer) {
        s = feed_open(&p->options, p->ndarray ? &d->arrays : NULL, &other, err);
        has_other = s == ITER_OK;
    }
    if (s == ITER_OK) s = arm_open(&p->options, p->ndarray ? &d->arrays : NULL, &arm, err);
    if (s == ITER_OK) {
        if (d->e.consumes) feed_from(has_other ? &other : &d->feed, &arm);
        measure_side sides[] = {arm_side(&d->arms[d->watched]), arm_side(&arm)};
        const double seconds = d->run.seconds > 0 ? d->run.seconds : ROUNDS_SECONDS;
        s = rounds_measure("proof (step 3 of 3)", sides, 2, 0.6 * seconds, seconds, &rounds,
                           &steady, err);
        if (s == ITER_OK) s = measure_rounds_ratio(&rounds, 0, 1, &d->proved, err);
        d->has_proof = s == ITER_OK && rounds.n_rounds > 0;
        measure_rounds_free(&rounds);
        arm_close(&arm);
    }
    if (has_other) feed_close(&other);
    return s;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static iter_status write_html(const diagnosis *d, iter_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for a report");
    diagnosis_json(d, out);
    iter_status s = fclose(out) == 0 ? report_html_write(d->asked.html, text, bytes, err)
                                     : bench_fail(err, ITER_ENOMEM, "no memory for a report");
    free(text);
    return s;
}

static iter_status deliver(const diagnosis *d, iter_error *err) {
    const char *json = d->asked.json;
    if (json == NULL || strcmp(json, "-") != 0) diagnosis_print(d, stdout);
    iter_status s = d->asked.html != NULL ? write_html(d, err) : ITER_OK;
    if (s < 0 || json == NULL) return s;
    FILE *out;
    s = bench_json_open(json, &out, err);
    if (s < 0) return s;
    diagnosis_json(d, out);
    return bench_json_close(json, out, err);
}

int cmd_diagnose(const bench_options *options) {
    iter_error err = {ITER_ENOMEM, "no memory"};
    diagnosis *d = calloc(1, sizeof(*d));
    if (d == NULL) return bench_say(BENCH_FAILED, &err);
    d->asked = *options;
    if (plant_make(options, &d->planted, &d->run, &err) < 0) {
        plant_free(d->planted);
        free(d);
        return bench_say(err.status == ITER_EINVAL ? BENCH_USAGE : BENCH_FAILED, &err);
    }
    bench_stop_install();
    iter_status s = open_all(d, &err);
    if (s == ITER_OK) s = measure_arms(d, &err);
    if (s == ITER_OK && bench_stopped() && d->rounds.n_rounds == 0)
        s = bench_fail(&err, ITER_ECANCELED, "interrupted before each arm had a turn");
    if (s == ITER_OK) {
        gather(d);
        s = gather_link(d, &err);
        if (s == ITER_OK) s = record(d, &err);
    }
    if (s == ITER_OK && !bench_stopped()) s = probe_changes(d, &err);
    if (s == ITER_OK) {
        d->v = verdict_make(&d->e);
        const iter_status proof = prove(d, &err);
        d->interrupted = bench_stopped();
        s = deliver(d, &err); /* also if the change could not be made */
        if (s == ITER_OK) s = proof;
    }
    close_all(d);
    free(d);
    return bench_stop_status(s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE);
}
