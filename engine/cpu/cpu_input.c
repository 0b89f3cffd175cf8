/*
 * cpu_input.c - a batch's data in the form of the plan's first place: f32, dense, all rows.
 *
 * If the data already has that form, it is used where it is. Otherwise it is copied, value by value
 * if strides or dtype require it. Rows that a short batch lacks are zero.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/cpu_parallel.h"
#include "engine/narrow_floats.h"

/* Floats from one index to the next, for rows and for the dims of a row. Missing dims are 1; the
 * dims of a sequence are 1, T, F. */
typedef struct copy {
    const iter_tensor *data;
    int64_t n_rows, dims[3];
    int64_t from_row, from[3];
    int64_t to_row, steps[3];
    float *to;
} copy;

static float value_at(const iter_tensor *data, int64_t at) {
    switch (data->desc.dtype) {
    case ITER_U8: return ((const uint8_t *)data->data)[at];
    case ITER_F16: return engine_from_f16(((const uint16_t *)data->data)[at]);
    case ITER_BF16: return engine_from_bf16(((const uint16_t *)data->data)[at]);
    case ITER_F64: return (float)((const double *)data->data)[at];
    default: return ((const float *)data->data)[at];
    }
}

/* Strides of dense [n_rows, dims] or, if steps come first, of [1, T, n_rows, F]. */
static void dense_strides(const copy *c, int64_t n_rows, bool steps_first, int64_t *row,
                          int64_t strides[3]) {
    strides[2] = 1;
    strides[1] = steps_first ? n_rows * c->dims[2] : c->dims[2];
    strides[0] = c->dims[1] * c->dims[2];
    *row = steps_first ? c->dims[2] : c->dims[0] * c->dims[1] * c->dims[2];
}

/* A row's dims in the order of the data's layout, without N. */
static copy describe(const cpu_place *place, const engine_batch *batch, float *to) {
    const iter_tensor *data = batch->data;
    const int32_t rows = iter__net_batch_dim(&data->desc);
    copy c = {.data = data,
              .n_rows = batch->n_rows,
              .dims = {1, 1, 1},
              .from_row = data->strides[rows],
              .to = to};
    for (int32_t d = 0, at = 4 - data->desc.n_dims; d < data->desc.n_dims; d++) {
        if (d == rows) continue;
        c.dims[at] = data->desc.dims[d];
        c.from[at++] = data->strides[d];
    }
    dense_strides(&c, place->image.n, place->shape.n_dims == 2, &c.to_row, c.steps);
    return c;
}

/* True if the data is dense f32 and in the place's order. */
static bool is_wanted(const copy *c, const cpu_place *place) {
    int64_t row, strides[3];
    dense_strides(c, c->n_rows, place->shape.n_dims == 2, &row, strides);
    bool same = c->data->desc.dtype == ITER_F32 && (c->n_rows <= 1 || c->from_row == row);
    for (int i = 0; i < 3; i++)
        same &= c->dims[i] <= 1 || c->from[i] == strides[i];
    return same;
}

static void copy_part(void *user, uint32_t t, uint32_t threads) {
    const copy *c = user;
    const bool whole = c->data->desc.dtype == ITER_F32 && c->from[2] == 1;
    const int64_t end = iter__cpu_part(c->n_rows, t + 1, threads);
    for (int64_t row = iter__cpu_part(c->n_rows, t, threads); row < end; row++)
        for (int64_t i = 0; i < c->dims[0]; i++)
            for (int64_t j = 0; j < c->dims[1]; j++) {
                const int64_t at = row * c->from_row + i * c->from[0] + j * c->from[1];
                float *to = c->to + row * c->to_row + i * c->steps[0] + j * c->steps[1];
                if (whole) {
                    memcpy(to, (const float *)c->data->data + at,
                           (size_t)c->dims[2] * sizeof(float));
                    continue;
                }
                for (int64_t k = 0; k < c->dims[2]; k++)
                    to[k] = value_at(c->data, at + k * c->from[2]);
            }
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const float *iter__cpu_input(cpu_shared *shared, const cpu_place *place, const engine_batch *batch,
                             float *staging) {
    copy c = describe(place, batch, staging);
    const bool wanted = is_wanted(&c, place);
    if (wanted && batch->n_rows == shared->net->batch) return batch->data->data;
    const double before = seconds_now();
    if (batch->n_rows < shared->net->batch)
        memset(staging, 0, (size_t)place->n_elements * sizeof(float));
    iter__cpu_parallel(iter__cpu_worth(place->n_elements, shared->threads), copy_part, &c);
    if (wanted) return staging;
    shared->n_converted++;
    shared->convert_seconds += seconds_now() - before;
    if (!shared->convert_text[0])
        snprintf(shared->convert_text, sizeof(shared->convert_text), "%s %s to dense f32%s",
                 iter_dtype_text(batch->data->desc.dtype), batch->data->desc.layout,
                 place->shape.n_dims == 2 ? " TNF" : "");
    return staging;
}
