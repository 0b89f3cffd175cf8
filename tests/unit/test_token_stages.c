/* test_token_stages.c - truncate, pad-tokens and tokens: plans, rows against a naive reference, and
 * refusals. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

#include <iter/rng.h>
#include <iter/transforms.h>

#include "iter/core/error.h"
#include "tests/support/builtin_tables.h"

TestSuite(token_stages, .timeout = 60);

#define ROW_MAX 64

static const iter_dtype dtypes[] = {ITER_U16, ITER_I32, ITER_I64};

static iter_desc desc_of(iter_dtype dtype, int64_t length, int64_t capacity) {
    iter_desc desc = {.dtype = dtype, .n_dims = 1, .dims = {length}, .capacity = capacity};
    strcpy(desc.layout, "T");
    return desc;
}

static void put(iter_dtype dtype, void *row, int64_t i, int64_t id) {
    if (dtype == ITER_U16) ((uint16_t *)row)[i] = (uint16_t)id;
    if (dtype == ITER_I32) ((int32_t *)row)[i] = (int32_t)id;
    if (dtype == ITER_I64) ((int64_t *)row)[i] = id;
}

static int64_t get(iter_dtype dtype, const void *row, int64_t i) {
    if (dtype == ITER_U16) return ((const uint16_t *)row)[i];
    return dtype == ITER_I32 ? ((const int32_t *)row)[i] : ((const int64_t *)row)[i];
}

/* Runs one stage over ids[n]; if capacity > 0 the row is variable. Returns the status; out[*n_out]
 * has the result. */
static iter_status run(const iter_transform_ops *ops, const void *options, iter_dtype dtype,
                       const int64_t *ids, int64_t n, int64_t capacity, int64_t *out,
                       int64_t *n_out, iter_error *err) {
    int64_t in_row[ROW_MAX], out_row[ROW_MAX + 2];
    iter_desc in_desc = desc_of(dtype, capacity ? ITER_VARIABLE : n, capacity), out_desc;
    size_t scratch;
    ITER_TRY(ops->plan(options, &in_desc, &out_desc, &scratch, err));
    cr_assert_eq(scratch, 0);
    cr_assert_eq(out_desc.dtype, dtype);
    cr_assert_str_eq(out_desc.layout, "T");
    const bool variable = out_desc.dims[0] == ITER_VARIABLE;
    const int64_t most = variable ? out_desc.capacity : out_desc.dims[0];
    cr_assert_leq(most, ROW_MAX + 1);
    if (!variable) cr_assert_eq(out_desc.capacity, 0);

    iter_tensor in = iter_tensor_dense(&in_desc, in_row);
    iter_tensor out_tensor = iter_tensor_dense(&out_desc, out_row);
    in.desc.dims[0] = n;
    memset(out_row, 0x5a, sizeof(out_row));
    for (int64_t i = 0; i < n; i++)
        put(dtype, in_row, i, ids[i]);
    put(dtype, out_row, most, 77);
    ITER_TRY(ops->apply(NULL, options, &in, &out_tensor, NULL, NULL, err));
    cr_assert_eq(get(dtype, out_row, most), 77, "wrote after the row");
    *n_out = out_tensor.desc.dims[0];
    if (!variable) cr_assert_eq(*n_out, most);
    cr_assert_leq(*n_out, most);
    for (int64_t i = 0; i < *n_out; i++)
        out[i] = get(dtype, out_row, i);
    return ITER_OK;
}

static void expect_rows(const int64_t *got, int64_t n_got, const int64_t *want, int64_t n_want) {
    cr_assert_eq(n_got, n_want);
    for (int64_t i = 0; i < n_want; i++)
        cr_assert_eq(got[i], want[i], "token %" PRId64 ": %" PRId64 ", not %" PRId64, i, got[i],
                     want[i]);
}

/* Python: ids[-length:] or ids[:length]; variable and fixed rows of every type. */
Test(token_stages, truncate) {
    iter_rng rng = iter_rng_at(1, 0, 0);
    for (int c = 0; c < 3000; c++) {
        iter_truncate_options o = ITER_TRUNCATE_OPTIONS_INIT;
        int64_t ids[ROW_MAX], got[ROW_MAX + 1], n_got;
        const bool variable = c % 2;
        const int64_t n = (int64_t)iter_rng_below(&rng, ROW_MAX) + !variable;
        o.length = 1 + (int64_t)iter_rng_below(&rng, ROW_MAX);
        o.side = (int32_t)iter_rng_below(&rng, 2);
        for (int64_t i = 0; i < n; i++)
            ids[i] = (int64_t)iter_rng_below(&rng, 65536);
        cr_assert_eq(run(&iter__transform_truncate, &o, dtypes[c % 3], ids, n,
                         variable ? ROW_MAX : 0, got, &n_got, NULL),
                     ITER_OK);
        const int64_t kept = n < o.length ? n : o.length;
        expect_rows(got, n_got, ids + (o.side == ITER_SIDE_FIRST ? 0 : n - kept), kept);
    }
}

Test(token_stages, pad) {
    iter_rng rng = iter_rng_at(2, 0, 0);
    for (int c = 0; c < 3000; c++) {
        iter_pad_tokens_options o = ITER_PAD_TOKENS_OPTIONS_INIT;
        int64_t ids[ROW_MAX], got[ROW_MAX + 1], want[ROW_MAX], n_got;
        const bool variable = c % 2;
        o.length = 1 + (int64_t)iter_rng_below(&rng, ROW_MAX);
        o.side = (int32_t)iter_rng_below(&rng, 2);
        o.value = (int64_t)iter_rng_below(&rng, 65536);
        const int64_t n = (int64_t)iter_rng_below(&rng, (uint64_t)o.length) + 1 - variable;
        for (int64_t i = 0; i < o.length; i++)
            want[i] = o.value;
        for (int64_t i = 0; i < n; i++) {
            ids[i] = (int64_t)iter_rng_below(&rng, 65536);
            want[o.side == ITER_PAD_PRE ? o.length - n + i : i] = ids[i];
        }
        cr_assert_eq(run(&iter__transform_pad_tokens, &o, dtypes[c % 3], ids, n,
                         variable ? ROW_MAX : 0, got, &n_got, NULL),
                     ITER_OK);
        expect_rows(got, n_got, want, o.length);
    }
}

/* numpy: x = ids + offset; where((x < 0) | (x >= limit), unknown, x); concatenate([start], x). */
Test(token_stages, renumber) {
    iter_rng rng = iter_rng_at(3, 0, 0);
    for (int c = 0; c < 3000; c++) {
        iter_tokens_options o = ITER_TOKENS_OPTIONS_INIT;
        int64_t ids[ROW_MAX], got[ROW_MAX + 1], want[ROW_MAX + 1], n_got, n_want = 0;
        const bool variable = c % 2;
        const int64_t n = (int64_t)iter_rng_below(&rng, ROW_MAX) + !variable;
        o.limit = 10 + (int64_t)iter_rng_below(&rng, 60000);
        o.offset = (int64_t)iter_rng_below(&rng, 40) - 20;
        o.unknown = (int64_t)iter_rng_below(&rng, 10);
        o.start = (int64_t)iter_rng_below(&rng, 10) - 1;
        if (o.start >= 0) want[n_want++] = o.start;
        for (int64_t i = 0; i < n; i++) {
            ids[i] = (int64_t)iter_rng_below(&rng, iter_rng_below(&rng, 2) ? 65536 : 30);
            const int64_t id = ids[i] + o.offset;
            want[n_want++] = id < 0 || id >= o.limit ? o.unknown : id;
        }
        cr_assert_eq(run(&iter__transform_tokens, &o, dtypes[c % 3], ids, n, variable ? ROW_MAX : 0,
                         got, &n_got, NULL),
                     ITER_OK);
        expect_rows(got, n_got, want, n_want);
    }
}

/* Both ways to Keras' ids agree: ranks through these stages, and the rule at the top of
 * text_tokens.h. */
Test(token_stages, keras_by_stages) {
    iter_tokens_options tokens = {3, 1, 2, 20};
    iter_truncate_options last = {4, ITER_SIDE_LAST};
    iter_pad_tokens_options pad = {4, ITER_PAD_POST, 0};
    int64_t a[ROW_MAX + 1], b[ROW_MAX + 1], n;
    const int64_t ranks[] = {5, 40, 16, 17};
    cr_assert_eq(run(&iter__transform_tokens, &tokens, ITER_I32, ranks, 4, 8, a, &n, NULL), 0);
    cr_assert_eq(run(&iter__transform_truncate, &last, ITER_I32, a, n, 9, b, &n, NULL), 0);
    cr_assert_eq(run(&iter__transform_pad_tokens, &pad, ITER_I32, b, n, 4, a, &n, NULL), 0);
    expect_rows(a, n, (const int64_t[]){8, 2, 19, 2}, 4);
    cr_assert_eq(run(&iter__transform_tokens, &tokens, ITER_I32, ranks, 1, 8, a, &n, NULL), 0);
    cr_assert_eq(run(&iter__transform_truncate, &last, ITER_I32, a, n, 9, b, &n, NULL), 0);
    cr_assert_eq(run(&iter__transform_pad_tokens, &pad, ITER_I32, b, n, 4, a, &n, NULL), 0);
    expect_rows(a, n, (const int64_t[]){1, 8, 0, 0}, 4);
}

Test(token_stages, ids_that_do_not_fit_their_type) {
    static const struct {
        iter_dtype dtype;
        int64_t id, offset;
    } cases[] = {{ITER_U16, 65535, 1},      {ITER_U16, 3, -4},        {ITER_I32, INT32_MAX, 1},
                 {ITER_I32, INT32_MIN, -1}, {ITER_I64, INT64_MAX, 1}, {ITER_I64, INT64_MIN, -1}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        iter_tokens_options o = ITER_TOKENS_OPTIONS_INIT;
        const int64_t ids[] = {5, cases[c].id, 6};
        int64_t got[ROW_MAX + 1], n;
        iter_error err = {0};
        o.offset = cases[c].offset;
        cr_assert_eq(run(&iter__transform_tokens, &o, cases[c].dtype, ids, 3, 0, got, &n, &err),
                     ITER_EFORMAT, "case %zu", c);
        cr_assert(strstr(err.message, "token 1 with offset="), "%s", err.message);
        cr_assert(strstr(err.message, iter_dtype_text(cases[c].dtype)), "%s", err.message);
        o.limit = 100; /* now they fit */
        cr_assert_eq(run(&iter__transform_tokens, &o, cases[c].dtype, ids, 3, 0, got, &n, &err),
                     ITER_OK);
        cr_assert_eq(got[1], o.unknown);
    }
}

static void expect_no_plan(const iter_transform_ops *ops, const void *options, iter_desc in,
                           const char *reason) {
    iter_desc out;
    size_t scratch;
    iter_error err = {0};
    cr_assert_eq(ops->plan(options, &in, &out, &scratch, &err), ITER_EINVAL, "%s", reason);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
}

Test(token_stages, plans_that_cannot_be) {
    iter_truncate_options truncate = ITER_TRUNCATE_OPTIONS_INIT;
    iter_pad_tokens_options pad = ITER_PAD_TOKENS_OPTIONS_INIT;
    iter_tokens_options tokens = ITER_TOKENS_OPTIONS_INIT;
    const iter_desc row = desc_of(ITER_I32, 20, 0), u16 = desc_of(ITER_U16, ITER_VARIABLE, 20);
    const iter_desc f32 = desc_of(ITER_F32, 20, 0);
    const iter_desc image = {.dtype = ITER_I32, .n_dims = 2, .dims = {4, 5}};

    expect_no_plan(&iter__transform_truncate, &truncate, row, "length is not given");
    expect_no_plan(&iter__transform_pad_tokens, &pad, row, "length is not given");
    expect_no_plan(&iter__transform_tokens, &tokens, f32,
                   "needs u16, i32 or i64 [T], not f32 [20]");
    truncate.length = pad.length = 10;
    expect_no_plan(&iter__transform_truncate, &truncate, image, "not i32 [4, 5]");
    expect_no_plan(&iter__transform_pad_tokens, &pad, row,
                   "samples have 20 tokens, more than length=10");
    pad.value = 65536;
    expect_no_plan(&iter__transform_pad_tokens, &pad, u16, "value=65536 is no u16");
    tokens.start = 65536;
    expect_no_plan(&iter__transform_tokens, &tokens, u16, "start=65536 is no u16");
    tokens.start = -1;
    tokens.limit = 70000;
    expect_no_plan(&iter__transform_tokens, &tokens, u16, "limit - 1=69999 is no u16");
    tokens.limit = 2;
    expect_no_plan(&iter__transform_tokens, &tokens, u16,
                   "unknown=2 and start=-1 have to be below");
}

Test(token_stages, a_sample_longer_than_the_row) {
    iter_pad_tokens_options pad = {3, ITER_PAD_POST, 0};
    const int64_t ids[] = {1, 2, 3, 4};
    int64_t got[ROW_MAX + 1], n;
    iter_error err = {0};
    cr_assert_eq(run(&iter__transform_pad_tokens, &pad, ITER_I32, ids, 4, 20, got, &n, &err),
                 ITER_EFORMAT);
    cr_assert_str_eq(err.message, "has 4 tokens, more than length=3; truncate them first");
}
