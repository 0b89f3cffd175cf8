/*
 * test_bench_verify.c - bench/verify/verify.c: samplers that keep their promise, and samplers of
 * the caller's that repeat samples, lose them, or differ with the ranks or after a restart.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/verify/verify.h"
#include <iter/iter.h>

TestSuite(bench_verify, .timeout = 280);

#define N 101

/* ---- A sampler with a fault ------------------------------------------------------------------ */

typedef enum fault { NO_FAULT, TWICE, OUT_OF_ORDER, BY_RANKS, BY_HISTORY } fault;
static fault planted;

typedef struct state {
    uint64_t n, calls;
    uint32_t ranks;
} state;

static iter_status faulty_open(void *opaque, const void *options,
                               const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    (void)options, (void)err;
    s->n = context->n_samples;
    s->ranks = context->ranks;
    return ITER_OK;
}

static uint64_t faulty_length(const void *opaque) {
    return ((const state *)opaque)->n;
}

static void faulty_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                         uint64_t *out) {
    state *s = opaque;
    (void)epoch;
    s->calls++;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t p = position + i;
        out[i] = p;
        if (planted == TWICE && p == 70) out[i] = 20;
        if (planted == OUT_OF_ORDER) out[i] = s->n - 1 - p; /* no fault: another order */
        if (planted == BY_RANKS && s->ranks > 1 && p == 33) out[i] = 34;
        /* a state that is not saved: the last rows of the run */
        if (planted == BY_HISTORY && p == 100 && s->calls > 15) out[i] = 0;
    }
}

static const iter_sampler_ops faulty = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "faulty",
             .help = "in order, but for a fault",
             .state_size = sizeof(state)},
    .open = faulty_open,
    .length = faulty_length,
    .index = faulty_index,
};

/* ---- Runs ------------------------------------------------------------------------------------ */

static verify_result result;

static iter_status verify(bench_options options, iter_error *err) {
    iter_registry *registry;
    cr_assert_eq(iter_registry_create(&registry, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_sampler(registry, &faulty, NULL), ITER_OK);
    options.registry = registry;
    if (options.data == NULL) options.data = "synthetic:?n=101&shape=3&classes=4";
    if (options.batch == 0) options.batch = 8;
    if (options.ranks == 0) options.ranks = 1;
    const iter_status s = verify_make(&options, &result, err);
    iter_registry_destroy(registry);
    return s;
}

static void expect(fault what, bench_options options, const char *says) {
    iter_error err = {0};
    planted = what;
    options.sampler = "faulty";
    cr_assert_eq(verify(options, &err), ITER_OK, "%s", err.message);
    bool found = says == NULL && result.n_broken == 0;
    for (uint64_t i = 0; says != NULL && i < result.n_broken; i++)
        found |= strstr(result.broken[i], says) != NULL;
    cr_assert(found, "no '%s': %lu broken, the first: %s", says, result.n_broken, result.broken[0]);
    verify_free(&result);
}

Test(bench_verify, own_samplers) {
    const bench_options once = {.promise = VERIFY_ONCE, .restart = "none"},
                        most = {.promise = VERIFY_AT_MOST_ONCE, .restart = "none"},
                        draws = {.restart = "none"}, ranks = {.ranks = 2, .restart = "none"},
                        ranks_once = {.ranks = 2, .promise = VERIFY_ONCE},
                        again = {.restart = "12:2"};
    expect(NO_FAULT, ranks_once, NULL);
    expect(OUT_OF_ORDER, ranks_once, NULL);
    expect(TWICE, once, "one rank: epoch 0: 1 samples came more than once, the first is 20");
    expect(TWICE, once, "one rank: epoch 0: 1 samples never came, expected 0, the first is 70");
    expect(TWICE, most, "1 samples came more than once");
    expect(TWICE, draws, NULL); /* a sampler that promises no counts */
    expect(BY_RANKS, ranks, "ranks: other samples at some positions than with one rank");
    expect(BY_RANKS, ranks_once,
           "ranks: epoch 0: 1 samples never came, expected 0, the first is 33");
    expect(BY_HISTORY, again, "restarted: other samples at some positions than with one rank");
}

/* The counts of a sound sampler, for each rule of the last batch; 101 samples in batches of 16. */
Test(bench_verify, last_batches) {
    static const struct {
        int32_t last_batch;
        uint64_t rows[2], left_out[2], pad;
    } cases[] = {
        {ITER_LAST_KEEP, {101, 101}, {0, 0}, 0},
        {ITER_LAST_PAD, {101, 101}, {0, 0}, 11},
        {ITER_LAST_DISCARD, {96, 96}, {5, 5}, 0},
        {ITER_LAST_ROLL_OVER, {101, 91}, {0, 10}, 0}, /* 202 = 12 * 16 + 10 */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bench_options options = {.ranks = 2,
                                       .epochs = 2,
                                       .last_batch = cases[i].last_batch,
                                       .shuffle = ITER_SHUFFLE_FULL};
        iter_error err = {0};
        cr_assert_eq(verify(options, &err), ITER_OK, "%s", err.message);
        cr_assert_eq(result.n_broken, 0, "%s", result.broken[0]);
        cr_assert_eq(result.n_runs, 3);
        for (int k = 0; k < 3; k++)
            for (int e = 0; e < 2; e++) {
                const verify_epoch *epoch = &result.runs[k].epochs[e];
                cr_expect_eq(epoch->rows, cases[i].rows[e]);
                cr_expect_eq(epoch->distinct, cases[i].rows[e]);
                cr_expect_eq(epoch->missing.count, cases[i].left_out[e]);
                cr_expect_eq(epoch->left_out, cases[i].left_out[e]);
                cr_expect_eq(epoch->pad, cases[i].pad, "%lu", epoch->pad);
            }
        cr_expect_eq(result.runs[2].content, result.runs[0].content);
        verify_free(&result);
    }
}

/* A restart at every batch, to each number of ranks that divides the batch. */
Test(bench_verify, every_restart) {
    static const uint64_t ranks[] = {1, 2, 4, 8, 16};
    for (uint64_t at = 1; at <= 14; at++)
        for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
            char text[32];
            snprintf(text, sizeof(text), "%lu:%lu", at, ranks[i]);
            const bench_options options = {.ranks = 2,
                                           .epochs = 2,
                                           .workers = at % 3,
                                           .shuffle = ITER_SHUFFLE_FULL,
                                           .restart = text};
            iter_error err = {0};
            cr_assert_eq(verify(options, &err), ITER_OK, "%s", err.message);
            cr_assert_eq(result.n_broken, 0, "%s: %s", text, result.broken[0]);
            verify_free(&result);
        }
}

Test(bench_verify, planted) {
    static const struct {
        const char *fault, *says;
    } cases[] = {
        {"repeat", "8 samples came more than once"},
        {"lose", "8 samples never came, expected 0"},
        {"change", "rows have other contents than with one rank"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bench_options options = {
            .ranks = 2, .fault = cases[i].fault, .shuffle = ITER_SHUFFLE_FULL, .restart = "3:4"};
        iter_error err = {0};
        bool found = false;
        cr_assert_eq(verify(options, &err), ITER_OK, "%s", err.message);
        for (uint64_t k = 0; k < result.n_broken; k++)
            found |= strstr(result.broken[k], cases[i].says) != NULL;
        cr_assert(found, "%s: %s", cases[i].fault, result.broken[0]);
        verify_free(&result);
    }
}

Test(bench_verify, refusals) {
    static const struct {
        bench_options options;
        const char *says;
    } cases[] = {
        {{.restart = "0:1"}, "--restart wants AT:RANKS"},
        {{.restart = "1:0"}, "--restart wants AT:RANKS"},
        {{.restart = "1:"}, "--restart wants AT:RANKS"},
        {{.restart = "1:2:3"}, "--restart wants AT:RANKS"},
        {{.restart = "x"}, "--restart wants AT:RANKS"},
        {{.restart = "1:65"}, "--restart wants AT:RANKS"},
        {{.restart = "99:2"}, "--restart: the run has 13 batches"},
        {{.fault = "lost"}, "--plant wants repeat, lose or change, not 'lost'"},
        {{.fault = "lose", .restart = "none"}, "--plant needs a restart"},
        {{.ranks = 65}, "--ranks is at most 64"},
        {{.sampler = "nothing"}, "no sampler is called 'nothing'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_error err = {0};
        cr_assert(verify(cases[i].options, &err) < 0, "%s", cases[i].says);
        cr_assert(strstr(err.message, cases[i].says), "no '%s' in '%s'", cases[i].says,
                  err.message);
        verify_free(&result);
    }
}
