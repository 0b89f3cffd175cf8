/*
 * cuda_step.c - queues a run from data to weights; the calls are the same whether a graph records
 * them or not. What differs from step to step (rate, step number, which rows count) is in
 * plan->step and is written before.
 */
#include <assert.h>

#include "engine/cuda/cuda_plan.h"
#include "engine/engine_error.h"

/* ---- Data ------------------------------------------------------------------------------------ */

static engine_type type_of(iter_dtype dtype) {
    switch (dtype) {
    case ITER_F32: return ENGINE_F32;
    case ITER_F16: return ENGINE_F16;
    case ITER_BF16: return ENGINE_BF16;
    case ITER_F64: return ENGINE_F64;
    case ITER_U8: return ENGINE_U8;
    case ITER_I32: return ENGINE_I32;
    default: assert(dtype == ITER_I64); return ENGINE_I64;
    }
}

cuda_numbers_at iter__cuda_data_end(const cuda_plan *plan, const iter_tensor *view,
                                    CUdeviceptr at) {
    const int32_t rows = iter__net_batch_dim(&view->desc);
    cuda_numbers_at end = {
        .at = at, .type = type_of(view->desc.dtype), .row_stride = view->strides[rows]};
    int32_t to = 4 - view->desc.n_dims;
    for (int32_t d = 0; d < view->desc.n_dims; d++)
        if (d != rows) end.strides[to++] = view->strides[d];
    if (iter__net_channels_last(plan->net)) {
        const int64_t channel = end.strides[2];
        end.strides[2] = end.strides[1];
        end.strides[1] = end.strides[0];
        end.strides[0] = channel;
    }
    return end;
}

bool iter__cuda_turns(const cuda_plan *plan) {
    const engine_net *net = plan->net;
    if (net->input.ids || net->input.n_dims == 1) return false;
    if (net->input.n_dims == 2) return !iter__net_time_first(net);
    return iter__net_channels_last(net) != plan->numbers.channels_last;
}

static engine_source source_of_label(const iter_tensor *label, CUdeviceptr at, int64_t n_rows) {
    engine_source source = {.at = at, .row = label->strides[0], .n_rows = (int32_t)n_rows};
    if (label->desc.n_dims > 1) source.strides[2] = label->strides[1];
    return source;
}

void iter__cuda_sources(const cuda_plan *plan, const iter_tensor *data, CUdeviceptr data_at,
                        const iter_tensor *label, CUdeviceptr label_at, int64_t n_rows,
                        engine_step *io) {
    const cuda_numbers_at end = iter__cuda_data_end(plan, data, data_at);
    io->data = iter__cuda_data_source(plan, &end, n_rows);
    io->label = source_of_label(label, label_at, n_rows);
}

iter_status iter__cuda_feed(cuda_plan *plan, iter_error *err) {
    const engine_net *net = plan->net;
    const engine_type type = type_of(net->data.dtype);
    if (!net->input.ids) return iter__cuda_copy_data(plan, type, err);
    const engine_ids_args args = {.step = plan->step,
                                  .to = plan->ids,
                                  .tally = plan->tally,
                                  .type = (int32_t)type,
                                  .rows = (int32_t)net->batch,
                                  .steps = (int32_t)net->input.dims[0],
                                  .limit = (int32_t)net->layers[0].options.embedding.rows};
    return iter__machine_launch_over(&plan->machine, kernel_engine_ids,
                                     (int64_t)args.rows * args.steps, &args, err);
}

/* ---- The loss -------------------------------------------------------------------------------- */

static iter_status loss(cuda_plan *plan, bool gradient, iter_error *err) {
    const engine_net *net = plan->net;
    const engine_kind kind = net->layers[net->n_layers - 1].kind;
    const cuda_place *outputs = &plan->places[plan->n_places - 1];
    const bool classes = kind == ENGINE_SOFTMAX_CROSS_ENTROPY;
    const engine_loss_args args = {.outputs = outputs->values,
                                   .gradient = gradient ? outputs->gradient : 0,
                                   .step = plan->step,
                                   .tally = plan->tally,
                                   .losses = plan->losses,
                                   .correct = plan->correct,
                                   .label_type = (int32_t)type_of(net->label.dtype),
                                   .n = (int32_t)net->n_outputs,
                                   .rows = (int32_t)net->batch,
                                   .type = (int32_t)plan->numbers.type,
                                   .factor = kind == ENGINE_L2 ? 0.5f : 1,
                                   .has_ids = net->input.ids,
                                   .id_type = (int32_t)type_of(net->data.dtype)};
    ENGINE_TRY(iter__machine_launch(
        &plan->machine, classes ? kernel_engine_loss_classes : kernel_engine_loss_squares,
        net->batch, &args, err));
    return iter__machine_launch(&plan->machine, kernel_engine_loss_end, 1, &args, err);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static engine_params_args params_args(const cuda_plan *plan, engine_params_mode mode) {
    const engine_optimizer *o = plan->optimizer;
    const engine_params_args args = {.pieces = plan->device_pieces,
                                     .chunks = plan->device_chunks,
                                     .weights = plan->weights,
                                     .first = plan->moments[0],
                                     .second = plan->moments[1],
                                     .step = plan->step,
                                     .tally = plan->tally,
                                     .mode = (int32_t)mode,
                                     .scaled = iter__cuda_is_scaled(plan),
                                     .momentum = (float)o->momentum,
                                     .decay = (float)o->weight_decay,
                                     .beta1 = (float)o->beta1,
                                     .beta2 = (float)o->beta2,
                                     .epsilon = (float)o->epsilon,
                                     .rest1 = (float)(1 - o->beta1),
                                     .rest2 = (float)(1 - o->beta2)};
    return args;
}

static engine_params_mode update_mode(const cuda_plan *plan) {
    return plan->optimizer->kind == ENGINE_ADAM ? ENGINE_PARAMS_ADAM : ENGINE_PARAMS_SGD;
}

iter_status iter__cuda_update(cuda_plan *plan, iter_error *err) {
    const engine_params_args update = params_args(plan, update_mode(plan));
    if (iter__cuda_is_scaled(plan)) {
        const engine_params_args check = params_args(plan, ENGINE_PARAMS_CHECK);
        ENGINE_TRY(iter__machine_launch(&plan->machine, kernel_engine_params, plan->n_chunks,
                                        &check, err));
    }
    ENGINE_TRY(
        iter__machine_launch(&plan->machine, kernel_engine_params, plan->n_chunks, &update, err));
    if (!iter__cuda_is_scaled(plan)) return ITER_OK;
    return iter__machine_launch(&plan->machine, kernel_engine_scale, 1, &update, err);
}

static iter_status over_all(cuda_plan *plan, engine_params_mode mode, CUdeviceptr pieces,
                            iter_error *err) {
    engine_params_args args = params_args(plan, mode);
    args.pieces = pieces;
    args.out = plan->gathered;
    args.scaled = args.scaled && mode == ENGINE_PARAMS_GATHER; /* what was gathered is not */
    return iter__machine_launch(&plan->machine, kernel_engine_params, plan->n_chunks, &args, err);
}

iter_status iter__cuda_gather_all(cuda_plan *plan, iter_error *err) {
    return over_all(plan, ENGINE_PARAMS_GATHER, plan->device_pieces, err);
}

/* With f16, the sums overflow on all ranks or on none, so all skip the step and change the scale
 * together. */
iter_status iter__cuda_update_gathered(cuda_plan *plan, iter_error *err) {
    const engine_params_args scale = params_args(plan, update_mode(plan));
    if (iter__cuda_is_scaled(plan))
        ENGINE_TRY(over_all(plan, ENGINE_PARAMS_CHECK, plan->sum_pieces, err));
    ENGINE_TRY(over_all(plan, update_mode(plan), plan->sum_pieces, err));
    ENGINE_TRY(over_all(plan, ENGINE_PARAMS_SPREAD, plan->device_pieces, err));
    if (!iter__cuda_is_scaled(plan)) return ITER_OK;
    return iter__machine_launch(&plan->machine, kernel_engine_scale, 1, &scale, err);
}

/* The chunks of one parameter. */
static iter_status over_param(cuda_plan *plan, int32_t param, engine_params_mode mode,
                              iter_error *err) {
    const cuda_param *p = &plan->params[param];
    engine_params_args args = params_args(plan, mode);
    args.chunks += p->first_chunk * sizeof(engine_chunk);
    args.out = plan->gathered;
    args.out_first = p->first;
    return iter__machine_launch(&plan->machine, kernel_engine_params, p->n_chunks, &args, err);
}

iter_status iter__cuda_spread(cuda_plan *plan, int32_t param, iter_error *err) {
    return over_param(plan, param, ENGINE_PARAMS_SPREAD, err);
}

iter_status iter__cuda_gather(cuda_plan *plan, int32_t param, iter_error *err) {
    return over_param(plan, param, ENGINE_PARAMS_GATHER, err);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static iter_status fail_at(const cuda_plan *plan, const cuda_node *node, iter_status status,
                           iter_error *err) {
    return iter__engine_fail_in(err, status, "%s", plan->net->layers[node->first_layer].name);
}

static iter_status go_back(cuda_plan *plan, iter_error *err) {
    for (int32_t i = plan->n_nodes - 1; i >= 0; i--) {
        const cuda_node *node = &plan->nodes[i];
        const bool has_params = plan->net->layers[node->first_layer].n_params > 0;
        if (!plan->places[node->out].gradient) continue;
        if (!plan->places[node->in].gradient && !has_params) continue;
        const iter_status status = node->ops->backward(plan, node, err);
        if (status < 0) return fail_at(plan, node, status, err);
    }
    return ITER_OK;
}

iter_status iter__cuda_body(cuda_plan *plan, engine_run what, iter_error *err) {
    const bool learns = what != ENGINE_RUN_FORWARD;
    ENGINE_TRY(iter__cuda_feed(plan, err));
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        const cuda_node *node = &plan->nodes[i];
        const iter_status status = node->ops->forward(plan, node, learns, err);
        if (status < 0) return fail_at(plan, node, status, err);
    }
    ENGINE_TRY(loss(plan, learns, err));
    if (!learns) return ITER_OK;
    ENGINE_TRY(go_back(plan, err));
    return what == ENGINE_RUN_TRAIN ? iter__cuda_update(plan, err) : ITER_OK;
}
