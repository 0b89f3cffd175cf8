/*
 * trainer_check.c - see trainer_check.h.
 *
 * Blanked rows never count. Padding at the end of a padded batch counts in training, as MXNet
 * trains on it, but not in evaluation. Rows that roll_over carried over from the previous epoch
 * come before first_valid; they are real samples, seen once, and always count.
 */
#include "engine/trainer_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_error.h"

#define TEXT_MAX 128

/* Searches by name, then by position. *out_far is the same tensor on the device, or NULL if it is
 * not there. */
static const iter_tensor *find_tensor(const iter_batch *batch, const char *name, int32_t field,
                                      const iter_tensor **out_far) {
    const iter_tensor *tensor = iter_batch_find(batch, name), *at = NULL;
    int32_t i = field;
    if (tensor)
        for (i = 0; (at = iter_batch_tensor(batch, i)) && at != tensor; i++) {
        }
    *out_far = iter_batch_device_tensor(batch, i);
    return tensor ? tensor : iter_batch_tensor(batch, field);
}

/* Same shape as planned, with at most n_rows rows. */
static iter_status check_shape(const iter_desc *got, const iter_desc *plan, int64_t n_rows,
                               const char *what, iter_error *err) {
    const int32_t rows = iter__net_batch_dim(plan);
    iter_desc whole = *plan, *planned = &whole;
    whole.dims[rows] = n_rows;
    bool same = got->dtype == planned->dtype && got->n_dims == planned->n_dims &&
                strcmp(got->layout, planned->layout) == 0;
    for (int32_t i = 0; same && i < got->n_dims; i++)
        same = i == rows ? got->dims[i] <= planned->dims[i] : got->dims[i] == planned->dims[i];
    if (same) return ITER_OK;
    char a[TEXT_MAX], b[TEXT_MAX];
    return iter__engine_fail(err, ITER_EINVAL, "%s: the batch has %s, expected %s", what,
                             iter_desc_text(got, a, sizeof(a)),
                             iter_desc_text(planned, b, sizeof(b)));
}

static int64_t integer_at(const iter_tensor *tensor, int64_t at) {
    switch (tensor->desc.dtype) {
    case ITER_U8: return ((const uint8_t *)tensor->data)[at];
    case ITER_I32: return ((const int32_t *)tensor->data)[at];
    default: return ((const int64_t *)tensor->data)[at];
    }
}

/* The targets of a batch: labels for each step. Counts those of the rows that count. */
static iter_status check_targets(checked_batch *c, const uint8_t *counts, int64_t n_classes,
                                 int64_t *out_counted, iter_error *err) {
    const iter_tensor *label = &c->label;
    *out_counted = 0;
    for (int64_t row = 0; row < c->batch.n_rows; row++)
        for (int64_t t = 0; t < label->desc.dims[1]; t++) {
            const int64_t id = integer_at(label, row * label->strides[0] + t * label->strides[1]);
            if (id == ENGINE_NO_TARGET) continue;
            if (id < 0 || id >= n_classes)
                return iter__engine_fail(
                    err, ITER_EINVAL,
                    "label %" PRId64 " of row %" PRId64 " (sample %" PRIu64 ") is %" PRId64
                    ", the embedding has the rows 0 to %" PRId64 "; %d is not predicted",
                    t, row, iter_batch_index(c->source)[row], id, n_classes - 1, ENGINE_NO_TARGET);
            *out_counted += counts[row];
        }
    return ITER_OK;
}

static iter_status check_classes(const checked_batch *c, int64_t n_classes, iter_error *err) {
    for (int64_t row = 0; row < c->batch.n_rows; row++) {
        const int64_t label = integer_at(&c->label, row * c->label.strides[0]);
        if (label >= 0 && label < n_classes) continue;
        return iter__engine_fail(err, ITER_EINVAL,
                                 "label of row %" PRId64 " (sample %" PRIu64 ") is %" PRId64
                                 ", the model has the classes 0 to %" PRId64,
                                 row, iter_batch_index(c->source)[row], label, n_classes - 1);
    }
    return ITER_OK;
}

/* True if a line of ids lies inside 0 .. rows - 1. Written so that compilers vectorise it. */
static bool line_inside(const iter_tensor *data, int64_t at, int64_t n, int64_t stride,
                        int64_t rows) {
    bool outside = false;
    if (data->desc.dtype == ITER_I32) {
        const int32_t *ids = (const int32_t *)data->data + at;
        for (int64_t i = 0; i < n; i++)
            outside |= (uint32_t)ids[i * stride] >= (uint32_t)rows;
    } else {
        const int64_t *ids = (const int64_t *)data->data + at;
        for (int64_t i = 0; i < n; i++)
            outside |= (uint64_t)ids[i * stride] >= (uint64_t)rows;
    }
    return !outside;
}

static iter_status fail_id(const checked_batch *c, int64_t i, int64_t j, int64_t rows,
                           iter_error *err) {
    const int64_t *strides = c->data.strides;
    const bool time_first = iter__net_batch_dim(&c->data.desc) == 1;
    const int64_t row = time_first ? j : i, step = time_first ? i : j;
    return iter__engine_fail(err, ITER_EINVAL,
                             "id %" PRId64 " of row %" PRId64 " (sample %" PRIu64 ") is %" PRId64
                             ", the embedding has the rows 0 to %" PRId64,
                             step, row, iter_batch_index(c->source)[row],
                             integer_at(&c->data, i * strides[0] + j * strides[1]), rows - 1);
}

static iter_status check_ids(const checked_batch *c, int64_t rows, iter_error *err) {
    const int64_t *dims = c->data.desc.dims, *strides = c->data.strides;
    for (int64_t i = 0; i < dims[0]; i++) {
        if (line_inside(&c->data, i * strides[0], dims[1], strides[1], rows)) continue;
        for (int64_t j = 0; j < dims[1]; j++)
            if (!line_inside(&c->data, i * strides[0] + j * strides[1], 1, 1, rows))
                return fail_id(c, i, j, rows, err);
    }
    return ITER_OK;
}

/* Fills `counts`; returns how many rows count. */
static int64_t count_rows(iter_trainer *trainer, const checked_batch *c, bool training) {
    const uint8_t *valid = iter_batch_valid(c->source);
    const int64_t n_real = training ? c->info.n_rows : c->info.first_valid + c->info.n_valid;
    int64_t n = 0;
    for (int64_t i = 0; i < c->batch.n_rows; i++) {
        trainer->counts[i] = valid[i] && i < n_real;
        n += trainer->counts[i];
    }
    return n;
}

static iter_status check_segments(const iter_trainer *trainer, const iter_batch *batch,
                                  checked_batch *out, iter_error *err) {
    const iter_tensor *far,
        *found = find_tensor(batch, ENGINE_SEGMENTS, trainer->segments_field, &far);
    char text[TEXT_MAX];
    const int64_t rows = out->batch.n_rows, steps = trainer->net.input.dims[0];
    if (!found || !found->data)
        return iter__engine_fail(err, ITER_EINVAL, "the batch has no %s in host memory",
                                 ENGINE_SEGMENTS);
    out->segments = *found;
    const iter_desc *desc = &found->desc;
    if (desc->dtype == ITER_I32 && desc->n_dims == 2 && desc->dims[0] == rows &&
        desc->dims[1] == steps)
        return ITER_OK;
    return iter__engine_fail(
        err, ITER_EINVAL, "%s: the batch has %s, expected i32 [%" PRId64 ", %" PRId64 "]",
        ENGINE_SEGMENTS, iter_desc_text(desc, text, sizeof(text)), rows, steps);
}

iter_status iter__check_data(iter_trainer *trainer, const iter_batch *batch, checked_batch *out,
                             iter_error *err) {
    const engine_net *net = &trainer->net;
    const iter_tensor *far,
        *data = find_tensor(batch, trainer->data_name, trainer->data_field, &far);
    *out = (checked_batch){.source = batch, .info = iter_batch_describe(batch)};
    if (!data) return iter__engine_fail(err, ITER_EINVAL, "the batch has no data");
    out->is_far = trainer->ops->on_device && far;
    if (!out->is_far && !data->data)
        return iter__engine_fail(
            err, ITER_EUNSUPPORTED,
            "the batch is on a device alone, where backend %s does not read it: "
            "the cuda backend does, and so does any with ITER_MEMORY_HOST",
            trainer->ops->name);
    out->data = *data;
    out->far_data = out->is_far ? *far : *data;
    iter__net_view_data(&out->data);
    iter__net_view_data(&out->far_data);
    ENGINE_TRY(check_shape(&out->far_data.desc, &net->data, trainer->batch, "data", err));
    out->batch.n_rows = out->far_data.desc.dims[iter__net_batch_dim(&net->data)];
    if (out->batch.n_rows != (int64_t)out->info.n_rows)
        return iter__engine_fail(err, ITER_EINVAL,
                                 "data: the batch has %u rows, its tensor %" PRId64,
                                 out->info.n_rows, out->batch.n_rows);
    if (net->input.ids && out->data.data)
        ENGINE_TRY(check_ids(out, net->layers[0].options.embedding.rows, err));
    return net->segments ? check_segments(trainer, batch, out, err) : ITER_OK;
}

iter_status iter__check_batch(iter_trainer *trainer, const iter_batch *batch, bool training,
                              checked_batch *out, iter_error *err) {
    const engine_net *net = &trainer->net;
    const engine_kind loss = net->layers[net->n_layers - 1].kind;
    ENGINE_TRY(iter__check_data(trainer, batch, out, err));
    const iter_tensor *far,
        *label = find_tensor(batch, trainer->label_name, trainer->label_field, &far);
    if (!label || (out->is_far && !far))
        return iter__engine_fail(err, ITER_EINVAL, "the batch has no label");
    out->label = *label;
    out->far_label = out->is_far ? *far : *label;
    iter__net_view_label(loss, &out->label);
    iter__net_view_label(loss, &out->far_label);
    ENGINE_TRY(check_shape(&out->far_label.desc, &net->label, trainer->batch, "label", err));
    if (out->far_label.desc.dims[0] != out->batch.n_rows)
        return iter__engine_fail(err, ITER_EINVAL, "label: %" PRId64 " rows, the data has %" PRId64,
                                 out->far_label.desc.dims[0], out->batch.n_rows);
    if (loss == ENGINE_SOFTMAX_CROSS_ENTROPY && out->label.data)
        ENGINE_TRY(check_classes(out, net->n_classes, err));
    out->batch.n_counted = count_rows(trainer, out, training);
    return loss == ENGINE_TIED_SOFTMAX
               ? check_targets(out, trainer->counts, net->n_classes, &out->batch.n_counted, err)
               : ITER_OK;
}
