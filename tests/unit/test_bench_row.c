/* test_bench_row.c - bench/common/bench_row.c: rows of permuted and narrowed tensors, beside naive
 * indexing. */
#include <criterion/criterion.h>

#include <string.h>

#include "bench/common/bench_row.h"

TestSuite(bench_row, .timeout = 60);

/* u16 elements 0, 1, 2, ... */
static uint16_t memory[4096];

static void fill(void) {
    for (int i = 0; i < 4096; i++)
        memory[i] = (uint16_t)i;
}

Test(bench_row, rows_of_a_dense_batch, .init = fill) {
    iter_desc desc = {.dtype = ITER_U16, .n_dims = 3, .dims = {5, 3, 4}, .layout = "NHW"};
    iter_tensor tensor = iter_tensor_dense(&desc, memory);
    for (int64_t i = 0; i < 5; i++) {
        uint16_t out[12];
        bench_row row = bench_row_at(&tensor, i, NULL);
        cr_assert_eq(row.n_dims, 2);
        cr_assert_eq(bench_row_bytes(&row), 24);
        cr_assert(bench_row_dense(&row));
        bench_row_copy(&row, (uint8_t *)out);
        for (int k = 0; k < 12; k++)
            cr_assert_eq(out[k], i * 12 + k);
    }
}

Test(bench_row, time_first_batches_count_rows_in_their_second_dimension, .init = fill) {
    iter_desc desc = {.dtype = ITER_U16, .n_dims = 3, .dims = {6, 5, 2}, .layout = "TNC"};
    iter_tensor tensor = iter_tensor_dense(&desc, memory);
    int32_t lengths[5] = {6, 0, 3, 1, 4};
    cr_assert_eq(bench_row_dim(&desc), 1);
    for (int64_t i = 0; i < 5; i++) {
        uint16_t out[12];
        bench_row row = bench_row_at(&tensor, i, lengths);
        cr_assert_eq(row.n_dims, 2);
        cr_assert_eq(row.dims[0], lengths[i]);
        cr_assert_eq(bench_row_bytes(&row), (size_t)lengths[i] * 4);
        bench_row_copy(&row, (uint8_t *)out);
        for (int64_t t = 0; t < lengths[i]; t++)
            for (int64_t c = 0; c < 2; c++)
                cr_assert_eq(out[t * 2 + c], (t * 5 + i) * 2 + c);
    }
}

Test(bench_row, fewer_columns_than_the_memory_has, .init = fill) {
    iter_desc desc = {.dtype = ITER_U16, .n_dims = 3, .dims = {4, 3, 5}, .layout = "NTC"};
    iter_tensor tensor = iter_tensor_dense(&desc, memory);
    tensor.strides[0] = 100;
    tensor.strides[1] = 7;
    bench_row row = bench_row_at(&tensor, 2, NULL);
    uint16_t out[15];
    cr_assert(!bench_row_dense(&row));
    bench_row_copy(&row, (uint8_t *)out);
    for (int64_t t = 0; t < 3; t++)
        for (int64_t c = 0; c < 5; c++)
            cr_assert_eq(out[t * 5 + c], 200 + t * 7 + c);
}

Test(bench_row, touch_reads_the_elements_and_nothing_else, .init = fill) {
    /* Bytes 0, 64, 128, ... of a dense tensor and its last one, by the sum of their values. */
    iter_desc desc = {.dtype = ITER_U8, .n_dims = 2, .dims = {10, 64}, .layout = "NC"};
    static uint8_t bytes[10 * 64];
    memset(bytes, 0, sizeof(bytes));
    for (int i = 0; i < 10; i++)
        bytes[i * 64] = (uint8_t)(i + 1);
    bytes[639] = 100;
    iter_tensor tensor = iter_tensor_dense(&desc, bytes);
    cr_assert_eq(bench_tensor_touch(&tensor), 55 + 100);
    tensor.desc.dims[1] = 1; /* one column of the ten rows */
    /* first and last byte of each block of one */
    cr_assert_eq(bench_tensor_touch(&tensor), 2 * 55);
    tensor.desc.dims[0] = 0;
    cr_assert_eq(bench_tensor_touch(&tensor), 0);
}
