/* test_batch_stages.c - pad-batch, tnc and lengths: plans, batches against a naive reference, and
 * refusals. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <iter/rng.h>
#include <iter/transforms.h>

#include "tests/support/builtin_tables.h"

TestSuite(batch_stages, .timeout = 60);

#define ROWS_MAX 9
#define CAPACITY 12

/* A batch of a variable field as a loader holds it: row i begins at i * CAPACITY * inner
 * elements. */
typedef struct batch {
    iter_batch_view view;
    int32_t lengths[ROWS_MAX];
    int64_t n, inner;
    size_t element;
    unsigned char *slot, *copy; /* the memory of the batch; a copy of its first content */
    size_t bytes;
} batch;

static iter_desc planned_desc(iter_dtype dtype, int64_t rows, int64_t inner) {
    iter_desc desc = {.dtype = dtype, .n_dims = 2, .dims = {rows, ITER_VARIABLE}};
    desc.capacity = CAPACITY;
    strcpy(desc.layout, "NT");
    if (inner > 1) {
        desc.n_dims = 3;
        desc.dims[2] = inner;
        strcpy(desc.layout, "NTC");
    }
    return desc;
}

static void fill_random(iter_rng *rng, unsigned char *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)iter_rng_below(rng, 256);
}

static void make(batch *b, iter_rng *rng, iter_dtype dtype, int64_t n, int64_t inner,
                 int64_t longest, int64_t room) {
    b->n = n;
    b->inner = inner;
    b->element = iter_dtype_bytes(dtype);
    b->bytes = (size_t)(n * room * inner) * b->element;
    b->slot = malloc(b->bytes + 1); /* of the exact size, so that a sanitizer sees a byte too far */
    b->copy = malloc(b->bytes + 1);
    fill_random(rng, b->slot, b->bytes);
    memcpy(b->copy, b->slot, b->bytes);
    iter_desc desc = planned_desc(dtype, n, inner);
    desc.dims[1] = CAPACITY;
    for (int64_t i = 0; i < n; i++)
        b->lengths[i] = (int32_t)iter_rng_below(rng, (uint64_t)longest + 1);
    b->view = (iter_batch_view){.tensor = iter_tensor_dense(&desc, b->slot),
                                .n_rows = n,
                                .capacity_bytes = b->bytes,
                                .lengths = b->lengths};
}

static void drop(batch *b) {
    free(b->slot);
    free(b->copy);
}

static int64_t longest_of(const batch *b) {
    int64_t longest = 0;
    for (int64_t i = 0; i < b->n; i++)
        longest = b->lengths[i] > longest ? b->lengths[i] : longest;
    return longest;
}

/* Element (i, t, k) is the row's, or `value`. */
static void expect_padded(const batch *b, int64_t length, bool pre, const void *value) {
    const iter_tensor *t = &b->view.tensor;
    cr_assert_eq(t->desc.dims[0], b->n);
    cr_assert_eq(t->desc.dims[1], length);
    cr_assert_eq(t->strides[0], length * b->inner);
    cr_assert_eq(t->strides[1], b->inner);
    for (int64_t i = 0; i < b->n; i++) {
        for (int64_t s = 0; s < length; s++) {
            const int64_t from = pre ? s - (length - b->lengths[i]) : s;
            for (int64_t k = 0; k < b->inner; k++) {
                const void *got = b->slot + (size_t)((i * length + s) * b->inner + k) * b->element;
                const void *want = value;
                if (from >= 0 && from < b->lengths[i])
                    want = b->copy + (size_t)((i * CAPACITY + from) * b->inner + k) * b->element;
                cr_assert_eq(memcmp(got, want, b->element), 0, "row %" PRId64 ", step %" PRId64, i,
                             s);
            }
        }
    }
}

/* The fill values, as each type represents them. */
static const struct {
    iter_dtype dtype;
    double value;
    unsigned char bytes[8];
} fills[] = {
    {ITER_I32, -2, {0xfe, 0xff, 0xff, 0xff}},
    {ITER_U16, 258, {0x02, 0x01}},
    {ITER_I64, 1, {1, 0, 0, 0, 0, 0, 0, 0}},
    {ITER_U8, 255, {0xff}},
    {ITER_F32, 1.5, {0, 0, 0xc0, 0x3f}},
    {ITER_F16, 1.5, {0, 0x3e}},
    {ITER_F64, -1.5, {0, 0, 0, 0, 0, 0, 0xf8, 0xbf}},
};
#define N_FILLS (sizeof(fills) / sizeof(fills[0]))

static void pad_one(iter_rng *rng, size_t f, int64_t inner, iter_pad_batch_options o) {
    batch b;
    iter_error err = {0};
    const int64_t n = (int64_t)iter_rng_below(rng, ROWS_MAX + 1);
    iter_desc desc = planned_desc(fills[f].dtype, n, inner);
    size_t scratch = 1;
    o.value = fills[f].value;
    cr_assert_eq(iter__transform_pad_batch.plan_batch(&o, &desc, &scratch, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_eq(scratch, 0);
    cr_assert_eq(desc.dims[1], o.to ? o.to : ITER_VARIABLE);
    const int64_t most = o.to ? o.to : desc.capacity;
    const int64_t longest = o.to && o.to < CAPACITY ? o.to : CAPACITY;
    make(&b, rng, fills[f].dtype, n, inner, longest, most > CAPACITY ? most : CAPACITY);
    cr_assert_eq(iter__transform_pad_batch.apply_batch(&o, &b.view, &err), ITER_OK, "%s",
                 err.message);
    int64_t length = o.to ? o.to : longest_of(&b);
    while (!o.to && o.multiple > 1 && length % o.multiple)
        length++;
    cr_assert_leq(length, most);
    expect_padded(&b, length, o.side == ITER_PAD_PRE, fills[f].bytes);
    drop(&b);
}

Test(batch_stages, pad_to_longest_multiple_and_fixed) {
    iter_rng rng = iter_rng_at(4, 0, 0);
    for (int c = 0; c < 4000; c++) {
        iter_pad_batch_options o = ITER_PAD_BATCH_OPTIONS_INIT;
        o.side = c & 1;
        if (c % 3 == 1) o.multiple = (int64_t)iter_rng_below(&rng, 10);
        if (c % 3 == 2) o.to = 1 + (int64_t)iter_rng_below(&rng, 20);
        pad_one(&rng, (size_t)c % N_FILLS, c & 2 ? 3 : 1, o);
    }
}

Test(batch_stages, a_row_longer_than_the_fixed_length) {
    iter_pad_batch_options o = ITER_PAD_BATCH_OPTIONS_INIT;
    iter_rng rng = iter_rng_at(5, 0, 0);
    iter_error err = {0};
    batch b;
    o.to = 4;
    make(&b, &rng, ITER_I32, 3, 1, 4, CAPACITY);
    b.lengths[0] = 5;
    b.lengths[1] = 7;
    cr_assert_eq(iter__transform_pad_batch.apply_batch(&o, &b.view, &err), ITER_EFORMAT);
    cr_assert_str_eq(err.message, "row 1 has length 7, more than to=4");
    cr_assert_eq(memcmp(b.slot, b.copy, b.bytes), 0);
    drop(&b);
}

Test(batch_stages, a_slot_without_room) {
    iter_pad_batch_options o = ITER_PAD_BATCH_OPTIONS_INIT;
    iter_rng rng = iter_rng_at(6, 0, 0);
    iter_error err = {0};
    batch b;
    o.to = CAPACITY + 1;
    make(&b, &rng, ITER_I32, 3, 1, 4, CAPACITY);
    cr_assert_eq(iter__transform_pad_batch.apply_batch(&o, &b.view, &err), ITER_EINVAL);
    cr_assert_str_eq(err.message, "3 rows of length 13 need more than 144 bytes");
    drop(&b);
}

/* numpy: x.transpose(1, 0, 2).copy() */
Test(batch_stages, tnc) {
    iter_rng rng = iter_rng_at(7, 0, 0);
    for (int c = 0; c < 500; c++) {
        const iter_dtype dtype = fills[(size_t)c % N_FILLS].dtype;
        const int64_t inner = c & 2 ? 3 : 1, steps = 1 + (int64_t)iter_rng_below(&rng, CAPACITY);
        const int64_t n = (int64_t)iter_rng_below(&rng, ROWS_MAX + 1);
        iter_desc desc = planned_desc(dtype, n, inner);
        size_t scratch_bytes;
        batch b;
        cr_assert_eq(iter__transform_tnc.plan_batch(NULL, &desc, &scratch_bytes, NULL), ITER_OK);
        cr_assert_eq(desc.dims[0], ITER_VARIABLE);
        cr_assert_eq(desc.dims[1], n);
        cr_assert_eq(desc.capacity, CAPACITY);
        cr_assert_str_eq(desc.layout, inner > 1 ? "TNC" : "TN");
        make(&b, &rng, dtype, n, inner, CAPACITY, CAPACITY);
        b.view.scratch = malloc(scratch_bytes + 1);
        /* rows with a gap between them, or dense */
        b.view.tensor.desc.dims[1] = steps;
        const int64_t row = c & 4 ? CAPACITY * inner : steps * inner;
        b.view.tensor.strides[0] = row;
        cr_assert_eq(iter__transform_tnc.apply_batch(NULL, &b.view, NULL), ITER_OK);
        const iter_tensor *t = &b.view.tensor;
        cr_assert_eq(t->desc.dims[0], steps);
        cr_assert_eq(t->desc.dims[1], n);
        cr_assert_eq(t->strides[0], n * inner);
        cr_assert_eq(t->strides[1], inner);
        for (int64_t s = 0; s < steps; s++) {
            for (int64_t i = 0; i < n; i++) {
                const size_t bytes = (size_t)inner * b.element;
                cr_assert_eq(memcmp(b.slot + (size_t)(s * n + i) * bytes,
                                    b.copy + (size_t)(i * row + s * inner) * b.element, bytes),
                             0);
            }
        }
        free(b.view.scratch);
        drop(&b);
    }
}

Test(batch_stages, pad_then_tnc) {
    const iter_pad_batch_options o = {0, 4, 9, ITER_PAD_PRE};
    int32_t slot[2 * 8] = {1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6, 7, 8, 0, 0, 0}, scratch[16];
    const int32_t lengths[] = {3, 5};
    const int32_t want[] = {9, 9, 9, 9, 9, 9, 9, 4, 9, 5, 1, 6, 2, 7, 3, 8};
    iter_desc desc = {
        .dtype = ITER_I32,
        .n_dims = 2,
        .dims = {2, 8},
    };
    iter_batch_view view = {.tensor = iter_tensor_dense(&desc, slot),
                            .n_rows = 2,
                            .capacity_bytes = sizeof(slot),
                            .lengths = lengths,
                            .scratch = scratch};
    cr_assert_eq(iter__transform_pad_batch.apply_batch(&o, &view, NULL), ITER_OK);
    cr_assert_eq(iter__transform_tnc.apply_batch(NULL, &view, NULL), ITER_OK);
    cr_assert_eq(view.tensor.desc.dims[0], 8);
    cr_assert_eq(memcmp(slot, want, sizeof(want)), 0);
}

static void expect_no_plan(const iter_transform_ops *ops, const void *options, iter_desc desc,
                           const char *reason) {
    size_t scratch;
    iter_error err = {0};
    cr_assert_eq(ops->plan_batch(options, &desc, &scratch, &err), ITER_EINVAL, "%s", reason);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
}

Test(batch_stages, plans_that_cannot_be) {
    iter_pad_batch_options pad = ITER_PAD_BATCH_OPTIONS_INIT;
    const iter_desc ragged = planned_desc(ITER_U16, 8, 1);
    const iter_desc fixed = {.dtype = ITER_U16, .n_dims = 2, .dims = {8, 5}};
    const iter_desc numbers = {.dtype = ITER_U16, .n_dims = 1, .dims = {8}};
    expect_no_plan(&iter__transform_pad_batch, &pad, fixed, "are all equally long");
    expect_no_plan(&iter__transform_pad_batch, &pad, numbers, "are all equally long");
    expect_no_plan(&iter__transform_tnc, NULL, numbers, "needs samples with a dimension");
    pad.value = 0.5;
    expect_no_plan(&iter__transform_pad_batch, &pad, ragged, "value=0.5 is no u16");
    pad.value = -1;
    expect_no_plan(&iter__transform_pad_batch, &pad, ragged, "value=-1 is no u16");
    pad.value = 65535;
    pad.to = 5;
    pad.multiple = 8;
    expect_no_plan(&iter__transform_pad_batch, &pad, ragged, "to and multiple are both given");
    iter_desc twice = ragged;
    size_t scratch;
    cr_assert_eq(iter__transform_tnc.plan_batch(NULL, &twice, &scratch, NULL), ITER_OK);
    cr_assert_eq(scratch, 8 * CAPACITY * 2);
    expect_no_plan(&iter__transform_tnc, NULL, twice, "stands twice");
}

Test(batch_stages, lengths_are_the_loaders_work) {
    cr_assert_eq(iter__transform_lengths.adds_lengths, 1);
    cr_assert_eq(offsetof(iter_lengths_options, name), 0);
    cr_assert_null(iter__transform_lengths.apply_batch);
}
