/*
 * cmd_verify.c - `iterbench verify`: proves for a dataset and a sampler that each row comes as
 * often as promised, over ranks and after a restart.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_json.h"
#include "bench/common/bench_machine.h"
#include "bench/common/bench_stop.h"
#include "bench/common/bench_util.h"
#include "bench/common/page.h"
#include "bench/iterbench.h"
#include "bench/report/bench_failures.h"
#include "bench/verify/verify.h"

#define LABEL        12
#define FAILED_NAMED 10

/* ---- Text ------------------------------------------------------------------------------------ */

static void print_names(const char *what, const verify_names *names) {
    const uint64_t n = names->count < VERIFY_NAMED ? names->count : VERIFY_NAMED;
    printf("; %llu %s", (unsigned long long)names->count, what);
    for (uint64_t i = 0; i < n; i++)
        printf("%s%llu", i > 0 ? " " : " (", (unsigned long long)names->first[i]);
    if (n > 0) printf("%s)", n < names->count ? " ..." : "");
}

static void print_epoch(const verify_result *r, uint64_t k, const verify_epoch *e) {
    printf("  epoch %llu: %llu rows, %llu of %llu samples", (unsigned long long)k,
           (unsigned long long)e->rows, (unsigned long long)e->distinct,
           (unsigned long long)r->n_samples);
    print_names(r->promise == VERIFY_DRAWS ? "more than once" : "twice", &e->twice);
    print_names("missing", &e->missing);
    if (e->left_out > 0)
        printf("; %llu left out by the last batch", (unsigned long long)e->left_out);
    if (r->promise == VERIFY_DRAWS && e->most > 1)
        printf("; at most %llu times%s", (unsigned long long)e->most,
               e->most == UINT8_MAX ? " or more" : "");
    if (e->pad > 0) printf("; %llu pad rows", (unsigned long long)e->pad);
    if (e->failed > 0) printf("; %llu failed", (unsigned long long)e->failed);
    putchar('\n');
}

static void print_run(const verify_result *r, const verify_run *run) {
    printf("%s: %llu x %llu samples a batch", run->name, (unsigned long long)run->ranks,
           (unsigned long long)run->batch);
    if (run->restarts)
        printf(", after %llu batches (in epoch %u) %llu x %llu",
               (unsigned long long)run->restart_at, (unsigned)run->restart_epoch,
               (unsigned long long)run->restart_ranks, (unsigned long long)run->restart_batch);
    printf("; %llu batches, contents %016llx%s\n", (unsigned long long)run->n_batches,
           (unsigned long long)run->content,
           run == r->runs || run->is_compared ? "" : " (not compared: other global batches)");
    for (uint64_t k = 0; k < r->n_epochs; k++)
        print_epoch(r, k, &run->epochs[k]);
}

static void print(const bench_options *options, const verify_result *r) {
    static const char *const promises[] = {"", "each sample once an epoch",
                                           "each sample at most once an epoch",
                                           "the same draws for any ranks and restarts"};
    const page p = page_of(stdout);
    page_row(&p, LABEL, "data", PAGE_PLAIN, "%s: %llu samples", bench_data_text(options),
             (unsigned long long)r->n_samples);
    if (r->left_out[0] != '\0') page_row(&p, LABEL, "left out", PAGE_WARN, "%s", r->left_out);
    page_row(&p, LABEL, "promise", PAGE_PLAIN, "%s: %s", r->sampler, promises[r->promise]);
    for (int i = 0; i < r->n_runs; i++)
        print_run(r, &r->runs[i]);
    for (size_t i = 0; i < r->n_failures && i < FAILED_NAMED; i++)
        page_row(&p, LABEL, "failed", PAGE_WARN, "%s", r->failures[i].message);
    if (r->n_failures > FAILED_NAMED)
        page_row(&p, LABEL, "", PAGE_PLAIN, "and more; --failures FILE lists the first %zu",
                 r->n_failures);
    for (uint64_t i = 0; i < r->n_broken && i < VERIFY_BROKEN; i++)
        page_row(&p, LABEL, "broken", PAGE_BAD, "%s", r->broken[i]);
    if (r->n_broken > VERIFY_BROKEN)
        page_row(&p, LABEL, "", PAGE_PLAIN, "and %llu more",
                 (unsigned long long)(r->n_broken - VERIFY_BROKEN));
    if (r->n_broken == 0)
        page_text(&p, 0, r->n_failures ? PAGE_WARN : PAGE_GOOD,
                  r->n_failures
                      ? "kept: every row came as promised, but some samples cannot be made"
                      : "kept: every row came as promised");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_names(json_writer *w, const char *key, const verify_names *names) {
    const uint64_t n = names->count < VERIFY_NAMED ? names->count : VERIFY_NAMED;
    json_begin(w, key, '[');
    for (uint64_t i = 0; i < n; i++)
        json_count(w, NULL, names->first[i]);
    json_end(w);
}

static void write_epoch(json_writer *w, uint64_t k, const verify_epoch *e) {
    json_begin(w, NULL, '{');
    json_count(w, "epoch", k);
    json_count(w, "rows", e->rows);
    json_count(w, "distinct", e->distinct);
    json_count(w, "twice", e->twice.count);
    write_names(w, "twice_first", &e->twice);
    json_count(w, "missing", e->missing.count);
    write_names(w, "missing_first", &e->missing);
    json_count(w, "left_out", e->left_out);
    json_count(w, "most", e->most);
    json_count(w, "pad", e->pad);
    json_count(w, "failed", e->failed);
    json_count(w, "positions_twice", e->positions_twice);
    json_count(w, "positions_missing", e->positions_missing);
    json_end(w);
}

static void write_run(json_writer *w, const verify_result *r, const verify_run *run) {
    char hash[17];
    json_begin(w, NULL, '{');
    json_text(w, "name", run->name);
    json_count(w, "ranks", run->ranks);
    json_count(w, "batch", run->batch);
    if (run->restarts) {
        json_begin(w, "restart", '{');
        json_count(w, "at", run->restart_at);
        json_count(w, "epoch", run->restart_epoch);
        json_count(w, "ranks", run->restart_ranks);
        json_count(w, "batch", run->restart_batch);
        json_end(w);
    } else {
        json_null(w, "restart");
    }
    json_count(w, "batches", run->n_batches);
    json_count(w, "rows", run->rows);
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)run->content);
    json_text(w, "hash", hash);
    json_bool(w, "compared", run->is_compared);
    json_begin(w, "epochs", '[');
    for (uint64_t k = 0; k < r->n_epochs; k++)
        write_epoch(w, k, &run->epochs[k]);
    json_end(w);
    json_end(w);
}

static iter_status write_json(const bench_options *options, const verify_result *r,
                              iter_error *err) {
    json_writer writer = {0}, *w = &writer;
    const iter_status s = bench_json_open(options->json, &w->out, err);
    if (s < 0) return s;
    json_begin(w, NULL, '{');
    bench_machine_json(w);
    json_text(w, "data", bench_data_text(options));
    json_text(w, "chain", options->chain);
    json_text(w, "sampler", r->sampler);
    json_text(w, "promise", verify_promise_text(r->promise));
    json_bool(w, "kept", r->n_broken == 0);
    json_count(w, "samples", r->n_samples);
    json_count(w, "left_out", r->n_left_out);
    json_text(w, "left_out_text", r->left_out[0] != '\0' ? r->left_out : NULL);
    json_begin(w, "runs", '[');
    for (int i = 0; i < r->n_runs; i++)
        write_run(w, r, &r->runs[i]);
    json_end(w);
    json_begin(w, "broken", '[');
    for (uint64_t i = 0; i < r->n_broken && i < VERIFY_BROKEN; i++)
        json_text(w, NULL, r->broken[i]);
    json_end(w);
    json_begin(w, "failures", '[');
    for (size_t i = 0; i < r->n_failures; i++) {
        json_begin(w, NULL, '{');
        json_count(w, "index", r->failures[i].index);
        json_text(w, "status", iter_status_text(r->failures[i].status));
        json_text(w, "message", r->failures[i].message);
        json_end(w);
    }
    json_end(w);
    json_end(w);
    return bench_json_close(options->json, w->out, err);
}

/* ---- The command ----------------------------------------------------------------------------- */

static iter_status report(const bench_options *options, const verify_result *r, iter_error *err) {
    iter_status s = ITER_OK;
    if (options->json == NULL || strcmp(options->json, "-") != 0) print(options, r);
    if (options->failures != NULL)
        s = bench_failures_write(options->failures, r->failures, r->n_failures, err);
    return s == ITER_OK && options->json != NULL ? write_json(options, r, err) : s;
}

int cmd_verify(const bench_options *options) {
    iter_error err;
    verify_result *result = calloc(1, sizeof(*result));
    if (result == NULL) {
        bench_fail(&err, ITER_ENOMEM, "out of memory");
        return bench_say(BENCH_FAILED, &err);
    }
    bench_stop_install();
    iter_status s = verify_make(options, result, &err);
    if (s == ITER_OK) s = report(options, result, &err);
    if (s == ITER_OK && result->n_broken > 0)
        s = bench_fail(&err, ITER_EINVAL, "verify: broken promises: %llu",
                       (unsigned long long)result->n_broken);
    verify_free(result);
    free(result);
    return s < 0 ? bench_stop_status(bench_say(BENCH_FAILED, &err)) : BENCH_DONE;
}
