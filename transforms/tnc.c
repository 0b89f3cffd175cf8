/*
 * tnc.c - [N, T, ...] to [T, N, ...], the order in which recurrent networks read.
 *
 * The transposition goes through scratch, because in place it would jump all over the batch. Steps
 * of 4 and 8 bytes, the sizes of most ids, have loops of their own.
 */
#include <inttypes.h>
#include <string.h>

#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/token_stages.h"

/* out[t][i] = in[i][t]; rows are `row` bytes apart. */
static void transpose(const char *in, size_t row, char *out, int64_t n_rows, int64_t n_steps,
                      size_t step) {
    for (int64_t t = 0; t < n_steps; t++) {
        const char *from = in + (size_t)t * step;
        char *to = out + (size_t)t * (size_t)n_rows * step;
        if (step == 4) {
            for (int64_t i = 0; i < n_rows; i++)
                memcpy(to + (size_t)i * 4, from + (size_t)i * row, 4);
        } else if (step == 8) {
            for (int64_t i = 0; i < n_rows; i++)
                memcpy(to + (size_t)i * 8, from + (size_t)i * row, 8);
        } else {
            for (int64_t i = 0; i < n_rows; i++)
                memcpy(to + (size_t)i * step, from + (size_t)i * row, step);
        }
    }
}

static iter_status tnc_plan(const void *options, iter_desc *desc, size_t *out_scratch,
                            iter_error *err) {
    (void)options;
    if (desc->n_dims < 2)
        return iter__fail(err, ITER_EINVAL, "needs samples with a dimension, not single numbers");
    if (desc->dims[0] < 0)
        return iter__fail(err, ITER_EINVAL, "stands twice; the batch is [T, N, ...] already");
    const int64_t steps = desc->dims[1] == ITER_VARIABLE ? desc->capacity : desc->dims[1];
    *out_scratch =
        (size_t)(desc->dims[0] * steps * batch_step_elements(desc)) * iter_dtype_bytes(desc->dtype);
    const int64_t rows = desc->dims[0];
    desc->dims[0] = desc->dims[1];
    desc->dims[1] = rows;
    if (desc->layout[0] && desc->layout[1]) {
        const char letter = desc->layout[0];
        desc->layout[0] = desc->layout[1];
        desc->layout[1] = letter;
    }
    return ITER_OK;
}

static iter_status tnc_apply(const void *options, iter_batch_view *view, iter_error *err) {
    iter_tensor *tensor = &view->tensor;
    const int64_t n_rows = tensor->desc.dims[0], n_steps = tensor->desc.dims[1];
    const int64_t inner = batch_step_elements(&tensor->desc);
    const size_t element = iter_dtype_bytes(tensor->desc.dtype), step = (size_t)inner * element;
    (void)options, (void)err;
    transpose(tensor->data, (size_t)tensor->strides[0] * element, view->scratch, n_rows, n_steps,
              step);
    memcpy(tensor->data, view->scratch, (size_t)(n_rows * n_steps) * step);
    tensor->desc.dims[0] = n_steps; /* plan has already set the layout */
    tensor->desc.dims[1] = n_rows;
    tensor->strides[0] = n_rows * inner;
    tensor->strides[1] = inner;
    return ITER_OK;
}

const iter_transform_ops iter__transform_tnc = {
    .base = {.struct_size = sizeof(iter_transform_ops),
             .name = "tnc",
             .help = "[N, T, ...] to [T, N, ...]"},
    .role = ITER_DATA,
    .plan_batch = tnc_plan,
    .apply_batch = tnc_apply,
};
