/*
 * cmd_limits.c - `iterbench limits`: the best that this machine does for the work of a loader,
 * measured by straight loops.
 *
 * The figures depend on the number of slots that a loader uses. So a loader runs first, for a
 * moment, and is inspected. With --decode it goes on, over photos, in turns with libjpeg-turbo and
 * libpng alone on the same parts of them.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/iterbench.h"
#include "bench/limits/decode_limit.h"
#include "bench/report/run_result.h"
#include "diagnose/report_html.h"

#define LOOK_BATCHES        64
#define LOOK_BATCHES_PHOTOS 2 /* of photos: a batch takes long, and there is one slot */
#define DECODE_CHAIN        "random-resized-crop:size=224 | random-flip | normalize | to:f32,nchw"

typedef struct limits_run {
    const bench_options *options;
    bench_arm arm;
    yardstick yard;
    yardstick_rates rates;
    gpu_link_rates link;
    decode_limit decode;
    iter_failure failures[RUN_FAILURES_MAX];
} limits_run;

static iter_status measure_decode(const bench_options *options, limits_run *r, iter_error *err) {
    if (r->yard.why[0] != '\0')
        return bench_fail(err, ITER_EUNSUPPORTED, "--decode: %s", r->yard.why);
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    iter_status s = arm_stats(&r->arm, &stats, err);
    r->decode.source = stats.source;
    if (s == ITER_OK) s = decode_limit_measure(&r->yard.photos, &r->arm, options, &r->decode, err);
    return s;
}

/* Also if the loader failed: then the list is needed most. */
static iter_status list_failures(limits_run *r, iter_error *err) {
    const size_t n =
        bench_failures_once(r->failures, arm_failures(&r->arm, r->failures, RUN_FAILURES_MAX));
    r->decode.failures = r->failures;
    r->decode.n_failures = n;
    if (r->options->failures == NULL) return ITER_OK;
    return bench_failures_write(r->options->failures, r->failures, n, err);
}

static iter_status check_photos(const bench_options *options, iter_error *err) {
    iter_dataset *dataset;
    iter_status s = bench_dataset_open(options, &dataset, err);
    if (s < 0) return s;
    if (!photo_yard_fits(iter_dataset_describe(dataset)))
        s = bench_fail(err, ITER_EUNSUPPORTED, "--decode: %s has no images of any size",
                       bench_data_text(options));
    iter_dataset_unref(dataset);
    return s;
}

/* Beside the decoding loops a loader must make nothing ahead: batches that it has ready when it
 * seeks elsewhere would count, though nothing takes them. From memory it makes none ahead. A ring's
 * reads end later if a file cannot be read, and batches after it are made in the meantime. So
 * photos are read by pread, one after the other. */
static iter_status open_arm(bench_options *options, limits_run *r, iter_error *err) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    iter_status s = arm_open(options, NULL, &r->arm, err);
    if (s < 0 || !options->decode || options->source != ITER_SOURCE_AUTO) return s;
    s = arm_stats(&r->arm, &stats, err);
    if (s == ITER_OK && stats.source == ITER_SOURCE_MEMORY) return ITER_OK;
    arm_close(&r->arm);
    if (s < 0) return s;
    options->source = ITER_SOURCE_PREAD;
    return arm_open(options, NULL, &r->arm, err);
}

static iter_status measure(bench_options *options, limits_run *r, iter_error *err) {
    uint64_t samples;
    double seconds;
    bench_cache_proof proof;
    iter_status s = options->decode ? check_photos(options, err) : ITER_OK;
    if (s == ITER_OK && options->cache != BENCH_CACHE_ASIS)
        s = bench_cache_prepare(options, &proof, err);
    if (s == ITER_OK) s = open_arm(options, r, err);
    if (s < 0) return s;
    s = arm_run(&r->arm, options->decode ? LOOK_BATCHES_PHOTOS : LOOK_BATCHES, true, &samples,
                &seconds, err);
    if (s == ITER_OK) {
        s = yardstick_open(&r->yard, options, NULL, r->arm.loaders[0], arm_n_slots(&r->arm), err);
        if (s == ITER_OK && options->decode) s = measure_decode(options, r, err);
        if (s == ITER_OK) s = yardstick_rates_of(&r->yard, options, &r->rates, err);
        if (s == ITER_OK) s = run_link(&r->arm, &r->link, err);
    }
    iter_error list_err;
    if (list_failures(r, &list_err) < 0 && s == ITER_OK) {
        s = list_err.status;
        *err = list_err;
    }
    arm_close(&r->arm);
    return s;
}

static void write_json(const void *user, FILE *out) {
    const limits_run *r = user;
    const bench_options *options = r->options;
    json_writer w = {.out = out};
    json_begin(&w, NULL, '{');
    bench_machine_json(&w);
    json_text(&w, "data", bench_data_text(options));
    json_text(&w, "chain", options->chain);
    json_count(&w, "batch", options->batch);
    run_limits_json(&w, &r->rates, options->device != 0 ? &r->link : NULL);
    decode_limit_json(&w, &r->decode);
    json_end(&w);
}

static iter_status report(const limits_run *r, iter_error *err) {
    const bench_options *options = r->options;
    iter_status s = ITER_OK;
    if (options->json == NULL || strcmp(options->json, "-") != 0) {
        run_limits_table(&r->rates, options->device != 0 ? &r->link : NULL, r->yard.why, stdout);
        if (options->decode) decode_limit_table(&r->decode, stdout);
    }
    if (options->html != NULL) s = report_html_by(options->html, write_json, r, err);
    if (s < 0 || options->json == NULL) return s;
    FILE *out;
    s = bench_json_open(options->json, &out, err);
    if (s < 0) return s;
    write_json(r, out);
    return bench_json_close(options->json, out, err);
}

int cmd_limits(const bench_options *asked) {
    iter_error err = {ITER_ENOMEM, "no memory"};
    bench_options of_photos = *asked;
    bench_options *options = &of_photos;
    if (asked->decode) {
        if (asked->chain == NULL) of_photos.chain = DECODE_CHAIN;
        of_photos.consumer = BENCH_CONSUMER_NONE; /* as the loops' output is not read, either */
    }
    limits_run *r = calloc(1, sizeof(*r));
    if (r == NULL) return bench_say(BENCH_FAILED, &err);
    r->options = options;
    iter_status s = measure(options, r, &err);
    if (s == ITER_OK) s = report(r, &err);
    yardstick_close(&r->yard);
    free(r);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}
