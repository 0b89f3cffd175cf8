/*
 * cmd_ranks.c - a run under mpirun, srun or torchrun: every process is a rank, all of them run at
 * the same time, and rank 0 reports for all.
 *
 * With --model the ranks train together, and each step's time is told by the trainer. Without, each
 * takes batches of its loader alone; then a step is what a trainer would see that waits for the
 * slowest rank in each slice. Slices are agreed upon, so all ranks take the same steps. A rank that
 * fails ends all of them with its reason.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iter/engine.h>

#include "bench/common/bench_cache.h"
#include "bench/common/bench_stop.h"
#include "bench/common/bench_util.h"
#include "bench/common/progress.h"
#include "bench/iterbench.h"
#include "bench/measure/feed.h"
#include "bench/verdict/plant.h"
#include "bench/verdict/ranks_report.h"
#include "diagnose/observer.h"

#define SECONDS      10.0
#define SLICE_S      0.5
#define TIMEOUT_S    300
#define WARM_STEPS   3
#define MOST_STEPS   100000
#define LAST_WORDS_S 0.3 /* for other ranks to print the reason, before all are ended */

/* What a rank tells the others after a slice. */
typedef struct slice_word {
    iter_error failed; /* status 0 = nothing failed */
    double seconds, wall;
    int32_t stopped, ended; /* ended: an epoch's last batch was taken */
} slice_word;

/* What a rank tells at the end. */
typedef struct last_word {
    ranks_part part;
    double sums;
    uint64_t n_failures;
    char failure[256];
} last_word;

typedef struct ranks_run {
    bench_options asked, run;
    iter_ranks told;
    iter_communicator *comm;
    plant *planted;
    bench_arrays arrays;
    bool has_arrays, has_arm;
    bench_arm arm;
    char chain[96];
    iter_model *model;
    iter_trainer *trainer;
    observer *observer;
    slice_word *slices;              /* [ranks] */
    double *loads;                   /* [ranks] seconds; without a trainer */
    iter_rank_stats *before, *stats; /* [ranks] of the trainer, when the measuring began and now */
    double sums_before, slowest_before;
    uint64_t *n_slowest; /* [ranks]; without a trainer */
    uint64_t left;       /* steps of the slice */
    uint64_t n_steps, n_samples;
    double wall, slowest;
    bool stopped;
} ranks_run;

/* What makes no sense for several ranks, or is not there. */
static iter_status check(const bench_options *o, iter_error *err) {
    const char *what = o->hash               ? "--hash"
                       : o->dump != NULL     ? "--dump"
                       : o->epochs > 0       ? "--epochs"
                       : o->has_start        ? "--start"
                       : o->html != NULL     ? "--html"
                       : o->trace != NULL    ? "--trace"
                       : o->failures != NULL ? "--failures"
                       : o->prove            ? "--prove"
                       : o->sweep != 0       ? "--sweep"
                       : o->compute_ms > 0   ? "--compute-ms"
                                             : NULL;
    if (what == NULL) return ITER_OK;
    return bench_fail(err, ITER_EINVAL,
                      "%s is for one process, and a launcher started several; with --ranks 1 each "
                      "of them runs alone",
                      what);
}

/* ---- Open ------------------------------------------------------------------------------------ */

static iter_status open_trainer(ranks_run *r, iter_error *err) {
    iter_trainer_options opt;
    iter_status s = iter_model_parse(bench_model_text(r->run.model), &r->model, err);
    if (s < 0) return s;
    feed_model_options(&r->run, &opt);
    opt.communicator = r->comm;
    return iter_trainer_create(r->model, r->arm.loaders[0], &opt, &r->trainer, err);
}

static iter_status open_own(ranks_run *r, iter_error *err) {
    bench_options with_chain;
    iter_status s = feed_options(&r->asked, &with_chain, r->chain, err);
    if (s == ITER_OK) s = plant_make(&with_chain, &r->planted, &r->run, err);
    if (s == ITER_OK && r->run.loader == BENCH_BOTH) r->run.loader = BENCH_DATALOADER;
    if (s == ITER_OK && r->run.loader == BENCH_NDARRAY) {
        s = bench_arrays_load(&r->run, UINT64_MAX, &r->arrays, err);
        r->has_arrays = s == ITER_OK;
    }
    if (s == ITER_OK) s = arm_open(&r->run, r->has_arrays ? &r->arrays : NULL, &r->arm, err);
    r->has_arm = s == ITER_OK;
    return s == ITER_OK ? observer_start(r->arm.loaders[0], NULL, &r->observer, err) : s;
}

static iter_status take_memory(ranks_run *r, iter_error *err) {
    const uint32_t n = r->told.ranks;
    r->slices = calloc(n, sizeof(*r->slices));
    r->loads = calloc(n, sizeof(*r->loads));
    r->before = calloc(n, sizeof(*r->before));
    r->stats = calloc(n, sizeof(*r->stats));
    r->n_slowest = calloc(n, sizeof(*r->n_slowest));
    if (r->slices != NULL && r->loads != NULL && r->before != NULL && r->stats != NULL &&
        r->n_slowest != NULL)
        return ITER_OK;
    return bench_fail(err, ITER_ENOMEM, "no memory for %u ranks", n);
}

static void close_all(ranks_run *r) {
    observer_stop(r->observer);
    iter_trainer_destroy(r->trainer);
    iter_model_unref(r->model);
    if (r->has_arm) arm_close(&r->arm);
    if (r->has_arrays) bench_arrays_free(&r->arrays); /* after the loader, which borrows them */
    plant_free(r->planted);
    free(r->slices);
    free(r->loads);
    free(r->before);
    free(r->stats);
    free(r->n_slowest);
}

/* ---- Slices ---------------------------------------------------------------------------------- */

/* Tells the others how the slice went. Returns the first rank's error, if there is one. */
static iter_status agree(ranks_run *r, iter_status status, double seconds, bool ended,
                         iter_error *err) {
    slice_word own = {
        .seconds = seconds, .wall = r->wall, .stopped = bench_stopped(), .ended = ended};
    if (status < 0) own.failed = *err;
    iter_status s = iter_communicator_gather(r->comm, &own, sizeof(own), r->slices, err);
    for (uint32_t i = 0; s == ITER_OK && i < r->told.ranks; i++) {
        const slice_word *said = &r->slices[i];
        r->stopped |= said->stopped != 0;
        if (said->failed.status < 0)
            s = bench_fail(err, said->failed.status, "rank %u: %.400s", i, said->failed.message);
    }
    return s;
}

/* Called by the trainer after each step. */
static bool count_step(void *user, const iter_result *so_far) {
    ranks_run *r = user;
    (void)so_far;
    return --r->left > 0 && !bench_stopped();
}

static iter_status train(ranks_run *r, uint64_t n, uint64_t *out_steps, uint64_t *out_samples,
                         bool *out_ended, iter_error *err) {
    iter_result result;
    r->left = n;
    const iter_status s =
        iter_trainer_epoch(r->trainer, r->arm.loaders[0], count_step, r, &result, err);
    *out_steps = result.n_steps;
    *out_samples = result.n_rows;
    *out_ended = s == ITER_OK;
    if (s == ITER_OK && result.n_steps == 0)
        return bench_fail(err, ITER_EINVAL, "an epoch of this run has no batches");
    return s == ITER_OK ? iter_loader_reset(r->arm.loaders[0], err) : s < 0 ? s : ITER_OK;
}

/* Takes n steps, unless the epoch ends before. *out_seconds: the slowest rank's time. */
static iter_status slice(ranks_run *r, uint64_t n, bool counts, double *out_seconds,
                         iter_error *err) {
    uint64_t steps = n, samples = 0;
    double seconds = 0;
    bool ended = false;
    const double begin = bench_now();
    observer_on(r->observer);
    iter_status s = r->trainer != NULL ? train(r, n, &steps, &samples, &ended, err)
                                       : arm_run(&r->arm, n, counts, &samples, &seconds, err);
    observer_off(r->observer);
    if (r->trainer != NULL) seconds = bench_now() - begin;
    if (counts) r->wall += seconds;
    s = agree(r, s, seconds, ended, err);
    if (s < 0) return s;
    uint32_t slowest = 0;
    for (uint32_t i = 0; i < r->told.ranks; i++)
        if (r->slices[i].seconds > r->slices[slowest].seconds) slowest = i;
    *out_seconds = r->slices[slowest].seconds;
    if (!counts) return ITER_OK;
    r->n_steps += steps;
    r->n_samples += samples;
    if (r->trainer != NULL) return ITER_OK;
    r->slowest += *out_seconds;
    r->n_slowest[slowest] += steps;
    for (uint32_t i = 0; i < r->told.ranks; i++)
        r->loads[i] += r->slices[i].seconds;
    return ITER_OK;
}

static void note_beginning(ranks_run *r) {
    if (r->trainer == NULL) return;
    const iter_trainer_info info = iter_trainer_describe(r->trainer);
    iter_trainer_ranks(r->trainer, r->before, r->told.ranks);
    r->sums_before = info.sum_seconds;
    r->slowest_before = info.slowest_seconds;
}

/* All ranks decide alike: by what they were told. */
static iter_status measure(ranks_run *r, iter_error *err) {
    const double most = r->run.seconds > 0 ? r->run.seconds : SECONDS;
    double seconds, over = 0;
    iter_status s = slice(r, WARM_STEPS, false, &seconds, err);
    uint64_t n = 1;
    note_beginning(r);
    progress line = progress_begin(most, most);
    while (s == ITER_OK && !r->stopped && over < most) {
        s = slice(r, n, true, &seconds, err);
        if (s < 0) break;
        over += seconds;
        const double wanted = (double)n * SLICE_S / (seconds > 1e-6 ? seconds : 1e-6);
        if (seconds < SLICE_S / 2 && r->slices[0].ended == 0)
            n = (uint64_t)fmin(2.0 * (double)n, MOST_STEPS);
        if (seconds > SLICE_S) n = (uint64_t)fmax(wanted, 1);
        if (r->told.rank == 0) progress_show(&line, "all ranks", "%.0f steps", (double)r->n_steps);
    }
    progress_end(&line);
    return s;
}

/* ---- Figures --------------------------------------------------------------------------------- */

/* The stage in which the loader's threads spend most. */
static void find_stage(ranks_run *r, ranks_part *out) {
    evidence *seen = calloc(1, sizeof(*seen));
    if (seen == NULL) return;
    observer_read(r->observer, seen);
    for (int i = 0; i < seen->n_stages; i++) {
        const evidence_stage *stage = &seen->stages[i];
        if (stage->kind == EVIDENCE_OF_NONE || stage->share <= out->stage_share) continue;
        out->stage_share = stage->share;
        snprintf(out->stage, sizeof(out->stage), "%s", stage->name);
    }
    out->no_core = fmax(seen->consumer_runnable, 0);
    free(seen);
}

static void own_last_word(ranks_run *r, last_word *out) {
    iter_failure first;
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    memset(out, 0, sizeof(*out));
    gethostname(out->part.host, sizeof(out->part.host) - 1);
    find_stage(r, &out->part);
    if (arm_stats(&r->arm, &stats, NULL) == ITER_OK) out->n_failures = stats.n_failures;
    if (out->n_failures > 0 && arm_failures(&r->arm, &first, 1) > 0)
        snprintf(out->failure, sizeof(out->failure), "%.255s", first.message);
    if (r->trainer != NULL)
        out->sums =
            (iter_trainer_describe(r->trainer).sum_seconds - r->sums_before) / (double)r->n_steps;
}

static void part_of(const ranks_run *r, uint32_t rank, ranks_part *out) {
    const double n = (double)r->n_steps;
    const iter_rank_stats *now = &r->stats[rank], *then = &r->before[rank];
    if (r->trainer == NULL) {
        out->load = r->loads[rank] / n;
        out->wait = (r->slowest - r->loads[rank]) / n;
        out->n_slowest = r->n_slowest[rank];
        return;
    }
    out->load = (now->outside_seconds - then->outside_seconds) / n;
    out->compute = (now->compute_seconds - then->compute_seconds) / n;
    out->wait = (now->wait_seconds - then->wait_seconds) / n;
    out->n_slowest = now->n_slowest - then->n_slowest;
}

/* Gathers the figures of all ranks. `words` and `parts` have room for all of them. */
static iter_status gather(ranks_run *r, last_word *words, ranks_part *parts, ranks_report *out,
                          iter_error *err) {
    last_word own;
    own_last_word(r, &own);
    iter_status s = iter_communicator_gather(r->comm, &own, sizeof(own), words, err);
    if (s < 0) return s;
    if (r->trainer != NULL) iter_trainer_ranks(r->trainer, r->stats, r->told.ranks);
    out->e = (ranks_evidence){.n = r->told.ranks, .trains = r->trainer != NULL, .parts = parts};
    for (uint32_t i = 0; i < r->told.ranks; i++) {
        parts[i] = words[i].part;
        part_of(r, i, &parts[i]);
        /* The rank that waits least for others sees what the sums take. */
        if (i == 0 || words[i].sums < out->e.sums) out->e.sums = words[i].sums;
        if (words[i].n_failures > 0 && out->n_failures == 0)
            snprintf(out->failure, sizeof(out->failure), "rank %u: %.255s", i, words[i].failure);
        out->n_failures += words[i].n_failures;
    }
    const double n = (double)r->n_steps;
    const iter_trainer_info info =
        r->trainer != NULL ? iter_trainer_describe(r->trainer) : (iter_trainer_info){.rank = 0};
    out->e.slowest =
        (r->trainer != NULL ? info.slowest_seconds - r->slowest_before : r->slowest) / n;
    out->e.step = (r->trainer != NULL ? r->wall : r->slowest) / n;
    out->micro_batches = r->trainer != NULL ? info.micro_batches : 0;
    return ITER_OK;
}

static iter_status write_json(const ranks_report *report, const char *path, iter_error *err) {
    FILE *out;
    iter_status s = bench_json_open(path, &out, err);
    if (s < 0) return s;
    ranks_report_json(report, out);
    return bench_json_close(path, out, err);
}

static iter_status report(ranks_run *r, iter_error *err) {
    ranks_report out = {.options = &r->run, .launcher = r->told.launcher};
    last_word *words = calloc(r->told.ranks, sizeof(*words));
    ranks_part *parts = calloc(r->told.ranks, sizeof(*parts));
    const char *json = r->asked.json;
    iter_status s = words != NULL && parts != NULL
                        ? ITER_OK
                        : bench_fail(err, ITER_ENOMEM, "no memory for %u ranks", r->told.ranks);
    if (s == ITER_OK && r->n_steps == 0)
        s = bench_fail(err, ITER_ECANCELED, "interrupted before the first step");
    s = agree(r, s, 0, false, err);
    if (s == ITER_OK) s = gather(r, words, parts, &out, err);
    if (s == ITER_OK && r->told.rank == 0) {
        const iter_trainer_info info =
            r->trainer != NULL ? iter_trainer_describe(r->trainer) : (iter_trainer_info){.rank = 0};
        out.v = ranks_verdict_make(&out.e);
        out.n_steps = r->n_steps;
        out.n_samples = r->trainer != NULL ? r->n_samples : r->n_steps * r->run.batch;
        out.samples_per_s = (double)out.n_samples / ((double)r->n_steps * out.e.step);
        out.backend = r->trainer != NULL ? info.backend : NULL;
        out.interrupted = r->stopped;
        if (json == NULL || strcmp(json, "-") != 0) ranks_report_print(&out, stdout);
        if (json != NULL) s = write_json(&out, json, err);
    }
    free(words);
    free(parts);
    return s;
}

/* ---- The run --------------------------------------------------------------------------------- */

static iter_status run(ranks_run *r, iter_error *err) {
    const iter_status memory = take_memory(r, err);
    if (memory < 0) return memory;
    iter_status s = agree(r, open_own(r, err), 0, false, err);
    if (s == ITER_OK && r->run.model != BENCH_MODEL_NONE) s = open_trainer(r, err);
    if (s == ITER_OK) s = measure(r, err);
    return s == ITER_OK ? report(r, err) : s;
}

int cmd_ranks(const bench_options *options) {
    iter_error err = {ITER_ENOMEM, "no memory"};
    ranks_run *r = calloc(1, sizeof(*r));
    if (r == NULL) return bench_say(BENCH_FAILED, &err);
    r->asked = *options;
    iter_status s = check(options, &err);
    if (s == ITER_OK) s = iter_ranks_read(&r->told, &err);
    r->asked.job = &r->told;
    if (r->asked.any_device) r->asked.device = ITER_DEVICE((int32_t)r->told.local_rank);
    if (s == ITER_OK) s = iter_communicator_open(NULL, TIMEOUT_S, &r->comm, &err);
    if (s < 0) {
        free(r);
        return bench_say(s == ITER_EINVAL ? BENCH_USAGE : BENCH_FAILED, &err);
    }
    bench_stop_install();
    s = run(r, &err);
    const int status = s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
    close_all(r);
    if (s < 0) {
        bench_sleep(LAST_WORDS_S);
        iter_communicator_abort(r->comm);
    }
    iter_communicator_close(r->comm);
    free(r);
    return bench_stop_status(status);
}
