/*
 * test_length_samplers.c - `bucket` and `token-budget`: every sample once, batches of similar
 * lengths, budgets, restoring at every batch, refusals with their reason.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/open_sampler.h"
#include <iter/iter.h>

TestSuite(length_samplers, .timeout = 60);

#define MAX_N SAMPLER_MAX_N

/* ---- Buckets --------------------------------------------------------------------------------- */

typedef struct epoch_batches {
    uint32_t n_batches;
    uint32_t n[MAX_N];
    uint64_t rows[MAX_N]; /* one batch after the other */
    uint64_t n_rows;
} epoch_batches;

static sampler open_buckets(const iter_bucket_options *options, uint64_t n, uint32_t ranks) {
    const iter_sampler_context context = {
        .n_samples = n, .seed = 21, .batch_size = 32, .ranks = ranks, .length = length_of};
    iter_error err = {0};
    sampler s = {0};
    cr_assert_eq(try_open(&s, "bucket", options, &context, &err), ITER_OK, "%s", err.message);
    return s;
}

/* Takes the rest of the epoch. */
static void take_rest(sampler *s, uint32_t capacity, epoch_batches *out) {
    iter_error err = {0};
    out->n_batches = 0;
    out->n_rows = 0;
    for (;;) {
        uint32_t n = 77;
        cr_assert_eq(s->ops->next_batch(s->state, capacity, out->rows + out->n_rows, &n, &err),
                     ITER_OK);
        if (n == 0) break;
        out->n[out->n_batches++] = n;
        out->n_rows += n;
    }
}

static void take_epoch(sampler *s, uint32_t epoch, uint32_t capacity, epoch_batches *out) {
    cr_assert_eq(s->ops->begin(s->state, epoch, NULL), ITER_OK);
    take_rest(s, capacity, out);
}

static int bucket_by_hand(const iter_option_list *bounds, int64_t length) {
    int b = 0;
    while (b < bounds->n && (double)length > bounds->values[b])
        b++;
    return b;
}

Test(length_samplers, buckets_by_bounds) {
    static epoch_batches e;
    const iter_bucket_options options = {{3, {49, 120, 250}}, 0, true, false};
    sampler s = open_buckets(&options, 3001, 2);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        take_epoch(&s, epoch, 64, &e);
        expect_each_once(e.rows, e.n_rows, "bucket");
        cr_expect_eq(e.n_rows, 3001);
        uint32_t n_short[4] = {0}, n_changes = 0;
        int before = -1;
        for (uint64_t at = 0, k = 0; k < e.n_batches; at += e.n[k++]) {
            const int b = bucket_by_hand(&options.buckets, length_of(NULL, e.rows[at]));
            for (uint32_t i = 0; i < e.n[k]; i++)
                cr_assert_eq(bucket_by_hand(&options.buckets, length_of(NULL, e.rows[at + i])), b);
            cr_assert(e.n[k] <= 64);
            n_short[b] += e.n[k] < 64;
            n_changes += b != before;
            before = b;
        }
        for (int b = 0; b < 4; b++)
            cr_expect(n_short[b] <= 1);
        cr_expect(n_changes > 10, "batches of different buckets are mixed: %u changes", n_changes);
    }
    close_sampler(&s);
}

Test(length_samplers, buckets_by_number_are_filled_alike) {
    static epoch_batches e;
    const iter_bucket_options options = {{0, {0}}, 5, false, false};
    sampler s = open_buckets(&options, 3000, 1);
    take_epoch(&s, 0, 32, &e);
    expect_each_once(e.rows, e.n_rows, "bucket");
    /* Without shuffle: bucket by bucket, 600 samples each, in 18 batches of 32 and one of 24;
     * within a bucket in stored order. */
    cr_assert_eq(e.n_batches, 5 * 19);
    int64_t longest_before = -1;
    for (uint32_t b = 0; b < 5; b++) {
        int64_t shortest = INT64_MAX, longest = 0;
        for (uint32_t k = 0; k < 19; k++)
            cr_expect_eq(e.n[b * 19 + k], k < 18 ? 32 : 24);
        for (uint32_t i = 0; i < 600; i++) {
            const int64_t length = length_of(NULL, e.rows[b * 600 + i]);
            shortest = length < shortest ? length : shortest;
            longest = length > longest ? length : longest;
            if (i > 0) cr_assert(e.rows[b * 600 + i] > e.rows[b * 600 + i - 1]);
        }
        cr_expect(shortest > longest_before);
        longest_before = longest;
    }
    close_sampler(&s);
}

Test(length_samplers, buckets_drop_what_fills_no_batch) {
    static epoch_batches e;
    static uint8_t seen[3001];
    const iter_bucket_options options = {{3, {49, 120, 250}}, 0, true, true};
    sampler s = open_buckets(&options, 3001, 1);
    uint64_t per_bucket[4] = {0}, expected = 0;
    for (uint64_t i = 0; i < 3001; i++)
        per_bucket[bucket_by_hand(&options.buckets, length_of(NULL, i))]++;
    for (int b = 0; b < 4; b++)
        expected += per_bucket[b] / 32 * 32;
    for (uint32_t epoch = 0; epoch < 40; epoch++) {
        take_epoch(&s, epoch, 32, &e);
        cr_assert_eq(e.n_rows, expected);
        for (uint32_t k = 0; k < e.n_batches; k++)
            cr_assert_eq(e.n[k], 32);
        for (uint64_t i = 0; i < e.n_rows; i++)
            seen[e.rows[i]] = 1;
    }
    for (uint64_t i = 0; i < 3001; i++)
        cr_expect(seen[i], "%lu was dropped in every epoch", i);
    close_sampler(&s);
}

Test(length_samplers, buckets_restore_at_every_batch) {
    static epoch_batches whole, rest;
    sampler s = open_buckets(NULL, 3001, 1);
    take_epoch(&s, 6, 32, &whole);
    uint64_t at = 0;
    for (uint32_t k = 0; k <= whole.n_batches; at += whole.n[k++]) {
        uint8_t saved[256];
        size_t size;
        uint64_t rows[32];
        uint32_t n;
        sampler walked = open_buckets(NULL, 3001, 1), other = open_buckets(NULL, 3001, 1);
        cr_assert_eq(walked.ops->begin(walked.state, 6, NULL), ITER_OK);
        for (uint32_t i = 0; i < k; i++)
            cr_assert_eq(walked.ops->next_batch(walked.state, 32, rows, &n, NULL), ITER_OK);
        cr_assert_eq(walked.ops->save(walked.state, saved, sizeof(saved), &size), ITER_OK);
        cr_assert_eq(walked.ops->save(walked.state, saved, 3, &(size_t){0}), ITER_EINVAL);
        take_epoch(&other, 2, 32, &rest); /* an unrelated epoch before */
        cr_assert_eq(other.ops->restore(other.state, saved, size), ITER_OK);
        take_rest(&other, 32, &rest);
        cr_assert_eq(rest.n_rows, whole.n_rows - at);
        cr_assert_arr_eq(rest.rows, whole.rows + at, rest.n_rows * sizeof(*rest.rows));
        cr_assert_eq(other.ops->restore(other.state, saved, size - 1), ITER_EINVAL);
        saved[size - 1] ^= 1; /* the number of batches */
        cr_assert_eq(other.ops->restore(other.state, saved, size), ITER_EINVAL);
        close_sampler(&walked);
        close_sampler(&other);
    }
    close_sampler(&s);
}

Test(length_samplers, buckets_of_no_samples_and_of_equal_ones) {
    static epoch_batches e;
    sampler none = open_buckets(NULL, 0, 1), one = open_buckets(NULL, 1, 1);
    take_epoch(&none, 0, 32, &e);
    cr_expect_eq(e.n_batches, 0);
    take_epoch(&one, 0, 32, &e);
    cr_expect_eq(e.n_rows, 1);
    close_sampler(&none);
    close_sampler(&one);
}

static int64_t no_length(const void *user, uint64_t index) {
    (void)user;
    return index == 41 ? -1 : 5;
}

Test(length_samplers, buckets_that_cannot_be) {
    iter_sampler_context context = {.n_samples = 100, .batch_size = 32, .ranks = 1};
    const iter_bucket_options descending = {{2, {50, 50}}, 0, true, false},
                              both = {{1, {50}}, 3, true, false};
    iter_error err = {0};
    sampler s = {0};
    cr_expect_eq(try_open(&s, "bucket", NULL, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "does not tell the length"), "%s", err.message);
    context.length = no_length;
    cr_expect_eq(try_open(&s, "bucket", NULL, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "sample 41"), "%s", err.message);
    context.length = length_of;
    cr_expect_eq(try_open(&s, "bucket", &descending, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "ascend"), "%s", err.message);
    cr_expect_eq(try_open(&s, "bucket", &both, &context, &err), ITER_EINVAL);
    uint64_t rows[32];
    uint32_t n;
    s = open_buckets(NULL, 100, 2);
    cr_assert_eq(s.ops->begin(s.state, 0, NULL), ITER_OK);
    cr_expect_eq(s.ops->next_batch(s.state, 32, rows, &n, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "64"), "%s", err.message);
    close_sampler(&s);
}

/* ---- Token budgets --------------------------------------------------------------------------- */

static sampler open_budget(const iter_token_budget_options *options, uint64_t n,
                           uint32_t batch_size, uint32_t ranks) {
    const iter_sampler_context context = {
        .n_samples = n, .seed = 21, .batch_size = batch_size, .ranks = ranks, .length = length_of};
    iter_error err = {0};
    sampler s = {0};
    cr_assert_eq(try_open(&s, "token-budget", options, &context, &err), ITER_OK, "%s", err.message);
    return s;
}

/* What rows[0..n) take: padded to the longest, or their sum. */
static int64_t tokens_of(const uint64_t *rows, uint64_t n, bool sums) {
    int64_t longest = 0, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        const int64_t length = length_of(NULL, rows[i]);
        longest = length > longest ? length : longest;
        sum += length;
    }
    return sums ? sum : longest * (int64_t)n;
}

Test(length_samplers, budgets_hold_for_any_ranks) {
    static epoch_batches e, shared;
    for (int64_t multiple = 1; multiple <= 8; multiple *= 2)
        for (int32_t cost = 0; cost < 2; cost++)
            for (int64_t window = 0; window <= 700; window += 350) {
                const iter_token_budget_options options = {6000, cost, multiple, window, true};
                sampler one = open_budget(&options, 3001, 200, 1),
                        four = open_budget(&options, 3001, 50, 4);
                const uint64_t n_windows = window ? 3000 / (uint64_t)window + 1 : 1;
                uint64_t before = MAX_N;
                for (uint32_t epoch = 0; epoch < 3; epoch++) {
                    take_epoch(&one, epoch, 200, &e);
                    cr_assert_eq(e.n_rows, 3001);
                    expect_each_once(e.rows, e.n_rows, "token-budget");
                    int64_t taken = 0;
                    uint64_t n_odd = 0;
                    for (uint64_t at = 0, k = 0; k < e.n_batches; at += e.n[k++]) {
                        const int64_t takes = tokens_of(e.rows + at, e.n[k], cost);
                        cr_assert(e.n[k] <= 200);
                        cr_assert(takes <= 6000, "batch %lu takes %ld", k, takes);
                        taken += takes;
                        n_odd += e.n[k] % (uint64_t)multiple != 0;
                    }
                    cr_expect(n_odd <= n_windows, "%lu odd ones", n_odd);
                    cr_expect(taken * 10 >= 6 * 6000 * (int64_t)e.n_batches,
                              "%ld tokens in %u batches", taken, e.n_batches);
                    cr_expect_neq(e.rows[0], before, "another order each epoch");
                    before = e.rows[0];
                    take_epoch(&four, epoch, 200, &shared);
                    cr_assert_eq(shared.n_batches, e.n_batches);
                    cr_assert_arr_eq(shared.n, e.n, e.n_batches * sizeof(e.n[0]));
                    cr_assert_arr_eq(shared.rows, e.rows, e.n_rows * sizeof(e.rows[0]));
                }
                close_sampler(&one);
                close_sampler(&four);
            }
}

Test(length_samplers, budgets_as_stored) {
    static epoch_batches e;
    const iter_token_budget_options options = {1500, 0, 1, 500, false};
    sampler s = open_budget(&options, 1750, 32, 1);
    take_epoch(&s, 3, 32, &e);
    expect_each_once(e.rows, e.n_rows, "token-budget");
    for (uint64_t i = 0; i < e.n_rows; i++) {
        cr_assert_eq(e.rows[i] / 500, i / 500, "windows in order");
        if (i % 500 > 0) cr_assert(length_of(NULL, e.rows[i]) <= length_of(NULL, e.rows[i - 1]));
    }
    close_sampler(&s);
}

Test(length_samplers, budgets_restore_at_every_batch) {
    static epoch_batches whole, rest;
    const iter_token_budget_options options = {1500, 0, 1, 400, true};
    sampler s = open_budget(&options, 3001, 32, 2), other = open_budget(&options, 3001, 32, 2);
    take_epoch(&s, 6, 64, &whole);
    cr_assert_eq(s.ops->begin(s.state, 6, NULL), ITER_OK);
    uint64_t at = 0;
    for (uint32_t k = 0; k <= whole.n_batches; k++) {
        uint8_t saved[256];
        size_t size;
        uint64_t rows[64];
        uint32_t n;
        cr_assert_eq(s.ops->save(s.state, saved, sizeof(saved), &size), ITER_OK);
        cr_assert_eq(s.ops->save(s.state, saved, 3, &(size_t){0}), ITER_EINVAL);
        take_epoch(&other, 2, 64, &rest); /* an unrelated epoch before */
        cr_assert_eq(other.ops->restore(other.state, saved, size), ITER_OK);
        take_rest(&other, 64, &rest);
        cr_assert_eq(rest.n_rows, whole.n_rows - at);
        cr_assert_arr_eq(rest.rows, whole.rows + at, rest.n_rows * sizeof(*rest.rows));
        cr_assert_eq(other.ops->restore(other.state, saved, size - 1), ITER_EINVAL);
        saved[size - 1] ^= 1; /* a window far behind the last */
        cr_assert_eq(other.ops->restore(other.state, saved, size), ITER_EINVAL);
        cr_assert_eq(s.ops->next_batch(s.state, 64, rows, &n, NULL), ITER_OK);
        at += n;
    }
    close_sampler(&s);
    close_sampler(&other);
}

Test(length_samplers, budgets_that_cannot_be) {
    iter_sampler_context context = {.n_samples = 100, .batch_size = 32, .ranks = 1};
    const iter_token_budget_options options = {1500, 0, 1, 0, true}, none = {0, 0, 1, 0, true},
                                    small = {4, 0, 1, 0, true}, many = {1500, 0, 33, 0, true};
    iter_error err = {0};
    sampler s = {0};
    cr_expect_eq(try_open(&s, "token-budget", &options, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "does not tell the length"), "%s", err.message);
    context.length = no_length;
    cr_expect_eq(try_open(&s, "token-budget", &options, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "sample 41"), "%s", err.message);
    cr_expect_eq(try_open(&s, "token-budget", &small, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "sample 0 has 5 tokens; tokens is 4"), "%s", err.message);
    cr_expect_eq(try_open(&s, "token-budget", &none, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "needs tokens="), "%s", err.message);
    cr_expect_eq(try_open(&s, "token-budget", &many, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "multiple is 33, a batch has 32 rows"), "%s", err.message);
}

Test(length_samplers, budgets_of_few_samples) {
    static epoch_batches e;
    const iter_token_budget_options options = {1500, 0, 1, 0, true};
    sampler none = open_budget(&options, 0, 32, 1), one = open_budget(&options, 1, 32, 4);
    take_epoch(&none, 0, 32, &e);
    cr_expect_eq(e.n_batches, 0);
    take_epoch(&one, 0, 128, &e);
    cr_expect_eq(e.n_rows, 1);
    close_sampler(&none);
    close_sampler(&one);
}
