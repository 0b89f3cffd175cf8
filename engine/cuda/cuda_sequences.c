/*
 * cuda_sequences.c - embedding, the gru of cuDNN (it resets after the product), and the layers that
 * turn steps into one row of features.
 */
#include <stdio.h>

#include "engine/cuda/cuda_plan.h"
#include "engine/engine_error.h"

static const engine_layer *layer_of(const cuda_plan *plan, const cuda_node *node) {
    return &plan->net->layers[node->first_layer];
}

/* ---- Embedding ------------------------------------------------------------------------------- */

static iter_status embedding_place(cuda_plan *plan, cuda_node *node, iter_error *err) {
    (void)err;
    const int32_t p = layer_of(plan, node)->first_param;
    const int64_t n = plan->net->params[p].n_elements;
    const int64_t rows = layer_of(plan, node)->options.embedding.rows;
    node->weights.gradient = iter__cuda_take(plan, n, sizeof(float));
    node->weights.at = iter__cuda_master(plan, p);
    node->as.embedding.first = iter__cuda_take(plan, rows, sizeof(int32_t));
    node->as.embedding.count = iter__cuda_take(plan, rows, sizeof(int32_t));
    iter__cuda_add_piece(plan, p, 0, n, node->weights.gradient, false, 0, false);
    return ITER_OK;
}

static engine_embedding_args embedding_args(const cuda_plan *plan, const cuda_node *node,
                                            CUdeviceptr values) {
    const engine_layer *layer = layer_of(plan, node);
    const engine_embedding_args args = {.ids = plan->ids,
                                        .weight = node->weights.at,
                                        .values = values,
                                        .gradient = node->weights.gradient,
                                        .first = node->as.embedding.first,
                                        .count = node->as.embedding.count,
                                        .positions =
                                            (int32_t)(plan->net->batch * layer->in.dims[0]),
                                        .units = (int32_t)layer->options.embedding.units,
                                        .type = (int32_t)plan->numbers.type};
    return args;
}

static iter_status embedding_forward(cuda_plan *plan, const cuda_node *node, bool training,
                                     iter_error *err) {
    (void)training;
    const engine_embedding_args args = embedding_args(plan, node, plan->places[node->out].values);
    return iter__machine_launch_over(&plan->machine, kernel_engine_embedding,
                                     (int64_t)args.positions * args.units, &args, err);
}

static iter_status embedding_backward(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    cuda_machine *m = &plan->machine;
    const engine_embedding_args args = embedding_args(plan, node, plan->places[node->out].gradient);
    const iter_embedding_options *o = &layer_of(plan, node)->options.embedding;
    const size_t rows = (size_t)o->rows;
    CUDA_CALL(m, err, cuMemsetD32Async, (args.first, 0x7fffffff, rows, m->stream));
    CUDA_CALL(m, err, cuMemsetD32Async, (args.count, 0, rows, m->stream));
    CUDA_CALL(m, err, cuMemsetD32Async, (args.gradient, 0, rows * (size_t)o->units, m->stream));
    ENGINE_TRY(
        iter__machine_launch_over(m, kernel_engine_embedding_find, args.positions, &args, err));
    return iter__machine_launch(m, kernel_engine_embedding_back, args.positions, &args, err);
}

const cuda_node_ops iter__cuda_embedding = {
    .place = embedding_place,
    .forward = embedding_forward,
    .backward = embedding_backward,
};

/* ---- The gru of cuDNN ------------------------------------------------------------------------ */

static iter_status gru_prepare(cuda_plan *plan, cuda_node *node, iter_error *err) {
    const engine_layer *layer = layer_of(plan, node);
    ENGINE_TRY(iter__cudnn_gru_make(&plan->machine, &node->as.gru.dnn, plan->net->batch,
                                    layer->in.dims[0], layer->in.dims[1], layer->out.dims[1],
                                    plan->numbers, err));
    node->workspace_bytes = node->as.gru.dnn.workspace_bytes;
    return ITER_OK;
}

/* Our four parameters in cuDNN's weight space: gates r, z, n are its products 0 to 2 and 3 to 5. */
static iter_status place_pieces(cuda_plan *plan, cuda_node *node, iter_error *err) {
    const engine_layer *layer = layer_of(plan, node);
    const dnn_gru_memory *at = &node->as.gru.memory;
    const int64_t units = layer->out.dims[1];
    const engine_type type = plan->numbers.type;
    for (int32_t p = 0; p < 4; p++) {
        const bool recurrent = p % 2, bias = p > 1;
        const int64_t columns = recurrent ? units : layer->in.dims[1];
        const int64_t n = bias ? units : units * columns;
        for (int32_t gate = 0; gate < 3; gate++) {
            size_t matrix = 0, bias_at = 0;
            if (plan->memory)
                ENGINE_TRY(iter__cudnn_gru_place(&plan->machine, &node->as.gru.dnn, at->weights,
                                                 3 * recurrent + gate, units, columns, &matrix,
                                                 &bias_at, err));
            const size_t offset = bias ? bias_at : matrix;
            iter__cuda_add_piece(plan, layer->first_param + p, gate * n, n, at->d_weights + offset,
                                 type, at->weights + offset, type);
        }
    }
    return ITER_OK;
}

static iter_status gru_place(cuda_plan *plan, cuda_node *node, iter_error *err) {
    const cuda_place *in = &plan->places[node->in], *out = &plan->places[node->out];
    const dnn_gru *dnn = &node->as.gru.dnn;
    dnn_gru_memory *at = &node->as.gru.memory;
    at->weights = iter__cuda_take(plan, 1, dnn->weight_bytes);
    at->d_weights = iter__cuda_take(plan, 1, dnn->weight_bytes);
    at->reserve = iter__cuda_take(plan, 1, dnn->reserve_bytes);
    at->x = in->values;
    at->d_x = in->gradient;
    at->y = out->values;
    at->d_y = out->gradient;
    return place_pieces(plan, node, err);
}

/* The memory of a run, whose addresses are known only when it begins. */
static dnn_gru_memory memory_of(const cuda_plan *plan, const cuda_node *node) {
    dnn_gru_memory at = node->as.gru.memory;
    at.x = plan->places[node->in].values;
    at.lengths = plan->lengths;
    at.workspace = plan->workspace;
    return at;
}

static iter_status gru_forward(cuda_plan *plan, const cuda_node *node, bool training,
                               iter_error *err) {
    const dnn_gru_memory at = memory_of(plan, node);
    return iter__cudnn_gru_forward(&plan->machine, &node->as.gru.dnn, &at, training, err);
}

static iter_status gru_backward(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    cuda_machine *m = &plan->machine;
    const dnn_gru_memory at = memory_of(plan, node);
    CUDA_CALL(m, err, cuMemsetD8Async, (at.d_weights, 0, node->as.gru.dnn.weight_bytes, m->stream));
    return iter__cudnn_gru_back(m, &node->as.gru.dnn, &at, err);
}

static void gru_drop(cuda_plan *plan, cuda_node *node) {
    iter__cudnn_gru_drop(&plan->machine, &node->as.gru.dnn);
}

static void gru_text(const cuda_plan *plan, const cuda_node *node, char *out, size_t capacity) {
    (void)plan;
    snprintf(out, capacity, "cuDNN, %s",
             node->as.gru.dnn.in_one_kernel ? "all steps in one kernel" : "step by step");
}

const cuda_node_ops iter__cuda_gru = {
    .prepare = gru_prepare,
    .place = gru_place,
    .forward = gru_forward,
    .backward = gru_backward,
    .drop = gru_drop,
    .text = gru_text,
};

/* ---- One row from steps ---------------------------------------------------------------------- */

static iter_status steps_backward(cuda_plan *plan, const cuda_node *node, bool last,
                                  iter_error *err) {
    const cuda_place *in = &plan->places[node->in], *out = &plan->places[node->out];
    const engine_steps_args args = {.in = out->gradient,
                                    .out = in->gradient,
                                    .n = out->n_elements,
                                    .steps = (int32_t)in->dims[1],
                                    .type = (int32_t)plan->numbers.type,
                                    .last = last};
    return iter__machine_launch_over(&plan->machine, kernel_engine_steps_back, in->n_elements,
                                     &args, err);
}

/* The last step's values are at the end of all values. */
static iter_status last_step_forward(cuda_plan *plan, const cuda_node *node, bool training,
                                     iter_error *err) {
    (void)plan;
    (void)node;
    (void)training;
    (void)err;
    return ITER_OK;
}

static iter_status last_step_backward(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    return steps_backward(plan, node, true, err);
}

const cuda_node_ops iter__cuda_last_step = {
    .forward = last_step_forward,
    .backward = last_step_backward,
};

static iter_status mean_steps_forward(cuda_plan *plan, const cuda_node *node, bool training,
                                      iter_error *err) {
    (void)training;
    const cuda_place *in = &plan->places[node->in], *out = &plan->places[node->out];
    const engine_steps_args args = {.in = in->values,
                                    .out = out->values,
                                    .n = out->n_elements,
                                    .steps = (int32_t)in->dims[1],
                                    .type = (int32_t)plan->numbers.type};
    return iter__machine_launch_over(&plan->machine, kernel_engine_steps_mean, args.n, &args, err);
}

static iter_status mean_steps_backward(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    return steps_backward(plan, node, false, err);
}

const cuda_node_ops iter__cuda_mean_steps = {
    .forward = mean_steps_forward,
    .backward = mean_steps_backward,
};
