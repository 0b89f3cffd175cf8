/*
 * bench_row.c - one row of a batch's tensor.
 *
 * Batch stages may permute the axes ([T, N, C]) and shorten them (fewer columns). So nothing here
 * assumes that a tensor is dense or that its rows are its first dimension.
 */
#include "bench/common/bench_row.h"

#include <string.h>

#define LINE_BYTES 64

/* ---- Blocks of memory ------------------------------------------------------------------------ */

/* Dimensions from the widest stride to the narrowest; those that continue one another are
 * merged. */
typedef struct walk {
    int32_t n_dims;
    int64_t dims[ITER_MAX_DIMS], strides[ITER_MAX_DIMS];
} walk;

static walk walk_of(const iter_tensor *tensor) {
    walk w = {0};
    for (int32_t i = 0; i < tensor->desc.n_dims; i++) {
        int64_t dim = tensor->desc.dims[i], stride = tensor->strides[i];
        if (dim == 1) continue;
        int32_t at = w.n_dims++;
        for (; at > 0 && w.strides[at - 1] < stride; at--) {
            w.dims[at] = w.dims[at - 1];
            w.strides[at] = w.strides[at - 1];
        }
        w.dims[at] = dim;
        w.strides[at] = stride;
    }
    for (int32_t i = w.n_dims - 1; i > 0; i--)
        if (w.strides[i - 1] == w.strides[i] * w.dims[i]) {
            w.dims[i - 1] *= w.dims[i];
            w.strides[i - 1] = w.strides[i];
            memmove(&w.dims[i], &w.dims[i + 1], (size_t)(w.n_dims - i - 1) * sizeof(w.dims[0]));
            memmove(&w.strides[i], &w.strides[i + 1],
                    (size_t)(w.n_dims - i - 1) * sizeof(w.strides[0]));
            w.n_dims--;
        }
    return w;
}

static uint64_t touch_block(const uint8_t *data, size_t bytes) {
    uint64_t sum = 0;
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        sum += *(const volatile uint8_t *)(data + at);
    if (bytes > 0) sum += *(const volatile uint8_t *)(data + bytes - 1);
    return sum;
}

static uint64_t touch_dims(const walk *w, int32_t dim, const uint8_t *data, size_t element_bytes) {
    if (dim == w->n_dims) return touch_block(data, element_bytes);
    if (dim == w->n_dims - 1 && w->strides[dim] == 1)
        return touch_block(data, (size_t)w->dims[dim] * element_bytes);
    uint64_t sum = 0;
    for (int64_t i = 0; i < w->dims[dim]; i++)
        sum += touch_dims(w, dim + 1, data + (size_t)(i * w->strides[dim]) * element_bytes,
                          element_bytes);
    return sum;
}

static uint8_t *copy_dims(const bench_row *row, int32_t dim, const uint8_t *data, uint8_t *out) {
    if (dim == row->n_dims) {
        memcpy(out, data, row->element_bytes);
        return out + row->element_bytes;
    }
    if (dim == row->n_dims - 1 && row->strides[dim] == 1) {
        size_t bytes = (size_t)row->dims[dim] * row->element_bytes;
        memcpy(out, data, bytes);
        return out + bytes;
    }
    for (int64_t i = 0; i < row->dims[dim]; i++)
        out = copy_dims(row, dim + 1, data + (size_t)(i * row->strides[dim]) * row->element_bytes,
                        out);
    return out;
}

/* ---- Public ---------------------------------------------------------------------------------- */

int32_t bench_row_dim(const iter_desc *desc) {
    const char *letter = strchr(desc->layout, 'N');
    int32_t dim = letter != NULL ? (int32_t)(letter - desc->layout) : 0;
    return dim < desc->n_dims ? dim : 0;
}

bench_row bench_row_at(const iter_tensor *tensor, int64_t i, const int32_t *lengths) {
    bench_row row = {.dtype = tensor->desc.dtype,
                     .element_bytes = iter_dtype_bytes(tensor->desc.dtype)};
    int32_t batch = bench_row_dim(&tensor->desc);
    row.data =
        (const uint8_t *)tensor->data + (size_t)(i * tensor->strides[batch]) * row.element_bytes;
    for (int32_t d = 0; d < tensor->desc.n_dims; d++)
        if (d != batch) {
            row.dims[row.n_dims] = tensor->desc.dims[d];
            row.strides[row.n_dims++] = tensor->strides[d];
        }
    if (lengths != NULL && row.n_dims > 0 && (row.dims[0] < 0 || lengths[i] < row.dims[0]))
        row.dims[0] = lengths[i];
    return row;
}

size_t bench_row_bytes(const bench_row *row) {
    size_t bytes = row->element_bytes;
    for (int32_t i = 0; i < row->n_dims; i++)
        bytes *= (size_t)row->dims[i];
    return bytes;
}

bool bench_row_dense(const bench_row *row) {
    int64_t want = 1;
    for (int32_t i = row->n_dims - 1; i >= 0; i--) {
        if (row->dims[i] != 1 && row->strides[i] != want) return false;
        want *= row->dims[i];
    }
    return true;
}

void bench_row_copy(const bench_row *row, uint8_t *out) {
    size_t bytes = bench_row_bytes(row);
    if (bytes == 0) return;
    if (bench_row_dense(row))
        memcpy(out, row->data, bytes);
    else
        copy_dims(row, 0, row->data, out);
}

uint64_t bench_tensor_touch(const iter_tensor *tensor) {
    if (tensor->data == NULL || iter_desc_elements(&tensor->desc) == 0) return 0;
    walk w = walk_of(tensor);
    return touch_dims(&w, 0, tensor->data, iter_dtype_bytes(tensor->desc.dtype));
}
