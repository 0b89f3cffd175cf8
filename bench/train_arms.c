/*
 * train_arms.c - see train_arms.h.
 *
 * Only neighbours in time are compared: the cost of feeding is the median over rounds of t_arm /
 * t_trainer - 1. On few cores loader and trainer compete, so the reports have the CPU time of each:
 * if all cores train, the loader's CPU time is the least that feeding can cost.
 */
#include "bench/train_arms.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/iterbench.h"
#include "bench/measure/rounds.h"

#define LABEL 10

/* ---- Set-up ---------------------------------------------------------------------------------- */

iter_status train_arms_open(const bench_options *options, bool ndarray, bool arrays,
                            train_arms *out, iter_error *err) {
    memset(out, 0, sizeof(*out));
    out->options = options;
    iter_status s = bench_dataset_open(options, &out->dataset, err);
    if (s < 0) return s;
    out->loader = *options;
    out->loader.dataset = out->dataset;
    if (ndarray || arrays) {
        s = bench_arrays_load(&out->loader, UINT64_MAX, &out->arrays, err);
        out->has_arrays = s == ITER_OK;
    }
    if (s == ITER_OK) {
        s = feed_open(&out->loader, ndarray ? &out->arrays : NULL, &out->feed, err);
        out->has_feed = s == ITER_OK;
    }
    if (s < 0) return s;
    out->loader.chain = out->feed.options.chain;
    out->n_samples = iter_loader_n_samples(out->feed.replay.loaders[0]);
    return s;
}

void train_arms_close(train_arms *t) {
    for (int i = 0; i < t->n_arms; i++)
        arm_close(&t->arms[i]);
    t->n_arms = 0;
    if (t->has_feed) feed_close(&t->feed);
    if (t->has_arrays) bench_arrays_free(&t->arrays); /* after the loaders, which borrow them */
    t->has_feed = t->has_arrays = false;
    iter_dataset_unref(t->dataset);
    t->dataset = NULL;
    measure_rounds_free(&t->rounds);
}

iter_status train_arms_add(train_arms *t, const bench_options *options, bool ndarray,
                           iter_error *err) {
    bench_arm *arm = &t->arms[t->n_arms];
    if (t->n_arms == MEASURE_SIDES_MAX)
        return bench_fail(err, ITER_EINVAL, "more than %d arms", MEASURE_SIDES_MAX);
    iter_status s = arm_open(options, ndarray ? &t->arrays : NULL, arm, err);
    if (s < 0) return s;
    t->n_arms++;
    feed_from(&t->feed, arm);
    return s;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

/* Computes rates and costs from the rounds. */
static iter_status settle(train_arms *t, int n, int trainer, iter_error *err) {
    iter_status s = ITER_OK;
    for (int i = 0; s == ITER_OK && i < n; i++) {
        s = measure_rounds_ratio(&t->rounds, i, i, &t->rates[i], err);
        if (s == ITER_OK) s = measure_rounds_ratio(&t->rounds, i, trainer, &t->cost[i], err);
        t->cost[i].median -= 1;
        t->cost[i].low -= 1;
        t->cost[i].high -= 1;
    }
    return s;
}

iter_status train_arms_measure(train_arms *t, const measure_side *sides, int n, int trainer,
                               iter_error *err) {
    const double seconds = t->options->seconds > 0 ? t->options->seconds : ROUNDS_SECONDS;
    iter_status s = rounds_measure(bench_model_text(t->options->model), sides, n, seconds,
                                   6 * seconds, &t->rounds, &t->steady, err);
    return s == ITER_OK ? settle(t, n, trainer, err) : s;
}

/* ---- Results --------------------------------------------------------------------------------- */

double train_cpu_per_sample(uint64_t cpu_ns, uint64_t samples) {
    return samples > 0 ? (double)cpu_ns / (double)samples : NAN;
}

double train_wait_share(const bench_arm *arm) {
    return arm->seconds > 0 ? (double)arm->wait_ns * 1e-9 / arm->seconds : NAN;
}

const char *train_cost_text(const measure_interval *cost, char out[WORDS_PHRASE]) {
    char median[WORDS_NUMBER], low[WORDS_NUMBER], high[WORDS_NUMBER];
    words_percent(cost->median, median);
    words_percent(cost->low, low);
    words_percent(cost->high, high);
    const words_side side = words_side_of(cost, 0);
    if (side == WORDS_UNKNOWN)
        snprintf(out, WORDS_PHRASE, "about %s", median);
    else
        snprintf(out, WORDS_PHRASE, "%s [%s, %s]", side == WORDS_UNCLEAR ? "none told" : median,
                 low, high);
    return out;
}

void train_head_print(const train_arms *t, const page *p) {
    const iter_trainer_info info = iter_trainer_describe(t->feed.trainer);
    char threads[WORDS_NUMBER], time[WORDS_NUMBER];
    page_row(p, LABEL, "model", PAGE_PLAIN, "%s, batch %" PRIu64 ", %s, %s",
             bench_model_text(t->options->model), t->options->batch, info.backend,
             words_plural(info.threads, "thread", threads));
    page_row(p, LABEL, "data", PAGE_PLAIN, "%s", bench_data_text(t->options));
    page_row(p, LABEL, "chain", PAGE_PLAIN, "%s",
             t->loader.chain != NULL ? t->loader.chain : "none");
    if (info.n_converted > 0)
        page_row(p, LABEL, "layout", PAGE_PLAIN,
                 "%s in every batch, %s; the chain's `to:` can ask for %s", info.convert_text,
                 words_time(info.convert_seconds * 1e9 / (double)info.n_converted, time),
                 feed_turns(&t->feed).wants);
    if (t->steady)
        page_row(p, LABEL, "rounds", PAGE_PLAIN, "%u kept, %u dropped", t->rounds.n_rounds,
                 t->rounds.n_dropped);
    else
        page_row(p, LABEL, "rounds", PAGE_PLAIN,
                 "%u; the machine's speed moved around %u of them, which count as well",
                 t->rounds.n_rounds, t->rounds.n_dropped);
    fputc('\n', p->out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void train_arm_json(json_writer *w, const train_arms *t, int side, const bench_arm *arm) {
    const measure_interval *rate = &t->rates[side], *cost = &t->cost[side];
    json_interval(w, "samples_per_s", rate->median, rate->low, rate->high);
    json_number(w, "cpu_ns_per_sample",
                arm != NULL ? train_cpu_per_sample(arm->cpu_ns, arm->samples)
                            : train_cpu_per_sample(t->feed.alone.cpu_ns, t->feed.alone.samples));
    json_number(w, "wait_share", arm != NULL ? train_wait_share(arm) : NAN);
    if (arm != NULL)
        json_interval(w, "cost_of_feeding", cost->median, cost->low, cost->high);
    else
        json_null(w, "cost_of_feeding");
}

static void model_json(const train_arms *t, json_writer *w) {
    iter_trainer_info info = iter_trainer_describe(t->feed.trainer);
    json_begin(w, "model", '{');
    feed_model_json(w, &t->feed);
    json_text(w, "layout", feed_turns(&t->feed).wants);
    json_count(w, "converted_batches", info.n_converted);
    json_number(w, "convert_s", info.convert_seconds);
    json_end(w);
    json_count(w, "threads", info.threads);
}

void train_head_json(const train_arms *t, const char *loader, json_writer *w) {
    bench_machine_json(w);
    json_begin(w, "config", '{');
    json_text(w, "loader", loader);
    json_text(w, "data", bench_data_text(t->options));
    json_count(w, "n_samples", t->n_samples);
    json_text(w, "chain", t->loader.chain);
    json_count(w, "batch", t->options->batch);
    json_integer(w, "workers", t->options->workers);
    json_text(w, "shuffle", bench_shuffle_text(t->options->shuffle));
    json_count(w, "seed", t->options->seed);
    json_end(w);
    model_json(t, w);
}

void train_rounds_json(const train_arms *t, json_writer *w) {
    json_count(w, "rounds", t->rounds.n_rounds);
    json_count(w, "dropped", t->rounds.n_dropped);
    json_bool(w, "steady", t->steady);
}

iter_status train_report_json(const char *path, void (*write)(const void *user, FILE *out),
                              const void *user, iter_error *err) {
    FILE *out;
    iter_status s = bench_json_open(path, &out, err);
    if (s < 0) return s;
    write(user, out);
    return bench_json_close(path, out, err);
}
