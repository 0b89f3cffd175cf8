/* test_bench_measure.c - bench/measure/measure.c: the interval of the median, pairs of two sides,
 * programs over pipes; histogram.h. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "bench/common/bench_util.h"
#include "bench/measure/histogram.h"
#include "bench/measure/measure.h"

TestSuite(bench_measure, .timeout = 120);

/* ---- Interval -------------------------------------------------------------------------------- */

/* Ranks of the 95 % interval of the median as tables of the sign test have them. */
static const struct {
    uint32_t n, rank;
} table[] = {{6, 1},  {8, 1},  {9, 2},  {11, 2}, {12, 3},  {14, 3},  {15, 4},
             {16, 4}, {17, 5}, {20, 6}, {25, 8}, {30, 10}, {50, 18}, {100, 40}};

Test(bench_measure, interval_ranks_are_those_of_the_tables) {
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        double values[100];
        uint32_t n = table[i].n;
        for (uint32_t k = 0; k < n; k++)
            values[k] = n - k; /* 1..n, backwards */
        measure_interval got = measure_median(values, n);
        cr_assert_float_eq(got.median, (n + 1) / 2.0, 1e-12, "n %u", n);
        cr_assert_float_eq(got.low, table[i].rank, 1e-12, "n %u: low %g", n, got.low);
        cr_assert_float_eq(got.high, n + 1 - table[i].rank, 1e-12, "n %u: high %g", n, got.high);
        cr_assert_eq(got.n, n);
    }
}

Test(bench_measure, too_few_values_have_no_interval) {
    double five[] = {3, 1, 2, 5, 4};
    measure_interval got = measure_median(five, 5);
    cr_assert_float_eq(got.median, 3, 1e-12);
    cr_assert(isnan(got.low) && isnan(got.high));
    got = measure_median(five, 0);
    cr_assert(isnan(got.median) && got.n == 0);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* Reports that n batches of `batch` samples took n / rate seconds, without taking them. */
typedef struct fake {
    double rate;
    uint64_t batch, left, timed, warmed;
    iter_status fails;
} fake;

static iter_status fake_run(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                            iter_error *err) {
    fake *f = user;
    if (f->fails < 0) return bench_fail(err, f->fails, "broken");
    n = n < f->left ? n : f->left;
    f->left -= n;
    f->timed += n;
    *out_samples = n * f->batch;
    *out_seconds = (double)n / f->rate;
    return ITER_OK;
}

static iter_status fake_warm(void *user, uint64_t n, iter_error *err) {
    (void)err;
    ((fake *)user)->warmed += n;
    return ITER_OK;
}

static measure_side side_of(fake *f) {
    return (measure_side){"fake", fake_run, fake_warm, f, NULL};
}

Test(bench_measure, ratio_is_rate_of_b_over_rate_of_a) {
    fake a = {.rate = 1000, .batch = 10, .left = UINT64_MAX};
    fake b = {.rate = 1500, .batch = 20, .left = UINT64_MAX};
    measure_side side_a = side_of(&a), side_b = side_of(&b);
    measure_options opt = MEASURE_OPTIONS_INIT;
    measure_result result;
    iter_error err;
    opt.tolerance = 1e9; /* the witness is not under test here */
    cr_assert_eq(measure_pairs(&side_a, &side_b, &opt, &result, &err), ITER_OK);
    cr_assert_eq(result.n_pairs, 15);
    cr_assert_eq(result.n_dropped, 0);
    cr_assert_float_eq(result.ratio.median, 3.0, 1e-9);
    cr_assert_float_eq(result.ratio.low, 3.0, 1e-9);
    cr_assert_float_eq(result.rate_a.median, 10000, 1e-3);
    cr_assert_float_eq(result.rate_b.median, 30000, 1e-3);
    cr_assert_eq(a.warmed, 15 * opt.warm_batches);
    measure_free(&result);
}

Test(bench_measure, pairs_are_dropped_when_the_witness_moves) {
    fake a = {.rate = 1000, .batch = 1, .left = UINT64_MAX}, b = a;
    measure_side side_a = side_of(&a), side_b = side_of(&b);
    measure_options opt = MEASURE_OPTIONS_INIT;
    measure_result result;
    iter_error err;
    opt.tolerance = -1; /* no witness is that steady */
    opt.max_s = 0.3;
    cr_assert_eq(measure_pairs(&side_a, &side_b, &opt, &result, &err), ITER_OK);
    cr_assert_eq(result.n_pairs, 0);
    cr_assert_gt(result.n_dropped, 0);
    cr_assert(isnan(result.ratio.median));
    measure_free(&result);
}

Test(bench_measure, pairs_of_several_starts_are_judged_together) {
    double of_three[] = {1, 2, 9, 10, 10, 10, 10, 20, 90},
           of_four[] = {3, 4, 5, 6, 1, 1, 1, 1, 3, 4, 5, 6};
    const measure_result three = {.n_pairs = 3,
                                  .n_dropped = 2,
                                  .ratios = of_three,
                                  .rates_a = of_three + 3,
                                  .rates_b = of_three + 6},
                         four = {.n_pairs = 4,
                                 .n_dropped = 1,
                                 .ratios = of_four,
                                 .rates_a = of_four + 4,
                                 .rates_b = of_four + 8};
    measure_result all = {0};
    iter_error err;
    cr_assert_eq(measure_add(&all, &three, &err), ITER_OK);
    cr_assert_eq(measure_add(&all, &four, &err), ITER_OK);
    cr_assert_eq(all.n_pairs, 7);
    cr_assert_eq(all.n_dropped, 3);
    cr_assert_eq(all.ratio.median, 4);
    cr_assert_eq(all.ratio.low, 1);
    cr_assert_eq(all.ratio.high, 9);
    cr_assert_eq(all.rate_a.median, 1);
    cr_assert_eq(all.rate_b.median, 6);
    cr_assert_eq(all.ratios[2], 9, "in order of time");
    cr_assert_eq(all.ratios[3], 3);
    measure_free(&all);
}

/* With a witness of memory the pairs are the same; only how many are kept may differ. */
Test(bench_measure, memory_may_be_watched_too) {
    fake a = {.rate = 1000, .batch = 1, .left = UINT64_MAX},
         b = {.rate = 3000, .batch = 1, .left = UINT64_MAX};
    measure_side side_a = side_of(&a), side_b = side_of(&b);
    measure_options opt = MEASURE_OPTIONS_INIT;
    measure_result result;
    iter_error err;
    opt.tolerance = 1e9;
    opt.memory = true;
    opt.max_s = 0.5;
    cr_assert_eq(measure_pairs(&side_a, &side_b, &opt, &result, &err), ITER_OK);
    cr_assert_gt(result.n_pairs + result.n_dropped, 0);
    for (uint32_t i = 0; i < result.n_pairs; i++)
        cr_assert_float_eq(result.ratios[i], 3, 1e-6);
    measure_free(&result);
}

Test(bench_measure, a_side_that_ends_ends_the_comparison) {
    fake a = {.rate = 1000, .batch = 1, .left = 2000},
         b = {.rate = 1000, .batch = 1, .left = UINT64_MAX};
    measure_side side_a = side_of(&a), side_b = side_of(&b);
    measure_options opt = MEASURE_OPTIONS_INIT;
    measure_result result;
    iter_error err;
    opt.tolerance = 1e9;
    opt.min_pairs = UINT32_MAX;
    cr_assert_eq(measure_pairs(&side_a, &side_b, &opt, &result, &err), ITER_OK);
    cr_assert_eq(a.left, 0);
    cr_assert_gt(result.n_pairs, 0);
    measure_free(&result);
}

Test(bench_measure, an_error_comes_out) {
    fake a = {.rate = 1000, .batch = 1, .left = UINT64_MAX}, b = {.fails = ITER_EIO};
    measure_side side_a = side_of(&a), side_b = side_of(&b);
    measure_options opt = MEASURE_OPTIONS_INIT;
    measure_result result;
    iter_error err;
    cr_assert_eq(measure_pairs(&side_a, &side_b, &opt, &result, &err), ITER_EIO);
    cr_assert_str_eq(err.message, "broken");
    measure_free(&result);
}

/* ---- Programs -------------------------------------------------------------------------------- */

Test(bench_measure, a_program_answers_over_pipes) {
    measure_child *child;
    iter_error err;
    uint64_t samples;
    double seconds;
    cr_assert_eq(measure_child_start(
                     "while read word n; do [ $word = run ] || exit; echo $((n * 7)) 0.25; done",
                     &child, &err),
                 ITER_OK);
    measure_side side = measure_child_side(child, "child");
    cr_assert_eq(side.run(side.user, 6, &samples, &seconds, &err), ITER_OK);
    cr_assert_eq(samples, 42);
    cr_assert_float_eq(seconds, 0.25, 1e-12);
    measure_child_stop(child);
}

Test(bench_measure, a_program_that_ends_or_babbles_is_an_error) {
    static const struct {
        const char *command;
        iter_status status;
    } cases[] = {{"exit 0", ITER_EIO},
                 {"read x; echo 12", ITER_EFORMAT},
                 {"read x; echo 12 0.5 more", ITER_EFORMAT},
                 {"read x; echo twelve 0.5", ITER_EFORMAT}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        measure_child *child;
        iter_error err;
        uint64_t samples;
        double seconds;
        cr_assert_eq(measure_child_start(cases[i].command, &child, &err), ITER_OK);
        measure_side side = measure_child_side(child, "child");
        cr_assert_eq(side.run(side.user, 1, &samples, &seconds, &err), cases[i].status, "%s",
                     cases[i].command);
        cr_assert(strstr(err.message, cases[i].command) != NULL, "%s", err.message);
        measure_child_stop(child);
    }
}

/* ---- Histogram ------------------------------------------------------------------------------- */

Test(bench_measure, quantiles_are_within_two_percent) {
    static histogram h;
    for (uint64_t i = 1; i <= 100000; i++)
        histogram_add(&h, i * 37);
    cr_assert_float_eq((double)histogram_quantile(&h, 0.5), 50000 * 37, 50000 * 37 * 0.02);
    cr_assert_float_eq((double)histogram_quantile(&h, 0.99), 99000 * 37, 99000 * 37 * 0.02);
    cr_assert_eq(h.max, 100000 * 37);
    cr_assert_eq(h.n, 100000);
    memset(&h, 0, sizeof(h));
    histogram_add(&h, UINT64_MAX);
    histogram_add(&h, 0);
    cr_assert_eq(histogram_quantile(&h, 0.25), 0);
    cr_assert_float_eq((double)histogram_quantile(&h, 0.9), 18446744073709551615.0, 4e17);
    memset(&h, 0, sizeof(h));
    histogram_add(&h, 1 << 20); /* the first of its bucket, whose middle is larger */
    cr_assert_eq(histogram_quantile(&h, 0.5), 1 << 20);
}
