/* bench_row.h - one row of a batch's tensor: its shape, its elements in C order. */
#ifndef BENCH_ROW_H
#define BENCH_ROW_H

#include <stdbool.h>

#include <iter/tensor.h>

typedef struct bench_row {
    const uint8_t *data;
    iter_dtype dtype;
    size_t element_bytes;
    int32_t n_dims; /* without the batch dimension */
    int64_t dims[ITER_MAX_DIMS];
    int64_t strides[ITER_MAX_DIMS]; /* elements */
} bench_row;

/** The dimension that counts rows: the one called 'N', else the first. */
int32_t bench_row_dim(const iter_desc *desc);

/** Row i. If `lengths` is given, the row's first dimension is cut to its own length. */
bench_row bench_row_at(const iter_tensor *tensor, int64_t i, const int32_t *lengths);

/** Bytes of the row's elements, and whether they are contiguous in C order. */
size_t bench_row_bytes(const bench_row *row);
bool bench_row_dense(const bench_row *row);

/** Writes the elements in C order. */
void bench_row_copy(const bench_row *row, uint8_t *out);

/** Reads one byte of every cache line that holds elements of the tensor. Returns their sum, so that
 * the compiler keeps the reads. */
uint64_t bench_tensor_touch(const iter_tensor *tensor);

#endif
