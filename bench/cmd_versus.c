/*
 * cmd_versus.c - `iterbench versus`: pairs two programs that speak the protocol of `serve`, in any
 * language.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_stop.h"
#include "bench/common/bench_util.h"
#include "bench/common/page.h"
#include "bench/common/progress.h"
#include "bench/iterbench.h"
#include "bench/measure/measure.h"
#include "diagnose/words.h"

#define LABEL              10
#define STARTS_MOST        100  /* as the option says */
#define SLICES_A_PAIR_MOST 16.0 /* with pauses and dropped pairs, before it stops */

/* What all starts gave. */
typedef struct findings {
    measure_result pairs;
    double by_start[STARTS_MOST]; /* the median ratio of each, NaN = no pair was kept */
    uint64_t n_asked;             /* pairs */
    progress line;
} findings;

static void after_pair(void *user, uint32_t n_kept, uint32_t n_dropped) {
    findings *f = user;
    progress_show(&f->line, "versus", "%u of %llu pairs kept, %u dropped",
                  f->pairs.n_pairs + n_kept, (unsigned long long)f->n_asked,
                  f->pairs.n_dropped + n_dropped);
}

static void write_side(json_writer *w, const char *key, const char *command,
                       const measure_interval *rate) {
    json_begin(w, key, '{');
    json_text(w, "command", command);
    json_number(w, "samples_per_s", rate->median);
    json_number(w, "low", rate->low);
    json_number(w, "high", rate->high);
    json_end(w);
}

static iter_status write_json(const bench_options *options, const findings *found,
                              iter_error *err) {
    const measure_result *result = &found->pairs;
    json_writer w = {0};
    iter_status s = bench_json_open(options->json, &w.out, err);
    if (s < 0) return s;
    json_begin(&w, NULL, '{');
    bench_machine_json(&w);
    write_side(&w, "a", options->a, &result->rate_a);
    write_side(&w, "b", options->b, &result->rate_b);
    json_begin(&w, "ratio", '{');
    json_number(&w, "median", result->ratio.median);
    json_number(&w, "low", result->ratio.low);
    json_number(&w, "high", result->ratio.high);
    json_count(&w, "pairs", result->n_pairs);
    json_count(&w, "dropped", result->n_dropped);
    json_end(&w);
    json_begin(&w, "ratios", '[');
    for (uint32_t i = 0; i < result->n_pairs; i++)
        json_number(&w, NULL, result->ratios[i]);
    json_end(&w);
    json_begin(&w, "by_start", '[');
    for (uint64_t i = 0; i < options->starts; i++)
        json_number(&w, NULL, found->by_start[i]);
    json_end(&w);
    json_end(&w);
    return bench_json_close(options->json, w.out, err);
}

static void say_starts(const page *p, const bench_options *options, const findings *found) {
    double least = INFINITY, most = -INFINITY;
    int n = 0;
    for (uint64_t i = 0; i < options->starts; i++) {
        n += !isnan(found->by_start[i]);
        least = fmin(least, found->by_start[i]); /* which skip NaN */
        most = fmax(most, found->by_start[i]);
    }
    if (n > 1)
        page_row(p, LABEL, "starts", PAGE_PLAIN, "%d, with medians of b / a from %.3g to %.3g", n,
                 least, most);
}

static iter_status report(const bench_options *options, const findings *found, iter_error *err) {
    const measure_result *result = &found->pairs;
    if (options->json == NULL || strcmp(options->json, "-") != 0) {
        const page p = page_of(stdout);
        char rate[WORDS_NUMBER], phrase[WORDS_PHRASE];
        page_row(&p, LABEL, "a", PAGE_PLAIN, "%s samples/s: %s",
                 words_count(result->rate_a.median, rate), options->a);
        page_row(&p, LABEL, "b", PAGE_PLAIN, "%s samples/s: %s",
                 words_count(result->rate_b.median, rate), options->b);
        page_row(&p, LABEL, "verdict", PAGE_STRONG, "%s",
                 words_ratio("a", "b", &result->ratio, phrase));
        page_row(&p, LABEL, "pairs", PAGE_PLAIN, "%u kept, %u dropped", result->n_pairs,
                 result->n_dropped);
        say_starts(&p, options, found);
    }
    return options->json != NULL ? write_json(options, found, err) : ITER_OK;
}

static measure_options options_of(const bench_options *options, uint32_t pairs, findings *found) {
    measure_options opt = MEASURE_OPTIONS_INIT;
    opt.min_pairs = pairs;
    if (options->slice_s > 0) opt.slice_s = fmin(options->slice_s, MEASURE_SLICE_MAX_S);
    opt.max_s = SLICES_A_PAIR_MOST * opt.slice_s * pairs;
    opt.memory = true;
    opt.after_pair = after_pair;
    opt.after_user = found;
    return opt;
}

/* Starts both programs, and keeps so many pairs of them. */
static iter_status run_start(const bench_options *options, uint32_t pairs, findings *found,
                             double *out_median, iter_error *err) {
    measure_child *a = NULL, *b = NULL;
    measure_result result = {0};
    iter_status s = measure_child_start(options->a, &a, err);
    if (s == ITER_OK) s = measure_child_start(options->b, &b, err);
    if (s == ITER_OK) {
        const measure_options opt = options_of(options, pairs, found);
        const measure_side side_a = measure_child_side(a, "a"), side_b = measure_child_side(b, "b");
        s = measure_pairs(&side_a, &side_b, &opt, &result, err);
        *out_median = result.ratio.median;
        if (s == ITER_OK) s = measure_add(&found->pairs, &result, err);
        measure_free(&result);
    }
    measure_child_stop(a);
    measure_child_stop(b);
    return s;
}

static iter_status run_starts(const bench_options *options, iter_error *err) {
    const uint64_t pairs = options->pairs, starts = options->starts;
    findings found = {.n_asked = pairs};
    const measure_options all = options_of(options, (uint32_t)pairs, &found);
    found.line = progress_begin(2 * all.slice_s * (double)pairs, all.max_s);
    iter_status s = ITER_OK;
    for (int i = 0; i < STARTS_MOST; i++)
        found.by_start[i] = NAN;
    for (uint64_t i = 0; i < starts && s == ITER_OK && !bench_stopped(); i++) {
        const uint64_t part = (i + 1) * pairs / starts - i * pairs / starts;
        s = run_start(options, (uint32_t)part, &found, &found.by_start[i], err);
    }
    progress_end(&found.line);
    if (s == ITER_OK && found.pairs.n_pairs == 0)
        s = bench_fail(err, ITER_ETIMEDOUT,
                       "no pair kept in %.0f s (%u dropped): this machine is not steady enough "
                       "just now",
                       all.max_s, found.pairs.n_dropped);
    if (s == ITER_OK) s = report(options, &found, err);
    measure_free(&found.pairs);
    return s;
}

int cmd_versus(const bench_options *options) {
    iter_error err;
    if (options->n_words > 0 || options->a == NULL || options->b == NULL) {
        bench_fail(&err, ITER_EINVAL, "versus wants --a COMMAND and --b COMMAND");
        return bench_say(BENCH_USAGE, &err);
    }
    if (options->starts > options->pairs) {
        bench_fail(&err, ITER_EINVAL, "--starts wants at most --pairs, %llu, not %llu",
                   (unsigned long long)options->pairs, (unsigned long long)options->starts);
        return bench_say(BENCH_USAGE, &err);
    }
    return run_starts(options, &err) < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}
