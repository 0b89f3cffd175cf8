/*
 * reference_body.h - a backend of naive loops, for REAL = float (backend_reference.c) and REAL =
 * double (backend_reference_f64.c), which define REAL, REAL_DTYPE, REAL_TEXT and BACKEND_NAME.
 *
 * Other backends are tested against it; it is itself tested against central differences and the
 * results of other programs. So each formula is written once, in the usual order of terms. Every
 * layer has its own input and output; nothing is fused, and nothing runs in parallel. Batches of
 * any layout and stride are first copied into the net's own form [rows, C, H, W], [rows, T, F].
 */
#ifndef ENGINE_REFERENCE_REFERENCE_BODY_H
#define ENGINE_REFERENCE_REFERENCE_BODY_H

#include <stdio.h>
#include <time.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"
#include "engine/narrow_floats.h"
#include "engine/reference/reference_gru.h"
#include "engine/reference/reference_images.h"
#include "engine/reference/reference_layers.h"

typedef struct reference_state {
    engine_backend_config config;
    const engine_net *net;
    /* values[i] is the input of layer i, d_values[i] its gradient of the loss. The last ones are
     * the outputs before the loss. NULL: token ids, or a gradient that is not needed. */
    REAL *values[ENGINE_MAX_LAYERS], *d_values[ENGINE_MAX_LAYERS];
    REAL *kept[ENGINE_MAX_LAYERS];
    int64_t *ids;      /* [batch, T] if the net begins with ids */
    int32_t *segments; /* [batch, T] if the net has them */
    /* Of a tied loss: logits of one step and their gradient, [2, classes]; gradients of the
     * embedding's weight and of the bias. */
    REAL *logits;
    double *tied, *tied_bias;
    REAL *weights[ENGINE_MAX_PARAMS], *gradients[ENGINE_MAX_PARAMS];
    REAL *moments[2][ENGINE_MAX_PARAMS];
    double *sums;
    int64_t n_gradient_rows; /* of the last run that computed gradients */
    bool has_gradient;
    uint64_t n_bytes, n_converted;
    double convert_seconds;
} reference_state;

/* ---- Batches in ------------------------------------------------------------------------------ */

static double load_number(const iter_tensor *tensor, int64_t at) {
    switch (tensor->desc.dtype) {
    case ITER_U8: return ((const uint8_t *)tensor->data)[at];
    case ITER_I32: return ((const int32_t *)tensor->data)[at];
    case ITER_I64: return (double)((const int64_t *)tensor->data)[at];
    case ITER_F16: return (double)engine_from_f16(((const uint16_t *)tensor->data)[at]);
    case ITER_BF16: return (double)engine_from_bf16(((const uint16_t *)tensor->data)[at]);
    case ITER_F32: return (double)((const float *)tensor->data)[at];
    default: return ((const double *)tensor->data)[at];
    }
}

/* The dimensions of one row in the order of the net's shapes: C, H, W even if C comes last. */
static int32_t row_dims(const iter_desc *desc, int32_t batch_dim, bool channels_last,
                        int32_t dims[ITER_MAX_DIMS]) {
    int32_t n = 0;
    for (int32_t d = 0; d < desc->n_dims; d++)
        if (d != batch_dim) dims[n++] = d;
    if (channels_last && n == 3) {
        const int32_t channels = dims[2];
        dims[2] = dims[1];
        dims[1] = dims[0];
        dims[0] = channels;
    }
    return n;
}

/* Position of element e of row `row` in a batch with this description. */
static int64_t place_of(const engine_net *net, const iter_desc *desc, const int64_t *strides,
                        int64_t row, int64_t e) {
    int32_t dims[ITER_MAX_DIMS];
    const int32_t batch_dim = iter__net_batch_dim(&net->data);
    int64_t at = row * strides[batch_dim];
    for (int32_t i = row_dims(desc, batch_dim, iter__net_channels_last(net), dims) - 1; i >= 0;
         i--) {
        at += e % desc->dims[dims[i]] * strides[dims[i]];
        e /= desc->dims[dims[i]];
    }
    return at;
}

static bool is_converted(const engine_net *net) {
    return iter__net_channels_last(net) || iter__net_time_first(net);
}

static void read_data(reference_state *s, const engine_batch *batch) {
    const engine_net *net = s->net;
    const int64_t n = iter__shape_elements(&net->input);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int64_t row = 0; row < batch->n_rows; row++)
        for (int64_t e = 0; e < n; e++) {
            const double value = load_number(
                batch->data, place_of(net, &batch->data->desc, batch->data->strides, row, e));
            if (s->ids)
                s->ids[row * n + e] = (int64_t)value;
            else
                s->values[0][row * n + e] = (REAL)value;
        }
    const int64_t steps = net->input.dims[0];
    for (int64_t i = 0; s->segments && i < batch->n_rows * steps; i++)
        s->segments[i] =
            (int32_t)load_number(batch->segments, i / steps * batch->segments->strides[0] +
                                                      i % steps * batch->segments->strides[1]);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (!is_converted(net)) return;
    s->n_converted++;
    s->convert_seconds +=
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

/* Feature f of a row's label. If a label has one feature, it may have one dimension. */
static double load_label(const iter_tensor *label, int64_t row, int64_t f) {
    int64_t at = row * label->strides[0];
    for (int32_t d = label->desc.n_dims - 1; d > 0; d--) {
        at += f % label->desc.dims[d] * label->strides[d];
        f /= label->desc.dims[d];
    }
    return load_number(label, at);
}

/* ---- Losses: of one row, and the gradient of the mean by its outputs ------------------------- */

static double cross_entropy_row(const REAL *outputs, int64_t n, int64_t label, double share,
                                REAL *d_outputs) {
    double top = (double)outputs[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        if ((double)outputs[i] > top) top = (double)outputs[i];
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)outputs[i] - top);
    for (int64_t i = 0; i < n && d_outputs; i++)
        d_outputs[i] = (REAL)((exp((double)outputs[i] - top) / sum - (i == label ? 1 : 0)) * share);
    return log(sum) + top - (double)outputs[label];
}

/* Returns factor * mean of the squared differences. */
static double squared_row(const REAL *outputs, int64_t n, const iter_tensor *label, int64_t row,
                          double factor, double share, REAL *d_outputs) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double difference = (double)outputs[i] - load_label(label, row, i);
        sum += difference * difference;
        if (d_outputs) d_outputs[i] = (REAL)(2 * factor * difference / (double)n * share);
    }
    return factor * sum / (double)n;
}

static int64_t first_largest(const REAL *outputs, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (outputs[i] > outputs[best]) best = i;
    return best;
}

/* One step of a row: h [units] is its state, `d_h` where its gradient goes, NULL = not needed. */
static void tied_step(reference_state *s, const REAL *h, int64_t label, double share, REAL *d_h,
                      engine_outcome *out) {
    const engine_layer *loss = &s->net->layers[s->net->n_layers - 1];
    const int64_t units = loss->in.dims[1], n = s->net->n_classes;
    const REAL *weight = s->weights[0], *bias = s->weights[loss->first_param];
    REAL *logits = s->logits, *d = logits + n;
    for (int64_t k = 0; k < n; k++)
        logits[k] = (REAL)((double)bias[k] + dot(weight + k * units, h, units));
    out->loss_sum += cross_entropy_row(logits, n, label, share, d_h ? d : NULL);
    out->n_correct += first_largest(logits, n) == label;
    if (!d_h) return;
    memset(s->sums, 0, (size_t)units * sizeof(*s->sums));
    for (int64_t k = 0; k < n; k++) {
        add_scaled(s->sums, (double)d[k], weight + k * units, units);
        add_scaled(s->tied + k * units, (double)d[k], h, units);
        s->tied_bias[k] += (double)d[k];
    }
    round_sums(d_h, s->sums, units);
}

/* The loss over the steps that have a label. */
static void run_tied(reference_state *s, const engine_batch *batch, bool gradient,
                     engine_outcome *out) {
    const int32_t last = s->net->n_layers - 1;
    const engine_layer *loss = &s->net->layers[last];
    const int64_t steps = loss->in.dims[0], units = loss->in.dims[1], n = s->net->n_classes;
    const double share = batch->n_counted > 0 ? 1 / (double)batch->n_counted : 0;
    memset(s->tied, 0, (size_t)(n * units) * sizeof(*s->tied));
    memset(s->tied_bias, 0, (size_t)n * sizeof(*s->tied_bias));
    for (int64_t i = 0; i < batch->n_rows * steps; i++) {
        REAL *d_h = gradient ? s->d_values[last] + i * units : NULL;
        const int64_t label = (int64_t)load_label(batch->label, i / steps, i % steps);
        if (d_h) memset(d_h, 0, (size_t)units * sizeof(*d_h));
        if (batch->counts[i / steps] && label != ENGINE_NO_TARGET)
            tied_step(s, s->values[last] + i * units, label, share, d_h, out);
    }
    if (gradient) round_sums(s->gradients[loss->first_param], s->tied_bias, n);
}

static void run_loss(reference_state *s, const engine_batch *batch, bool gradient,
                     engine_outcome *out) {
    if (s->tied) {
        run_tied(s, batch, gradient, out);
        return;
    }
    const int32_t last = s->net->n_layers - 1;
    const engine_kind kind = s->net->layers[last].kind;
    const int64_t n = s->net->n_outputs;
    const double share = batch->n_counted > 0 ? 1 / (double)batch->n_counted : 0;
    for (int64_t row = 0; row < batch->n_rows; row++) {
        const REAL *outputs = s->values[last] + row * n;
        REAL *d_outputs = gradient && s->d_values[last] ? s->d_values[last] + row * n : NULL;
        if (!batch->counts[row]) {
            if (d_outputs) memset(d_outputs, 0, (size_t)n * sizeof(REAL));
        } else if (kind == ENGINE_SOFTMAX_CROSS_ENTROPY) {
            const int64_t label = (int64_t)load_label(batch->label, row, 0);
            out->loss_sum += cross_entropy_row(outputs, n, label, share, d_outputs);
            out->n_correct += first_largest(outputs, n) == label;
        } else {
            out->loss_sum += squared_row(outputs, n, batch->label, row, kind == ENGINE_L2 ? 0.5 : 1,
                                         share, d_outputs);
        }
    }
}

/* ---- Layers forward and backward ------------------------------------------------------------- */

static const struct {
    void (*forward)(const layer_work *work);
    void (*backward)(const layer_work *work);
} layer_calls[ENGINE_SOFTMAX_CROSS_ENTROPY] = {
    [ENGINE_CONV2D] = {conv_forward, conv_backward},
    [ENGINE_MAXPOOL] = {pool_forward, pool_backward},
    [ENGINE_AVGPOOL] = {pool_forward, pool_backward},
    [ENGINE_RELU] = {relu_forward, relu_backward},
    [ENGINE_TANH] = {tanh_forward, tanh_backward},
    [ENGINE_SIGMOID] = {sigmoid_forward, sigmoid_backward},
    [ENGINE_DROPOUT] = {dropout_forward, dropout_backward},
    [ENGINE_FLATTEN] = {flatten_forward, flatten_backward},
    [ENGINE_DENSE] = {dense_forward, dense_backward},
    [ENGINE_EMBEDDING] = {embedding_forward, embedding_backward},
    [ENGINE_GRU] = {gru_forward, gru_backward},
    [ENGINE_LAST_STEP] = {last_step_forward, last_step_backward},
    [ENGINE_MEAN_STEPS] = {mean_steps_forward, mean_steps_backward},
};

static layer_work work_of(const reference_state *s, int32_t i, const engine_batch *batch,
                          engine_run what) {
    const engine_layer *layer = &s->net->layers[i];
    layer_work work = {.layer = layer,
                       .n_rows = batch->n_rows,
                       .in = s->values[i],
                       .ids = s->ids,
                       .tied = s->tied,
                       .out = s->values[i + 1],
                       .d_out = s->d_values[i + 1],
                       .d_in = s->d_values[i],
                       .kept = s->kept[i],
                       .sums = s->sums,
                       .first_row = batch->first_row,
                       .step = batch->step,
                       .training = what != ENGINE_RUN_FORWARD};
    if (layer->kind == ENGINE_GRU && layer->options.gru.segments) work.segments = s->segments;
    for (int32_t p = 0; p < layer->n_params; p++) {
        work.weights[p] = s->weights[layer->first_param + p];
        work.gradients[p] = s->gradients[layer->first_param + p];
    }
    return work;
}

static void run_forward(reference_state *s, const engine_batch *batch, engine_run what) {
    for (int32_t i = 0; i < s->net->n_layers - 1; i++) {
        const layer_work work = work_of(s, i, batch, what);
        layer_calls[work.layer->kind].forward(&work);
    }
}

static void run_backward(reference_state *s, const engine_batch *batch, engine_run what) {
    for (int32_t i = s->net->n_layers - 2; i >= 0; i--) {
        const layer_work work = work_of(s, i, batch, what);
        if (work.d_in || work.layer->n_params > 0) layer_calls[work.layer->kind].backward(&work);
    }
    s->has_gradient = true;
    s->n_gradient_rows = batch->n_rows;
}

/* ---- Updates (engine/optimizer.h has the formulas) ------------------------------------------- */

static void update_sgd(const engine_optimizer *o, double lr, double decay, int64_t n, REAL *weights,
                       const REAL *gradients, REAL *moments) {
    for (int64_t i = 0; i < n; i++) {
        const double g = (double)gradients[i] + decay * (double)weights[i];
        const double m = (moments ? o->momentum * (double)moments[i] : 0) - lr * g;
        if (moments) moments[i] = (REAL)m;
        weights[i] = (REAL)((double)weights[i] + m);
    }
}

static void update_adam(const engine_optimizer *o, double rate, double decay, int64_t n,
                        REAL *weights, const REAL *gradients, REAL *first, REAL *second) {
    for (int64_t i = 0; i < n; i++) {
        const double g = (double)gradients[i] + decay * (double)weights[i];
        const double m = o->beta1 * (double)first[i] + (1 - o->beta1) * g;
        const double v = o->beta2 * (double)second[i] + (1 - o->beta2) * g * g;
        first[i] = (REAL)m;
        second[i] = (REAL)v;
        weights[i] = (REAL)((double)weights[i] - rate * m / (sqrt(v) + o->epsilon));
    }
}

/* gradients: [n_params] */
static void run_update(reference_state *s, const engine_batch *batch,
                       const REAL *const *gradients) {
    const engine_optimizer *o = s->config.optimizer;
    const double t = (double)batch->step + 1;
    const double rate = batch->lr * sqrt(1 - pow(o->beta2, t)) / (1 - pow(o->beta1, t));
    for (int32_t p = 0; p < s->net->n_params; p++) {
        const engine_param *param = &s->net->params[p];
        const double decay = param->bias ? 0 : o->weight_decay;
        if (o->kind == ENGINE_SGD)
            update_sgd(o, batch->lr, decay, param->n_elements, s->weights[p], gradients[p],
                       s->moments[0][p]);
        else
            update_adam(o, rate, decay, param->n_elements, s->weights[p], gradients[p],
                        s->moments[0][p], s->moments[1][p]);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Allocates n elements for *slot, which reference_destroy() frees. */
static bool take(reference_state *s, void *slot, int64_t n, size_t size) {
    void *block = iter__engine_alloc((size_t)n, size);
    memcpy(slot, &block, sizeof(block));
    if (block) s->n_bytes += (uint64_t)n * size;
    return block != NULL;
}

static int64_t sum_elements(const engine_net *net) {
    int64_t n = 1;
    for (int32_t p = 0; p < net->n_params; p++)
        n = larger(n, net->params[p].n_elements);
    for (int32_t i = 0; i < net->n_layers; i++) {
        const engine_layer *layer = &net->layers[i];
        for (int32_t d = 0; d < 3; d++) {
            if (d < layer->in.n_dims) n = larger(n, layer->in.dims[d]);
            if (d < layer->out.n_dims) n = larger(n, layer->out.dims[d]);
        }
        if (layer->kind == ENGINE_GRU) n = larger(n, gru_sums(layer));
    }
    return n;
}

static bool take_values(reference_state *s) {
    const engine_net *net = s->net;
    const int64_t n_input = net->batch * iter__shape_elements(&net->input);
    bool ok = take(s, &s->sums, sum_elements(net), sizeof(double));
    if (net->input.ids)
        ok = ok && take(s, &s->ids, n_input, sizeof(int64_t));
    else
        ok = ok && take(s, &s->values[0], n_input, sizeof(REAL));
    if (net->segments) ok = ok && take(s, &s->segments, n_input, sizeof(*s->segments));
    if (net->layers[net->n_layers - 1].kind == ENGINE_TIED_SOFTMAX)
        ok = ok && take(s, &s->logits, 2 * net->n_classes, sizeof(REAL)) &&
             take(s, &s->tied, net->params[0].n_elements, sizeof(double)) &&
             take(s, &s->tied_bias, net->n_classes, sizeof(double));
    if (s->config.keep_input_gradient && !net->input.ids)
        ok = ok && take(s, &s->d_values[0], n_input, sizeof(REAL));
    for (int32_t i = 0; i < net->n_layers - 1; i++) {
        const engine_layer *layer = &net->layers[i];
        const int64_t n = net->batch * iter__shape_elements(&layer->out);
        ok = ok && take(s, &s->values[i + 1], n, sizeof(REAL)) &&
             take(s, &s->d_values[i + 1], n, sizeof(REAL));
        if (layer->kind == ENGINE_GRU)
            ok = ok && take(s, &s->kept[i], gru_kept(layer, net->batch), sizeof(REAL));
    }
    return ok;
}

static bool take_params(reference_state *s) {
    const int32_t n_moments = iter__optimizer_n_moments(s->config.optimizer);
    bool ok = true;
    for (int32_t p = 0; p < s->net->n_params; p++) {
        const int64_t n = s->net->params[p].n_elements;
        ok = ok && take(s, &s->weights[p], n, sizeof(REAL)) &&
             take(s, &s->gradients[p], n, sizeof(REAL));
        for (int32_t m = 0; m < n_moments; m++)
            ok = ok && take(s, &s->moments[m][p], n, sizeof(REAL));
    }
    return ok;
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static const char *reference_layout(const engine_net *net, int32_t precision) {
    (void)precision;
    return net->input.ids ? "nt" : net->input.n_dims == 3 ? "nchw" : "";
}

static void reference_destroy(void *state) {
    reference_state *s = state;
    iter__engine_free(s->sums);
    iter__engine_free(s->ids);
    iter__engine_free(s->segments);
    iter__engine_free(s->logits);
    iter__engine_free(s->tied);
    iter__engine_free(s->tied_bias);
    for (int32_t i = 0; i < ENGINE_MAX_LAYERS; i++) {
        iter__engine_free(s->values[i]);
        iter__engine_free(s->d_values[i]);
        iter__engine_free(s->kept[i]);
    }
    for (int32_t p = 0; p < ENGINE_MAX_PARAMS; p++) {
        iter__engine_free(s->weights[p]);
        iter__engine_free(s->gradients[p]);
        iter__engine_free(s->moments[0][p]);
        iter__engine_free(s->moments[1][p]);
    }
}

static iter_status reference_create(void *state, const engine_backend_config *config,
                                    iter_error *err) {
    reference_state *s = state;
    s->config = *config;
    s->net = config->net;
    if (take_params(s) && take_values(s)) return ITER_OK;
    reference_destroy(state);
    return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
}

/* Finds the memory of a value; returns NULL with a status in *status if there is none. */
static REAL *find_value(reference_state *s, int32_t param, iter_value value, iter_status *status,
                        iter_error *err) {
    REAL *found = NULL;
    *status = ITER_EINVAL;
    if (value == ITER_VALUE_WEIGHT) found = s->weights[param];
    if (value == ITER_VALUE_GRADIENT) found = s->gradients[param];
    if (value == ITER_VALUE_MOMENT) found = s->moments[0][param];
    if (value == ITER_VALUE_MOMENT2) found = s->moments[1][param];
    if (value == ITER_VALUE_INPUT_GRADIENT) found = s->d_values[0];
    if (!found) {
        iter__engine_fail(err, ITER_EINVAL, "backend %s: there is no such value", BACKEND_NAME);
        return NULL;
    }
    const bool of_step = value == ITER_VALUE_GRADIENT || value == ITER_VALUE_INPUT_GRADIENT;
    *status = of_step && !s->has_gradient ? ITER_ESTATE : ITER_OK;
    if (*status == ITER_OK) return found;
    iter__engine_fail(err, ITER_ESTATE, "backend %s: no step has made gradients", BACKEND_NAME);
    return NULL;
}

/* Copies from the net's own form back to the data's layout, dense. Missing rows are zero. */
static void write_input_gradient(const reference_state *s, REAL *out) {
    const engine_net *net = s->net;
    const int32_t batch_dim = iter__net_batch_dim(&net->data);
    const int64_t n = iter__shape_elements(&net->input);
    int64_t strides[ITER_MAX_DIMS] = {0}, stride = 1;
    for (int32_t d = net->data.n_dims - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= d == batch_dim ? net->batch : net->data.dims[d];
    }
    for (int64_t row = 0; row < net->batch; row++)
        for (int64_t e = 0; e < n; e++)
            out[place_of(net, &net->data, strides, row, e)] =
                row < s->n_gradient_rows ? s->d_values[0][row * n + e] : 0;
}

static iter_status reference_get(void *state, int32_t param, iter_value value, void *out,
                                 iter_error *err) {
    reference_state *s = state;
    iter_status status;
    const REAL *found = find_value(s, param, value, &status, err);
    if (!found) return status;
    if (value == ITER_VALUE_INPUT_GRADIENT)
        write_input_gradient(s, out);
    else
        memcpy(out, found, (size_t)s->net->params[param].n_elements * sizeof(REAL));
    return ITER_OK;
}

static iter_status reference_set(void *state, int32_t param, iter_value value, const void *from,
                                 iter_error *err) {
    reference_state *s = state;
    iter_status status = ITER_EINVAL;
    if (value == ITER_VALUE_GRADIENT || value == ITER_VALUE_INPUT_GRADIENT)
        return iter__engine_fail(err, ITER_EINVAL, "backend %s: gradients cannot be set",
                                 BACKEND_NAME);
    REAL *found = find_value(s, param, value, &status, err);
    if (!found) return status;
    memcpy(found, from, (size_t)s->net->params[param].n_elements * sizeof(REAL));
    return ITER_OK;
}

static iter_status reference_run(void *state, const engine_batch *batch, engine_run what,
                                 engine_outcome *out, iter_error *err) {
    reference_state *s = state;
    const engine_outcome nothing = {0, 0, false};
    (void)err;
    *out = nothing;
    read_data(s, batch);
    run_forward(s, batch, what);
    run_loss(s, batch, what != ENGINE_RUN_FORWARD, out);
    if (what == ENGINE_RUN_FORWARD) return ITER_OK;
    run_backward(s, batch, what);
    if (what == ENGINE_RUN_TRAIN && batch->n_counted > 0 && isfinite(out->loss_sum))
        run_update(s, batch, (const REAL *const *)s->gradients);
    return ITER_OK;
}

static iter_status reference_gradients(void *state, engine_gradient *out, int32_t *out_n,
                                       iter_error *err) {
    const reference_state *s = state;
    (void)err;
    for (int32_t p = 0; p < s->net->n_params; p++)
        out[p] = (engine_gradient){.n = s->net->params[p].n_elements, .values = s->gradients[p]};
    *out_n = s->net->n_params;
    return ITER_OK;
}

static iter_status reference_update(void *state, const engine_gradient *sums,
                                    const engine_batch *batch, iter_error *err) {
    reference_state *s = state;
    (void)err;
    const REAL *gradients[ENGINE_MAX_PARAMS];
    for (int32_t p = 0; p < s->net->n_params; p++)
        gradients[p] = sums[p].values;
    run_update(s, batch, gradients);
    return ITER_OK;
}

static iter_status reference_outputs(void *state, int64_t n_rows, void *out, iter_error *err) {
    const reference_state *s = state;
    (void)err;
    memcpy(out, s->values[s->net->n_layers - 1],
           (size_t)(n_rows * s->net->n_outputs) * sizeof(REAL));
    return ITER_OK;
}

static void reference_describe(const void *state, engine_backend_info *out) {
    const reference_state *s = state;
    snprintf(out->text, sizeof(out->text), "naive loops in %s", REAL_TEXT);
    out->n_bytes = s->n_bytes;
    out->n_converted = s->n_converted;
    out->convert_seconds = s->convert_seconds;
    out->convert_text[0] = '\0';
    if (s->n_converted > 0)
        snprintf(out->convert_text, sizeof(out->convert_text), "%s",
                 s->net->input.ids           ? "TN to NT"
                 : s->net->input.n_dims == 3 ? "NHWC to NCHW"
                                             : "time first to rows");
}

static void reference_layer_text(const void *state, int32_t layer, char *out, size_t capacity) {
    (void)state;
    (void)layer;
    if (capacity > 0) out[0] = '\0';
}

#define REFERENCE_BACKEND_OPS(help_text)                                                      \
    {                                                                                         \
        BACKEND_NAME, help_text, REAL_DTYPE, sizeof(reference_state), reference_layout,       \
            reference_create, reference_destroy, reference_get, reference_set, reference_run, \
            reference_outputs, reference_describe, reference_layer_text, NULL,                \
            reference_gradients, reference_update, false, NULL                                \
    }

#endif
