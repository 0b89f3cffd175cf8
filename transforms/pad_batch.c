/*
 * pad_batch.c - rows of different lengths to one length, in place.
 *
 * A slot holds row i of a variable field at i * row capacity. When rows move closer together, the
 * first row moves first; when they move apart, the last one. Either way no row overwrites another
 * one that has not moved yet.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/pack/elements.h"
#include "transforms/token_stages.h"

static const iter_option pad_batch_rows[] = {
    ITER_ROW_INT_OR("to", "length of every row; 0 = the batch's longest", iter_pad_batch_options,
                    to, 0, INT32_MAX, "longest", 1),
    ITER_ROW_INT("multiple", "the longest is rounded up to a multiple of this",
                 iter_pad_batch_options, multiple, 0, 1 << 20, 2),
    ITER_ROW_DOUBLE("value", "what is filled in", iter_pad_batch_options, value, 0, 0, 0),
    ITER_ROW_CHOICE("side", "which end is filled up", iter_pad_batch_options, side, "post|pre"),
    ITER_ROW_END,
};
static const iter_pad_batch_options pad_batch_defaults = ITER_PAD_BATCH_OPTIONS_INIT;

/* Sizes of one batch, in bytes, except length and lengths. */
typedef struct pad_job {
    char *data;
    size_t token; /* one index of dimension 1 */
    size_t old_row, new_row;
    int64_t length; /* of every row, afterwards */
    const int32_t *lengths;
    bool pre;
    size_t element;
    unsigned char value[8]; /* one element */
} pad_job;

static int64_t round_up(int64_t length, int64_t multiple) {
    return multiple > 1 ? (length + multiple - 1) / multiple * multiple : length;
}

/* Whether the type has this value. For a float type a close one is enough. */
static bool has_value(iter_dtype dtype, double value) {
    unsigned char element[8];
    double back = 0;
    if (iter__dtype_is_float(dtype)) return true;
    iter__element_from_f64(dtype, value, element);
    iter__elements_convert(dtype, ITER_F64, ITER__KIND_F64, element, 0, &back, 0, 1, 1, -0.0);
    return back == value;
}

static void fill(const pad_job *job, char *out, size_t bytes) {
    for (size_t i = 0; i < bytes; i += job->element)
        memcpy(out + i, job->value, job->element);
}

static void move_row(const pad_job *job, int64_t i) {
    const size_t bytes = (size_t)job->lengths[i] * job->token;
    const size_t gap = job->new_row - bytes;
    const char *from = job->data + (size_t)i * job->old_row;
    char *to = job->data + (size_t)i * job->new_row;
    memmove(to + (job->pre ? gap : 0), from, bytes);
    fill(job, job->pre ? to : to + bytes, gap);
}

static iter_status pad_batch_plan(const void *options, iter_desc *desc, size_t *out_scratch,
                                  iter_error *err) {
    const iter_pad_batch_options *o = options;
    *out_scratch = 0;
    if (desc->n_dims < 2 || desc->dims[1] != ITER_VARIABLE)
        return iter__fail(err, ITER_EINVAL, "rows of this field are all equally long");
    if (!has_value(desc->dtype, o->value)) {
        return iter__fail(err, ITER_EINVAL, "value=%g is no %s", o->value,
                          iter_dtype_text(desc->dtype));
    }
    if (o->to > 0 && o->multiple > 1)
        return iter__fail(err, ITER_EINVAL, "to and multiple are both given, one is needed");
    if (o->to > 0) {
        desc->dims[1] = o->to;
        desc->capacity = 0;
    } else {
        desc->capacity = round_up(desc->capacity, o->multiple);
    }
    return ITER_OK;
}

static iter_status pad_batch_apply(const void *options, iter_batch_view *view, iter_error *err) {
    const iter_pad_batch_options *o = options;
    iter_tensor *tensor = &view->tensor;
    const int64_t inner = batch_step_elements(&tensor->desc);
    pad_job job = {.data = tensor->data,
                   .element = iter_dtype_bytes(tensor->desc.dtype),
                   .lengths = view->lengths,
                   .pre = o->side == ITER_PAD_PRE};
    iter__element_from_f64(tensor->desc.dtype, o->value, job.value);

    int64_t longest = 0, row = 0;
    for (int64_t i = 0; i < view->n_rows; i++) {
        if (view->lengths[i] > longest) longest = view->lengths[row = i];
    }
    if (o->to > 0 && longest > o->to) {
        return iter__fail(err, ITER_EFORMAT,
                          "row %" PRId64 " has length %" PRId64 ", more than to=%" PRId64, row,
                          longest, o->to);
    }
    job.length = o->to > 0 ? o->to : round_up(longest, o->multiple);
    job.token = (size_t)inner * job.element;
    job.old_row = (size_t)tensor->strides[0] * job.element;
    job.new_row = (size_t)job.length * job.token;
    if (job.new_row > 0 && (size_t)view->n_rows > view->capacity_bytes / job.new_row) {
        return iter__fail(err, ITER_EINVAL,
                          "%" PRId64 " rows of length %" PRId64 " need more than %zu bytes",
                          view->n_rows, job.length, view->capacity_bytes);
    }
    if (job.new_row <= job.old_row) {
        for (int64_t i = 0; i < view->n_rows; i++)
            move_row(&job, i);
    } else {
        for (int64_t i = view->n_rows - 1; i >= 0; i--)
            move_row(&job, i);
    }
    tensor->desc.dims[1] = job.length;
    tensor->desc.capacity = 0;
    tensor->strides[0] = job.length * inner;
    return ITER_OK;
}

const iter_transform_ops iter__transform_pad_batch = {
    .base = STAGE_BASE(pad_batch, "pad-batch",
                       "rows to the length of the batch's longest, or to a fixed one", 0),
    .role = ITER_DATA,
    .plan_batch = pad_batch_plan,
    .apply_batch = pad_batch_apply,
    .fills_rows = 1,
};
