/*
 * test_mix.c - the order of draws from several sources, mixes of datasets, and their refusals.
 *
 * What the order must be is known without it: each source's count is within 1 of its share after
 * every draw, and the k-th draw of a source follows its (k - 1)-th.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "loaders/samplers/mix_order.h"
#include "tests/support/make_data.h"
#include <iter/iter.h>

TestSuite(mix, .timeout = 280);

/* ---- The order ------------------------------------------------------------------------------- */

/* Goes through `n_draws` draws; checks numbers and counts. A count is farthest from its share right
 * before and right after a draw, so the other sources need no look. */
static void check_order(const double *weights, uint32_t n, uint64_t n_draws) {
    iter_error err;
    iter__mix_order order;
    cr_assert_eq(iter__mix_order_make(weights, n, &order, &err), ITER_OK);
    uint64_t *had = calloc(n, sizeof(*had)), *counts = calloc(n, sizeof(*counts)), k;
    uint64_t total = 0;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < n; i++)
        total += order.share[i];
    cr_assert_eq(total, order.total);
    for (uint64_t t = 0; t < n_draws; t++) {
        iter__mix_order_go(&order, t);
        const uint32_t s = iter__mix_order_draw(&order, t, &k);
        wrong += k != had[s]++;
        /* modulo 2^64, which is enough for numbers near 0 */
        const int64_t before = (int64_t)(k * total - order.share[s] * t);
        const int64_t after = before + (int64_t)(total - order.share[s]);
        wrong += before <= -(int64_t)total || before >= (int64_t)total;
        wrong += after <= -(int64_t)total || after >= (int64_t)total;
    }
    cr_expect_eq(wrong, 0, "%u wrong of %llu draws from %u sources", wrong,
                 (unsigned long long)n_draws, n);
    for (uint32_t i = 0; i < n; i++) /* also of sources that were not drawn at the end */
        cr_expect(fabs((double)had[i] - (double)order.share[i] / (double)total * (double)n_draws) <
                  1);
    iter__mix_order_count(&order, n_draws, counts);
    cr_expect_arr_eq(counts, had, n * sizeof(*had));
    iter__mix_order_free(&order);
    free(had);
    free(counts);
}

Test(mix, every_source_is_within_one_of_its_share) {
    double weights[500];
    iter_rng rng = iter_rng_at(iter_rng_key(1, "test", 0), 0, 0);
    for (int round = 0; round < 60; round++) {
        const uint32_t n = 1 + (uint32_t)iter_rng_below(&rng, 40);
        const uint64_t most = 1 + iter_rng_below(&rng, 9);
        for (uint32_t i = 0; i < n; i++)
            weights[i] = 1 + (double)iter_rng_below(&rng, most * most * most);
        check_order(weights, n, 20000);
    }
    for (int round = 0; round < 2; round++) { /* real numbers: the longest period */
        for (uint32_t i = 0; i < 500; i++)
            weights[i] = exp((double)iter_rng_below(&rng, 1000000) / 150000.0);
        check_order(weights, round ? 500 : 3, (1 << 20) + 70000);
    }
}

/* Blocks that are planned from nowhere agree with those on either side. */
Test(mix, blocks_far_away_follow_one_another) {
    static double weights[300];
    static uint64_t had[300];
    iter_rng rng = iter_rng_at(iter_rng_key(2, "test", 0), 0, 0);
    for (int round = 0; round < 200; round++) {
        const uint32_t n = 2 + (uint32_t)iter_rng_below(&rng, round < 190 ? 30 : 298);
        const double width = (double)(1 + iter_rng_below(&rng, 14));
        for (uint32_t i = 0; i < n; i++) /* many in step with one another, as at draw 0 */
            weights[i] = exp(width * (double)iter_rng_below(&rng, 4 + (uint32_t)round % 3 * 1000) /
                             (4 + round % 3 * 1000));
        iter__mix_order order;
        cr_assert_eq(iter__mix_order_make(weights, n, &order, NULL), ITER_OK);
        const uint64_t block = round % 2 ? iter_rng_below(&rng, UINT64_C(1) << 35) : 0;
        uint32_t wrong = 0;
        uint64_t k;
        for (uint64_t t = block * order.length; t < (block + 3) * order.length; t++) {
            const bool begins = t == block * order.length;
            iter__mix_order_go(&order, t);
            if (begins) memcpy(had, order.before, n * sizeof(had[0]));
            const uint32_t s = iter__mix_order_draw(&order, t, &k);
            wrong += k != had[s]++;
            const int64_t before = (int64_t)(k * order.total - order.share[s] * t);
            const int64_t after = before + (int64_t)(order.total - order.share[s]);
            wrong += before <= -(int64_t)order.total || before >= (int64_t)order.total;
            wrong += after <= -(int64_t)order.total || after >= (int64_t)order.total;
        }
        cr_expect_eq(wrong, 0, "round %d: %u wrong", round, wrong);
        iter__mix_order_free(&order);
    }
}

Test(mix, one_source_and_one_that_has_nearly_all) {
    check_order((const double[]){5}, 1, 100);
    check_order((const double[]){0, 0, 3}, 3, 100);
    check_order((const double[]){1e9, 1}, 2, 3 << 20);
    check_order((const double[]){1e-9, 1, 1e-9}, 3, 2 << 20);
    check_order((const double[]){1, 999, 1}, 3, 10000);
}

Test(mix, simple_weights_are_exact) {
    iter__mix_order order;
    static const struct {
        double weights[3];
        uint32_t period;
    } cases[] = {{{0.7, 0.3, 0}, 10},           {{1, 1, 1}, 3},
                 {{0.7, 0.25, 0.05}, 20},       {{2, 1, 1}, 4},
                 {{0.333, 0.333, 0.334}, 1000}, {{3, 5, 7}, 15}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_eq(iter__mix_order_make(cases[i].weights, 3, &order, NULL), ITER_OK);
        cr_expect_eq(order.length, cases[i].period, "%zu: %u", i, order.length);
        cr_expect(order.repeats);
        iter__mix_order_free(&order);
    }
}

/* ---- The sampler: each source's samples come in its own epochs ------------------------------- */

Test(mix, nothing_is_lost_or_comes_twice_when_weights_change) {
    static const iter_part parts[] = {{"a", 5000, 3, 0}, {"b", 700, 2, 0}, {"c", 31, 1, 0}};
    static const uint64_t first[] = {0, 5000, 5700, 5731};
    const iter_mix_options options = {1000, true,
                                      "1234 a=1 b=0;  5001 b=7 c=0.001; 20k a=0;30k a=0.2 c=0.3"};
    const iter_sampler_context context = {
        .n_samples = 5731, .seed = 3, .batch_size = 32, .ranks = 1, .parts = parts, .n_parts = 3};
    const iter_sampler_ops *ops = iter_registry_sampler(NULL, "mix");
    void *state = iter__alloc(1, ops->base.state_size);
    iter_error err;
    cr_assert_eq(ops->open(state, &options, &context, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(ops->length(state), 1000);
    static uint16_t seen[5731];
    uint64_t had[3] = {0}, out[100];
    for (uint32_t t = 0; t < 60000; t += 100) {
        ops->index(state, t / 1000, t % 1000, 100, out);
        for (int i = 0; i < 100; i++) {
            const int p = (out[i] >= first[1]) + (out[i] >= first[2]);
            /* the sample has come as often as the source's epochs that are complete */
            cr_assert_eq(seen[out[i]]++, had[p]++ / parts[p].n_samples);
        }
    }
    cr_expect(had[0] > 5000 && had[1] > 7000 && had[2] > 310);
    /* any place again, in any order */
    for (uint32_t t = 59990; t > 7; t -= 7) {
        uint64_t one, some[7];
        ops->index(state, t / 1000, t % 1000, 1, &one);
        const uint32_t n = 1000 - t % 1000 < 7 ? 1000 - t % 1000 : 7;
        ops->index(state, t / 1000, t % 1000, n, some);
        cr_assert_eq(one, some[0]);
    }
    ops->close(state);
    iter__free(state);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void expect_refusal(const char *spec, iter_status status, const char *text) {
    iter_dataset *data;
    iter_error err = {0};
    const iter_status got = iter_dataset_open(spec, NULL, &data, &err);
    cr_expect_eq(got, status, "%s: %s", spec, err.message);
    cr_expect(strstr(err.message, text), "%s: '%s' lacks '%s'", spec, err.message, text);
    if (got == ITER_OK) iter_dataset_unref(data);
}

Test(mix, what_cannot_be_mixed_is_refused_by_name) {
    static const struct {
        const char *spec;
        iter_status status;
        const char *text;
    } cases[] = {
        {"mix:{}", ITER_EINVAL, "no source"},
        {"mix:{ ; }", ITER_EINVAL, "no source"},
        {"mix:{a=0.7 synthetic:mnist", ITER_EINVAL, "never closed"},
        {"mix:/nowhere/list.txt", ITER_EIO, "/nowhere/list.txt"},
        {"mix:{a=x synthetic:mnist}", ITER_EINVAL, "'x' is no weight"},
        {"mix:{a=-1 synthetic:mnist}", ITER_EINVAL, "must be above 0"},
        {"mix:{a=0 synthetic:mnist}", ITER_EINVAL, "must be above 0"},
        {"mix:{a=1}", ITER_EINVAL, "source 1: expected"},
        {"mix:{a=1 synthetic:mnist; synthetic:mnist}", ITER_EINVAL, "source 2 has none"},
        {"mix:{a=1 synthetic:mnist; a=2 synthetic:mnist}", ITER_EINVAL, "are called 'a'"},
        {"mix:{a=1 synthetic:mnist; b=2 synthetic:cifar10}", ITER_EINVAL,
         "source 'b' has other fields than 'a'"},
        {"mix:{a=1 synthetic:mnist; b=1 nonsense:x}", ITER_EINVAL, "source 2 ('b')"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect_refusal(cases[i].spec, cases[i].status, cases[i].text);
}

static void expect_sampler_refusal(iter_dataset *data, const char *sampler, const char *text) {
    iter_loader *loader;
    iter_error err = {0};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.sampler.spec = sampler;
    const iter_status got = iter_dataloader_create(data, NULL, &opt, &loader, &err);
    cr_expect_eq(got, ITER_EINVAL);
    cr_expect(strstr(err.message, text), "%s: '%s' lacks '%s'", sampler, err.message, text);
}

Test(mix, changes_that_make_no_sense_are_refused) {
    iter_dataset *data, *one;
    iter_error err;
    cr_assert_eq(iter_dataset_open("mix:{a=1 synthetic:mnist?n=50; b=2 synthetic:mnist?n=60}", NULL,
                                   &data, &err),
                 ITER_OK, "%s", err.message);
    cr_assert_eq(iter_dataset_open("synthetic:mnist?n=50", NULL, &one, &err), ITER_OK);
    expect_sampler_refusal(data, "mix:changes=\"x a=1\"", "'x' is no draw");
    expect_sampler_refusal(data, "mix:changes=\"0 a=1\"", "'0' is no draw");
    expect_sampler_refusal(data, "mix:changes=\"1.5 a=1\"", "'1.5' is no draw");
    expect_sampler_refusal(data, "mix:changes=\"10 c=1\"", "no source 'c'");
    expect_sampler_refusal(data, "mix:changes=\"10 a\"", "expected SOURCE=WEIGHT");
    expect_sampler_refusal(data, "mix:changes=\"10 a=-1\"", "expected SOURCE=WEIGHT");
    expect_sampler_refusal(data, "mix:changes=\"10 a=0 b=0\"", "all weights are 0");
    expect_sampler_refusal(data, "mix:changes=\"10 a=1;10 a=2\"", "does not come after");
    expect_sampler_refusal(one, "mix", "several sources");
    iter_dataset_unref(data);
    iter_dataset_unref(one);
}

Test(mix, a_list_of_sources_may_be_a_file) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 8];
    static const char text[] = "# two sources\n  first=0.25   synthetic:mnist?n=50  \r\n\n"
                               "0.75 synthetic:mnist?n=60&seed=2";
    make_folder(folder);
    make_file(folder, "list.txt", text, sizeof(text) - 1);
    snprintf(spec, sizeof(spec), "mix:%s", make_path(path, folder, "list.txt"));
    iter_dataset *data;
    iter_error err;
    cr_assert_eq(iter_dataset_open(spec, NULL, &data, &err), ITER_OK, "%s", err.message);
    const iter_description *desc = iter_dataset_describe(data);
    cr_expect_eq(desc->n_parts, 2);
    cr_expect_eq(desc->n_samples, 110);
    cr_expect_str_eq(desc->parts[0].name, "first");
    cr_expect_eq(desc->parts[0].weight, 0.25);
    cr_expect_str_eq(desc->parts[1].name, "synthetic:mnist?n=60&seed=2");
    cr_expect_eq(desc->parts[1].weight, 0.75);
    iter_dataset_unref(data);
    make_folder_gone(folder);
}

Test(mix, every_failed_allocation_is_an_error_and_no_leak) {
    const char *spec = "mix:{a=1 synthetic:mnist?n=50; b=2 mix:{synthetic:mnist?n=60; "
                       "synthetic:mnist?n=5}}";
    for (long n = 0;; n++) {
        const long live = iter__alloc_live();
        iter_error err = {0};
        iter_dataset *data = NULL;
        iter_loader *loader = NULL;
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        iter__alloc_fail_after = n;
        iter_status status = iter_dataset_open(spec, NULL, &data, &err);
        if (status == ITER_OK) status = iter_dataloader_create(data, NULL, &opt, &loader, &err);
        const bool all_allocated = iter__alloc_fail_after >= 0;
        iter__alloc_fail_after = -1;
        iter_loader_unref(loader);
        iter_dataset_unref(data);
        cr_assert(status == (all_allocated ? ITER_OK : ITER_ENOMEM), "%ld: %s", n, err.message);
        cr_assert_eq(iter__alloc_live(), live, "%ld", n);
        if (all_allocated) break;
    }
}
