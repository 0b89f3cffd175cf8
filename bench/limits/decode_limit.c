/*
 * decode_limit.c - a loader over photos on one core, compared with the minimum of its work.
 *
 * Photos differ by more than a loader differs from the limit. So each round has its own stretch of
 * the order, and the loader and the loops take the same stretch. The loader seeks to its first
 * batch, which costs nothing without workers, and makes nothing ahead.
 */
#include "bench/limits/decode_limit.h"

#include <math.h>
#include <stdlib.h>

#include "bench/common/bench_util.h"
#include "bench/common/page.h"
#include "bench/common/progress.h"
#include "diagnose/words.h"

#define NAME            38 /* columns of a row's name */
#define DEFAULT_SECONDS 12.0
#define SLICE_LEAST_S   0.05
#define SIDES           4
#define LEAST_ROUNDS    6

enum { LOADER, PART, WHOLE, STORE };

typedef struct rounds_state {
    photo_yard *yard;
    bench_arm *arm;
    uint64_t per_round; /* batches */
    uint64_t round;
    progress line;
} rounds_state;

/* ---- Sides ----------------------------------------------------------------------------------- */

static const photo_batch *batches_of_round(const rounds_state *r) {
    const uint64_t n_rounds = r->yard->n_batches / r->per_round;
    return &r->yard->batches[r->round % n_rounds * r->per_round];
}

static uint64_t photos_of(const rounds_state *r, const photo_batch *batches) {
    const photo_batch *last = &batches[r->per_round - 1];
    return last->first + last->n - batches->first;
}

/* Here, a batch of measure.h is the round's stretch. */
static iter_status run_loader(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                              iter_error *err) {
    rounds_state *r = user;
    const photo_batch *at = batches_of_round(r);
    iter_status s = ITER_OK;
    *out_samples = 0;
    *out_seconds = 0;
    for (uint64_t i = 0; s == ITER_OK && i < n; i++) {
        uint64_t samples = 0;
        double seconds = 0;
        s = iter_loader_seek(r->arm->loaders[0], at->epoch, at->sample, err);
        if (s == ITER_OK) s = arm_run(r->arm, r->per_round, true, &samples, &seconds, err);
        *out_samples += samples;
        *out_seconds += seconds;
    }
    return s;
}

static iter_status run_decode(rounds_state *r, uint64_t n, bool whole, uint64_t *out_samples,
                              double *out_seconds, iter_error *err) {
    const photo_batch *at = batches_of_round(r);
    const uint64_t n_photos = photos_of(r, at);
    iter_status s = ITER_OK;
    *out_samples = 0;
    *out_seconds = 0;
    for (uint64_t i = 0; s == ITER_OK && i < n; i++) {
        uint64_t n_decoded;
        double seconds;
        s = photo_yard_decode(r->yard, at->first, n_photos, whole, &n_decoded, &seconds, err);
        *out_samples += n_decoded;
        *out_seconds += seconds;
    }
    return s;
}

static iter_status run_part(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                            iter_error *err) {
    return run_decode(user, n, false, out_samples, out_seconds, err);
}

static iter_status run_whole(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                             iter_error *err) {
    return run_decode(user, n, true, out_samples, out_seconds, err);
}

static iter_status run_store(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                             iter_error *err) {
    rounds_state *r = user;
    (void)err;
    *out_samples = n * r->per_round * r->yard->store.batch;
    *out_seconds = photo_yard_store(r->yard, n * r->per_round);
    return ITER_OK;
}

static void next_round(void *user, uint32_t n_kept, uint32_t n_dropped) {
    rounds_state *r = user;
    r->round = (uint64_t)n_kept + n_dropped;
    progress_show(&r->line, "photos", "rounds: %u kept, %u dropped", n_kept, n_dropped);
}

/* ---- Figures --------------------------------------------------------------------------------- */

static iter_status limit_and_ratio(const measure_rounds *rounds, decode_limit *out,
                                   iter_error *err) {
    double *limits = malloc((2 * (size_t)rounds->n_rounds + 1) * sizeof(limits[0]));
    if (limits == NULL)
        return bench_fail(err, ITER_ENOMEM, "no memory for %u rounds", rounds->n_rounds);
    double *ratios = limits + rounds->n_rounds;
    for (uint32_t i = 0; i < rounds->n_rounds; i++) {
        const double *rates = &rounds->rates[(size_t)i * SIDES];
        limits[i] = 1 / (1 / rates[PART] + 1 / rates[STORE] + DECODE_REST_MS * 1e-3);
        ratios[i] = rates[LOADER] / limits[i];
    }
    out->limit = measure_median(limits, rounds->n_rounds);
    out->ratio = measure_median(ratios, rounds->n_rounds);
    free(limits);
    return ITER_OK;
}

static iter_status figures(const photo_yard *yard, const measure_rounds *rounds, decode_limit *out,
                           iter_error *err) {
    measure_interval *rates[SIDES] = {&out->loader, &out->part, &out->whole, &out->store};
    iter_status s = ITER_OK;
    for (int i = 0; s == ITER_OK && i < SIDES; i++)
        s = measure_rounds_ratio(rounds, i, i, rates[i], err);
    if (s == ITER_OK) s = limit_and_ratio(rounds, out, err);
    out->measured = s == ITER_OK;
    out->n_photos = yard->n_photos;
    out->n_pngs = yard->n_pngs;
    out->codecs = photo_yard_codecs(yard);
    out->mean_bytes = (double)yard->n_bytes / (double)yard->n_photos;
    out->part_share = yard->n_part_pixels / yard->n_pixels;
    out->n_rounds = rounds->n_rounds;
    out->n_dropped = rounds->n_dropped;
    out->steady = rounds->steady;
    return s;
}

/* ---- Public ---------------------------------------------------------------------------------- */

iter_status decode_limit_measure(photo_yard *yard, bench_arm *arm, const bench_options *options,
                                 decode_limit *out, iter_error *err) {
    rounds_state state = {.yard = yard, .arm = arm, .per_round = 1};
    const measure_side sides[SIDES] = {{"loader", run_loader, NULL, &state, NULL},
                                       {"part", run_part, NULL, &state, NULL},
                                       {"whole", run_whole, NULL, &state, NULL},
                                       {"store", run_store, NULL, &state, NULL}};
    const double seconds = options->seconds > 0 ? options->seconds : DEFAULT_SECONDS;
    measure_options opt = MEASURE_OPTIONS_INIT;
    opt.min_pairs = (uint32_t)options->pairs;
    opt.slice_s = fmax(seconds / (SIDES * (double)opt.min_pairs), SLICE_LEAST_S);
    opt.min_s = seconds;
    opt.max_s = 2 * seconds;
    opt.warm_batches = 0; /* nothing is made ahead */
    opt.least_rounds = LEAST_ROUNDS;
    opt.after_pair = next_round;
    opt.after_user = &state;
    uint64_t samples;
    double took;
    iter_status s = run_loader(&state, 1, &samples, &took, err);
    if (s == ITER_OK) s = run_loader(&state, 1, &samples, &took, err);
    if (s < 0) return s;
    state.per_round = (uint64_t)fmin(fmax(opt.slice_s / took, 1), (double)yard->n_batches);
    measure_rounds rounds;
    state.line = progress_begin(opt.min_s, opt.max_s);
    s = measure_sides(sides, SIDES, &opt, &rounds, err);
    progress_end(&state.line);
    if (s == ITER_OK) s = figures(yard, &rounds, out, err);
    measure_rounds_free(&rounds);
    return s;
}

/* ---- Report ---------------------------------------------------------------------------------- */

static void line(const page *p, const char *name, const measure_interval *rate) {
    char median[WORDS_NUMBER], low[WORDS_NUMBER], high[WORDS_NUMBER], time[WORDS_NUMBER];
    words_count(rate->median, median);
    words_time(1e9 / rate->median, time);
    if (isfinite(rate->low))
        page_row(p, NAME, name, PAGE_PLAIN, "%s photos/s [%s, %s], %s each", median,
                 words_count(rate->low, low), words_count(rate->high, high), time);
    else
        page_row(p, NAME, name, PAGE_PLAIN, "about %s photos/s, %s each", median, time);
}

void decode_limit_table(const decode_limit *limit, FILE *out) {
    const page p = page_of(out);
    char name[64], bytes[WORDS_NUMBER], n[3][WORDS_NUMBER], share[WORDS_NUMBER], steady[96] = "";
    snprintf(name, sizeof(name), "%llu in the loader's order", (unsigned long long)limit->n_photos);
    page_row(&p, NAME, "photos, on one core", PAGE_PLAIN, "%s, %s each, in turns", name,
             words_bytes(limit->mean_bytes, bytes));
    if (limit->n_failures > 0)
        page_row(&p, NAME, "left out", PAGE_WARN, "%zu photos that failed, first: %.300s",
                 limit->n_failures, limit->failures[0].message);
    snprintf(name, sizeof(name), "%s, whole pictures", limit->codecs);
    line(&p, name, &limit->whole);
    snprintf(name, sizeof(name), "%s, parts wanted (%s)", limit->codecs,
             words_percent(limit->part_share, share));
    line(&p, name, &limit->part);
    line(&p, "rows converted and stored", &limit->store);
    snprintf(name, sizeof(name), "limit: parts + rows + %.2f ms", DECODE_REST_MS);
    line(&p, name, &limit->limit);
    snprintf(name, sizeof(name), "loader, no worker, from %s", bench_source_text(limit->source));
    line(&p, name, &limit->loader);
    if (!limit->steady)
        snprintf(steady, sizeof(steady), "; the machine's speed moved around %u of them",
                 limit->n_dropped);
    else if (limit->n_dropped > 0)
        snprintf(steady, sizeof(steady), " kept, %u dropped", limit->n_dropped);
    words_percent(limit->ratio.median, n[0]);
    if (isfinite(limit->ratio.low))
        page_row(&p, NAME, "loader / limit", PAGE_STRONG, "%s [%s, %s] in %u rounds%s", n[0],
                 words_percent(limit->ratio.low, n[1]), words_percent(limit->ratio.high, n[2]),
                 limit->n_rounds, steady);
    else
        page_row(&p, NAME, "loader / limit", PAGE_STRONG, "about %s in %u rounds%s", n[0],
                 limit->n_rounds, steady);
}

static void interval(json_writer *w, const char *key, const measure_interval *i) {
    json_interval(w, key, i->median, i->low, i->high);
}

void decode_limit_json(json_writer *w, const decode_limit *limit) {
    if (!limit->measured) {
        json_null(w, "decode");
        return;
    }
    json_begin(w, "decode", '{');
    json_count(w, "photos", limit->n_photos);
    json_count(w, "pngs", limit->n_pngs);
    json_count(w, "left_out", limit->n_failures);
    json_text(w, "source", bench_source_text(limit->source));
    json_number(w, "mean_bytes", limit->mean_bytes);
    json_number(w, "part_share", limit->part_share);
    interval(w, "whole_per_s", &limit->whole);
    interval(w, "part_per_s", &limit->part);
    interval(w, "store_per_s", &limit->store);
    json_number(w, "rest_ms", DECODE_REST_MS);
    interval(w, "limit_per_s", &limit->limit);
    interval(w, "loader_per_s", &limit->loader);
    interval(w, "ratio", &limit->ratio);
    json_count(w, "rounds", limit->n_rounds);
    json_count(w, "dropped", limit->n_dropped);
    json_bool(w, "steady", limit->steady);
    json_end(w);
}
