/*
 * cmd_limits.c - `iterbench limits`: what this machine does at best for the work of a loader,
 * measured by straight loops.
 *
 * How many slots a loader works in decides the figures, so a loader runs first, for a moment, and
 * is looked at.
 */
#include <stdlib.h>
#include <string.h>

#include "bench_machine.h"
#include "iterbench.h"
#include "run_result.h"

#define LOOK_BATCHES 64

typedef struct limits_run {
    bench_arm arm;
    yardstick yard;
    yardstick_rates rates;
    gpu_link_rates link;
} limits_run;

static iter_status measure(const bench_options *options, limits_run *r, iter_error *err) {
    uint64_t samples;
    double seconds;
    bench_cache_proof proof;
    iter_status s = ITER_OK;
    if (options->cache != BENCH_CACHE_ASIS) s = bench_cache_prepare(options, &proof, err);
    if (s == ITER_OK) s = arm_open(options, NULL, &r->arm, err);
    if (s < 0) return s;
    s = arm_run(&r->arm, LOOK_BATCHES, true, &samples, &seconds, err);
    if (s == ITER_OK) {
        s = yardstick_open(&r->yard, options, NULL, r->arm.loaders[0], arm_n_slots(&r->arm), err);
        if (s == ITER_OK) s = yardstick_rates_of(&r->yard, options, &r->rates, err);
        if (s == ITER_OK) s = run_link(&r->arm, &r->link, err);
    }
    arm_close(&r->arm);
    return s;
}

static iter_status report(const bench_options *options, const limits_run *r, iter_error *err) {
    if (options->json == NULL || strcmp(options->json, "-") != 0)
        run_limits_table(&r->rates, options->device != 0 ? &r->link : NULL, r->yard.why, stdout);
    if (options->json == NULL) return ITER_OK;
    json_writer w = {0};
    iter_status s = bench_json_open(options->json, &w.out, err);
    if (s < 0) return s;
    json_begin(&w, NULL, '{');
    bench_machine_json(&w);
    json_text(&w, "data", options->data);
    json_text(&w, "chain", options->chain);
    json_count(&w, "batch", options->batch);
    run_limits_json(&w, &r->rates, options->device != 0 ? &r->link : NULL);
    json_end(&w);
    return bench_json_close(options->json, w.out, err);
}

int cmd_limits(const bench_options *options) {
    iter_error err = {ITER_ENOMEM, "no memory"};
    limits_run *r = calloc(1, sizeof(*r));
    if (r == NULL) return bench_say(BENCH_FAILED, &err);
    iter_status s = measure(options, r, &err);
    if (s == ITER_OK) s = report(options, r, &err);
    yardstick_close(&r->yard);
    free(r);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}
