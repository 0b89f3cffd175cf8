/*
 * cmd_versus.c - `iterbench versus`: pairs two programs that speak the protocol of `serve`, in any
 * language.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/common/page.h"
#include "bench/common/progress.h"
#include "bench/iterbench.h"
#include "bench/measure/measure.h"
#include "diagnose/words.h"

#define LABEL              10
#define SLICES_A_PAIR_MOST 16.0 /* with pauses and dropped pairs, before it stops */

typedef struct shown {
    progress line;
    unsigned pairs;
} shown;

static void after_pair(void *user, uint32_t n_kept, uint32_t n_dropped) {
    shown *s = user;
    progress_show(&s->line, "versus", "%u of %u pairs kept, %u dropped", n_kept, s->pairs,
                  n_dropped);
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

static iter_status write_json(const bench_options *options, const measure_result *result,
                              iter_error *err) {
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
    json_end(&w);
    return bench_json_close(options->json, w.out, err);
}

static iter_status report(const bench_options *options, const measure_result *result,
                          iter_error *err) {
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
    }
    return options->json != NULL ? write_json(options, result, err) : ITER_OK;
}

static iter_status run_pairs(const bench_options *options, iter_error *err) {
    measure_child *a = NULL, *b = NULL;
    measure_result result = {0};
    iter_status s = measure_child_start(options->a, &a, err);
    if (s == ITER_OK) s = measure_child_start(options->b, &b, err);
    if (s == ITER_OK) {
        measure_options opt = MEASURE_OPTIONS_INIT;
        measure_side side_a = measure_child_side(a, "a"), side_b = measure_child_side(b, "b");
        opt.min_pairs = (uint32_t)options->pairs;
        if (options->slice_s > 0) opt.slice_s = fmin(options->slice_s, MEASURE_SLICE_MAX_S);
        opt.max_s = SLICES_A_PAIR_MOST * opt.slice_s * (double)options->pairs;
        opt.after_pair = after_pair;
        const double least = 2 * opt.slice_s * (double)options->pairs;
        shown user = {progress_begin(least, opt.max_s), opt.min_pairs};
        opt.after_user = &user;
        s = measure_pairs(&side_a, &side_b, &opt, &result, err);
        progress_end(&user.line);
        if (s == ITER_OK && result.n_pairs == 0)
            s = bench_fail(err, ITER_ETIMEDOUT,
                           "no pair kept in %.0f s (%u dropped): this machine is not steady enough "
                           "just now",
                           opt.max_s, result.n_dropped);
        if (s == ITER_OK) s = report(options, &result, err);
        measure_free(&result);
    }
    measure_child_stop(a);
    measure_child_stop(b);
    return s;
}

int cmd_versus(const bench_options *options) {
    iter_error err;
    if (options->n_words > 0 || options->a == NULL || options->b == NULL) {
        bench_fail(&err, ITER_EINVAL, "versus wants --a COMMAND and --b COMMAND");
        return bench_say(BENCH_USAGE, &err);
    }
    return run_pairs(options, &err) < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}
