/*
 * cmd_run.c - `iterbench --data ...`: measures one loader, or both against one another.
 *
 * The order matters. First the page cache is prepared and proved; then arrays are loaded and the
 * loaders opened (timed apart); then come first batch, warm-up and slices. If the bytes come from
 * memory, the straight loops take their slices between the loader's, so that both meet the same
 * machine. If they come from files, the loops run afterwards, since they would warm the cache. Peak
 * memory is read before the straight loops make arrays of their own.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_stop.h"
#include "bench/common/bench_util.h"
#include "bench/common/progress.h"
#include "bench/iterbench.h"
#include "bench/report/run_result.h"
#include "diagnose/report_html.h"
#include "diagnose/words.h"

#define DEFAULT_SECONDS 3.0
#define SLICE_S         0.1 /* of a single loader */
#define SLICE_MAX_S     0.5
#define LIMIT_SLICE_S   0.02 /* of a straight loop between those slices */
#define WARM_S          0.15
#define REST_MAX_S      1.0

/* ---- Types ----------------------------------------------------------------------------------- */

typedef struct run {
    bench_options options; /* as given, with values derived from it */
    run_result *result;
    bench_arrays arrays;
    bool has_arrays;
    yardstick yard;
    bool has_yard, yard_between;
    progress line;
} run;

/* ---- Progress -------------------------------------------------------------------------------- */

static void show(run *r, const char *what) {
    const bench_arm *arm = &r->result->arms[r->result->n_arms - 1];
    char rate[WORDS_NUMBER];
    words_count(arm_rate(arm), rate);
    if (r->result->n_arms == 1) r->line.measured = arm->seconds; /* loops run between its slices */
    if (r->options.epochs > 0)
        progress_show(&r->line, what, "%s samples/s, epoch %" PRIu64 " of %" PRIu64, rate,
                      arm->epochs + (arm->epochs < r->options.epochs), r->options.epochs);
    else
        progress_show(&r->line, what, "%s samples/s", rate);
}

/* ---- Straight loops -------------------------------------------------------------------------- */

static iter_status open_yard(run *r, iter_error *err) {
    const bench_arm *arm = &r->result->arms[r->result->n_arms - 1];
    r->result->peak_rss_bytes = bench_peak_rss();
    r->has_yard = true;
    return yardstick_open(&r->yard, &r->options, r->has_arrays ? &r->arrays : NULL, arm->loaders[0],
                          arm_n_slots(arm), err);
}

/* Whether straight loops may run between the slices: only if the bytes are in memory. */
static bool between(const run *r) {
    iter_loader_stats stats;
    const bench_arm *arm = &r->result->arms[r->result->n_arms - 1];
    if (r->options.epochs > 0) return false;
    if (r->has_arrays && r->result->n_arms == 1) return true;
    if (arm_stats(arm, &stats, NULL) < 0 || stats.source != ITER_SOURCE_MEMORY) return false;
    /* If there are workers, they make photos ahead for longer than a loop's slice, on the same
     * cores. */
    return stats.n_workers == 0 || !photo_yard_fits(iter_dataset_describe(arm->dataset));
}

/* Waits until the workers have finished batches made ahead, for at most REST_MAX_S. */
static void settle(bench_arm *arm) {
    const measure_side side = arm_side(arm);
    const double until = bench_now() + REST_MAX_S;
    do
        bench_sleep(0.001);
    while (!side.rests(side.user) && bench_now() < until);
}

static iter_status no_limits(run_result *result) {
    memset(&result->limits, 0xff, sizeof(result->limits)); /* each of them NaN */
    result->link = (gpu_link_rates)GPU_LINK_RATES_NONE;
    if (result->peak_rss_bytes == 0) result->peak_rss_bytes = bench_peak_rss();
    return ITER_OK;
}

/* None after an interrupt, which ends all measuring, nor with a hash, whose rate is not the
 * loader's. */
static iter_status limits(run *r, iter_error *err) {
    r->result->has_limits = !r->result->interrupted && !r->options.hash;
    if (!r->result->has_limits) return no_limits(r->result);
    iter_status s = r->has_yard ? ITER_OK : open_yard(r, err);
    for (int i = 0; i < r->result->n_arms; i++)
        settle(&r->result->arms[i]);
    if (s == ITER_OK) s = yardstick_rates_of(&r->yard, &r->options, &r->result->limits, err);
    if (s == ITER_OK) s = run_link(&r->result->arms[r->result->n_arms - 1], &r->result->link, err);
    if (s == ITER_OK)
        snprintf(r->result->limits_why, sizeof(r->result->limits_why), "%s", r->yard.why);
    return s;
}

/* ---- One loader ------------------------------------------------------------------------------ */

static iter_status warm_up(bench_arm *arm, iter_error *err) {
    iter_status s = ITER_OK;
    double start = bench_now();
    for (uint64_t n = 1; s == ITER_OK && bench_now() - start < WARM_S && n < 1u << 20; n *= 2) {
        uint64_t samples;
        double seconds;
        s = arm_run(arm, n, false, &samples, &seconds, err);
    }
    return s;
}

static iter_status run_slices(run *r, bench_arm *arm, iter_error *err) {
    bool by_time = r->options.epochs == 0;
    uint64_t n = 1, samples = 1;
    iter_status s = ITER_OK;
    while (s == ITER_OK && samples > 0 && (!by_time || arm->seconds < r->options.seconds)) {
        double seconds;
        s = arm_run(arm, n, true, &samples, &seconds, err);
        if (seconds < SLICE_S / 2)
            n *= 2;
        else if (seconds > SLICE_S * 2 && n > 1)
            n /= 2;
        if (s == ITER_OK && r->yard_between) yardstick_slice(&r->yard, LIMIT_SLICE_S);
        show(r, arm->name);
    }
    return s;
}

static iter_status run_one(run *r, iter_error *err) {
    bench_arm *arm = &r->result->arms[0];
    iter_status s = r->options.epochs == 0 ? warm_up(arm, err) : ITER_OK;
    r->yard_between = s == ITER_OK && between(r);
    if (r->yard_between) s = open_yard(r, err);
    return s == ITER_OK ? run_slices(r, arm, err) : s;
}

/* ---- Two loaders ----------------------------------------------------------------------------- */

static void after_pair(void *user, uint32_t n_kept, uint32_t n_dropped) {
    run *r = user;
    char text[64];
    if (r->yard_between) yardstick_slice(&r->yard, LIMIT_SLICE_S);
    snprintf(text, sizeof(text), "pair %u (%u dropped)", n_kept, n_dropped);
    show(r, text);
}

/* By epochs, both run to their end, even if the witness moves. By time, they run until enough pairs
 * are kept, at most four times as long. */
static iter_status run_both(run *r, iter_error *err) {
    run_result *result = r->result;
    bool by_time = r->options.epochs == 0;
    iter_status s = ITER_OK;
    for (int i = 0; s == ITER_OK && by_time && i < 2; i++)
        s = warm_up(&result->arms[i], err);
    r->yard_between = s == ITER_OK && between(r);
    if (r->yard_between) s = open_yard(r, err);
    if (s < 0) return s;
    measure_options opt = MEASURE_OPTIONS_INIT;
    measure_side a = arm_side(&result->arms[0]), b = arm_side(&result->arms[1]);
    opt.min_pairs = (uint32_t)r->options.pairs;
    const double share = fmax(r->options.seconds / (2.0 * opt.min_pairs), 0.02);
    opt.slice_s = by_time ? fmin(share, SLICE_MAX_S) : SLICE_S;
    opt.min_s = r->options.seconds;
    opt.max_s = 4 * r->options.seconds;
    opt.after_pair = after_pair;
    opt.after_user = r;
    if (!by_time) {
        opt.warm_batches = 0;
        opt.min_pairs = UINT32_MAX;
        opt.max_s = INFINITY;
    }
    s = measure_pairs(&a, &b, &opt, &result->pairs, err);
    /* One side's epochs may be over before the other's. */
    for (int i = 0; s == ITER_OK && !by_time && i < 2; i++)
        s = run_slices(r, &result->arms[i], err);
    return s;
}

/* ---- The run --------------------------------------------------------------------------------- */

/* A mix with weights leaves the data loader alone. */
static iter_status describe_set(run *r, iter_error *err) {
    run_result *result = r->result;
    iter_dataset *dataset;
    iter_status s = bench_dataset_open(result->options, &dataset, err);
    if (s < 0) return s;
    const iter_description *set = iter_dataset_describe(dataset);
    const bool draws = set->parts != NULL && set->parts[0].weight > 0;
    if (draws && r->options.loader == BENCH_NDARRAY) {
        iter_dataset_unref(dataset);
        return bench_fail(err, ITER_EINVAL,
                          "--loader ndarray: arrays have no sources to draw from by weights");
    }
    if (draws) r->options.loader = BENCH_DATALOADER;
    result->n_samples = set->n_samples;
    result->n_classes = set->n_classes;
    snprintf(result->split, sizeof(result->split), "%s", set->split != NULL ? set->split : "");
    iter_dataset_unref(dataset);
    return ITER_OK;
}

/* Opens an arm and takes its first batch at once: the time to it counts from here, and must not
 * include opening the next arm. */
static iter_status open_arm(run *r, int i, bool ndarray, bool last, iter_error *err) {
    run_result *result = r->result;
    bench_arm *arm = &result->arms[i];
    iter_status s = arm_open(&r->options, ndarray ? &r->arrays : NULL, arm, err);
    if (s < 0) return s;
    result->n_arms = i + 1;
    if (r->options.loader != BENCH_BOTH) arm->name = "loader";
    if (r->options.hash) arm->hash = &result->hashes[i];
    if (last) {
        s = shuffle_quality_open(&result->quality, arm->loaders[0], err);
        arm->quality = result->quality.n > 0 ? &result->quality : NULL;
        if (r->options.source == ITER_SOURCE_NULL) result->quality.label = -1; /* all zeros */
    }
    return s == ITER_OK ? arm_first_batch(arm, r->options.epochs > 0, err) : s;
}

static iter_status open_arms(run *r, iter_error *err) {
    run_result *result = r->result;
    bool both = r->options.loader == BENCH_BOTH;
    iter_status s = ITER_OK;
    if (r->options.loader != BENCH_DATALOADER) {
        bench_options whole = r->options; /* in an array, no sample may have failed */
        whole.on_error = ITER_ON_ERROR_FAIL;
        s = bench_arrays_load(&whole, UINT64_MAX, &r->arrays, err);
        r->has_arrays = s == ITER_OK;
        result->load_s = r->arrays.load_s;
    }
    for (int i = 0; s == ITER_OK && i < 1 + both; i++) {
        bool ndarray = both ? i == 0 : r->options.loader == BENCH_NDARRAY;
        /* Loading the arrays has read the same files. */
        if (i == 1 && r->options.cache == BENCH_CACHE_COLD)
            s = bench_cache_prepare(&r->options, &result->cache, err);
        if (s == ITER_OK) s = open_arm(r, i, ndarray, i == both, err);
    }
    return s;
}

static iter_status list_failures(run_result *result, iter_error *err) {
    const bench_arm *arm = &result->arms[result->n_arms - 1];
    result->failures = calloc(RUN_FAILURES_MAX, sizeof(iter_failure));
    if (result->failures == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for failures");
    result->n_failures = arm_failures(arm, result->failures, RUN_FAILURES_MAX);
    result->n_reasons =
        bench_failure_reasons(result->failures, result->n_failures, result->reasons);
    return ITER_OK;
}

/* What came from each source of a mix, summed over ranks. */
static iter_status list_sources(run_result *result, iter_error *err) {
    const bench_arm *arm = &result->arms[result->n_arms - 1];
    const int32_t n = iter_loader_parts(arm->loaders[0], NULL, 0);
    if (n == 0) return ITER_OK;
    result->sources = calloc((size_t)n, sizeof(*result->sources));
    iter_part_stats *one = calloc((size_t)n, sizeof(*one));
    if (result->sources == NULL || one == NULL) {
        free(one);
        return bench_fail(err, ITER_ENOMEM, "no memory for %d sources", n);
    }
    result->n_sources = n;
    for (uint64_t rank = 0; rank < result->options->ranks; rank++) {
        iter_loader_parts(arm->loaders[rank], one, n);
        for (int32_t i = 0; i < n; i++) {
            one[i].samples += result->sources[i].samples;
            one[i].failures += result->sources[i].failures;
            result->sources[i] = one[i];
        }
    }
    free(one);
    return ITER_OK;
}

/* Also if the run failed: then the list is needed most. */
static iter_status save_failures(run_result *result, iter_error *err) {
    const char *path = result->options->failures;
    iter_status s = ITER_OK;
    if (path == NULL || result->n_arms == 0) return ITER_OK;
    if (result->failures == NULL) s = list_failures(result, err);
    return s == ITER_OK ? bench_failures_write(path, result->failures, result->n_failures, err) : s;
}

static iter_status look_back(run *r, iter_error *err) {
    run_result *result = r->result;
    iter_status s = ITER_OK;
    for (int i = 0; s == ITER_OK && i < result->n_arms; i++)
        s = arm_stats(&result->arms[i], &result->stats[i], err);
    if (s == ITER_OK) s = list_failures(result, err);
    if (s == ITER_OK) s = list_sources(result, err);
    if (s < 0) return s;
    result->has_figures =
        result->quality.n > 0 && shuffle_quality_figures(&result->quality, &result->figures);
    for (int i = 0; i < result->n_arms && !result->interrupted; i++)
        arm_measure_restore(&result->arms[i]);
    if (result->n_arms == 2 && r->options.hash && !result->interrupted &&
        result->hashes[0].sum != result->hashes[1].sum)
        return bench_fail(err, ITER_EFORMAT,
                          "ndarray hashes to %016" PRIx64 ", dataloader to %016" PRIx64,
                          result->hashes[0].sum, result->hashes[1].sum);
    return ITER_OK;
}

static iter_status measure(run *r, iter_error *err) {
    iter_status s = bench_cache_prepare(&r->options, &r->result->cache, err);
    if (s == ITER_OK) s = describe_set(r, err);
    if (s == ITER_OK) s = open_arms(r, err);
    const double seconds = r->options.seconds; /* 0 with --epochs */
    r->line = progress_begin(seconds, r->result->n_arms == 2 ? 4 * seconds : seconds);
    if (s == ITER_OK) s = r->result->n_arms == 2 ? run_both(r, err) : run_one(r, err);
    r->result->interrupted = bench_stopped();
    if (s == ITER_OK) s = look_back(r, err);
    if (s == ITER_OK) s = limits(r, err);
    progress_end(&r->line);
    return s;
}

static void clean_up(run *r) {
    run_result *result = r->result;
    free(result->sources); /* their names are the dataset's */
    if (r->has_yard) yardstick_close(&r->yard);
    for (int i = 0; i < result->n_arms; i++) {
        arm_close(&result->arms[i]);
        bench_hash_free(&result->hashes[i]);
    }
    bench_arrays_free(&r->arrays); /* after the loaders, which borrow them */
    shuffle_quality_close(&result->quality);
    measure_free(&result->pairs);
    free(result->failures);
    free(result);
}

static void write_json(const void *user, FILE *out) {
    run_result_json(user, out);
}

static iter_status report(const run *r, iter_error *err) {
    const char *json = r->options.json;
    if (json == NULL || strcmp(json, "-") != 0)
        (r->options.verbose ? run_result_table : run_result_lines)(r->result, stdout);
    iter_status s = ITER_OK;
    if (r->options.html != NULL) s = report_html_by(r->options.html, write_json, r->result, err);
    if (s < 0 || json == NULL) return s;
    FILE *out;
    s = bench_json_open(json, &out, err);
    if (s < 0) return s;
    run_result_json(r->result, out);
    return bench_json_close(json, out, err);
}

int cmd_run(const bench_options *options) {
    iter_error err;
    iter_status s;
    iter_ranks told;
    if (options->any_ranks) {
        if (iter_ranks_read(&told, &err) < 0) return bench_say(BENCH_USAGE, &err);
        if (told.ranks > 1) return cmd_ranks(options);
    }
    if (options->sweep != 0) return cmd_sweep(options);
    if (bench_options_diagnose(options)) return cmd_diagnose(options);
    if (options->dump != NULL) {
        s = bench_dump(options, &err);
        return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
    }
    run *r = calloc(1, sizeof(*r));
    run_result *result = calloc(1, sizeof(*result));
    if (r == NULL || result == NULL) {
        free(r);
        free(result);
        bench_fail(&err, ITER_ENOMEM, "no memory");
        return bench_say(BENCH_FAILED, &err);
    }
    r->options = *options;
    if (options->hash && options->epochs == 0) r->options.epochs = 1;
    if (r->options.epochs == 0 && options->seconds <= 0) r->options.seconds = DEFAULT_SECONDS;
    r->result = result;
    result->options = &r->options;
    result->load_s = NAN;
    bench_stop_install();
    s = measure(r, &err);
    iter_error list_err;
    if (save_failures(result, &list_err) < 0 && s == ITER_OK) {
        err = list_err;
        s = err.status;
    }
    if (s == ITER_OK) s = report(r, &err);
    clean_up(r);
    free(r);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : bench_stop_status(BENCH_DONE);
}
