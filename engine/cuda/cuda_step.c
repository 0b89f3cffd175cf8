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

/* True if the data already has the layout of place 0. */
static bool is_ready(const cuda_plan *plan, const cuda_input *input, const cuda_numbers_at *end) {
    const cuda_place *place = &plan->places[0];
    bool same = end->type == plan->numbers.type && !plan->copies_data &&
                input->n_rows == plan->net->batch && input->data % 16 == 0 &&
                place->n_elements == plan->net->batch * iter__shape_elements(&place->shape);
    same = same && (end->row_stride == place->row_stride || plan->net->batch == 1);
    for (int i = 0; i < 3; i++)
        same = same && (place->dims[i] == 1 || end->strides[i] == place->strides[i]);
    return same;
}

bool iter__cuda_turns(const cuda_plan *plan) {
    const engine_net *net = plan->net;
    if (net->input.ids || net->input.n_dims == 1) return false;
    if (net->input.n_dims == 2) return !iter__net_time_first(net);
    return iter__net_channels_last(net) != plan->numbers.channels_last;
}

/* Places that share memory with place 0 move with it. */
static void move_data(cuda_plan *plan, CUdeviceptr at) {
    const size_t size = iter__cuda_number_bytes(plan);
    plan->places[0].values = at;
    for (int32_t i = 1; i < plan->n_places; i++) {
        cuda_place *place = &plan->places[i];
        if (place->shares >= i) continue;
        const cuda_place *owner = &plan->places[place->shares];
        place->values = owner->values;
        if (place->shares_values)
            place->values += (CUdeviceptr)(owner->n_elements - place->n_elements) * size;
    }
}

static engine_ids_args ids_args(const cuda_plan *plan, const cuda_input *input) {
    const iter_tensor *view = &input->data_view;
    const int32_t rows = iter__net_batch_dim(&view->desc);
    const engine_ids_args args = {.from = input->data,
                                  .to = plan->ids,
                                  .tally = plan->tally,
                                  .row_stride = view->strides[rows],
                                  .step_stride = view->strides[!rows],
                                  .wide = view->desc.dtype == ITER_I64,
                                  .n_rows = (int32_t)input->n_rows,
                                  .rows = (int32_t)plan->net->batch,
                                  .steps = (int32_t)plan->net->input.dims[0],
                                  .limit = (int32_t)plan->net->layers[0].options.embedding.rows};
    return args;
}

iter_status iter__cuda_feed(cuda_plan *plan, const cuda_input *input, iter_error *err) {
    if (plan->net->input.ids) {
        const engine_ids_args args = ids_args(plan, input);
        return iter__machine_launch_over(&plan->machine, kernel_engine_ids,
                                         (int64_t)args.rows * args.steps, &args, err);
    }
    const cuda_place *place = &plan->places[0];
    const cuda_numbers_at from = iter__cuda_data_end(plan, &input->data_view, input->data);
    if (is_ready(plan, input, &from)) {
        move_data(plan, input->data);
        return ITER_OK;
    }
    move_data(plan, plan->own_data);
    const cuda_numbers_at to = iter__cuda_end_of(plan, place, place->values);
    return iter__cuda_copy(plan, place, &from, &to, input->n_rows, err);
}

/* ---- The loss -------------------------------------------------------------------------------- */

iter_status iter__cuda_loss(cuda_plan *plan, const cuda_input *input, bool gradient,
                            iter_error *err) {
    const engine_net *net = plan->net;
    const engine_kind kind = net->layers[net->n_layers - 1].kind;
    const cuda_place *outputs = &plan->places[plan->n_places - 1];
    const iter_tensor *label = &input->label_view;
    const bool classes = kind == ENGINE_SOFTMAX_CROSS_ENTROPY;
    engine_loss_args args = {.outputs = outputs->values,
                             .gradient = gradient ? outputs->gradient : 0,
                             .label = input->label,
                             .step = plan->step,
                             .tally = plan->tally,
                             .losses = plan->losses,
                             .correct = plan->correct,
                             .label_row = label->strides[0],
                             .label_feature = label->desc.n_dims > 1 ? label->strides[1] : 0,
                             .label_type = (int32_t)type_of(label->desc.dtype),
                             .n = (int32_t)net->n_outputs,
                             .rows = (int32_t)net->batch,
                             .n_rows = (int32_t)input->n_rows,
                             .type = (int32_t)plan->numbers.type,
                             .factor = kind == ENGINE_L2 ? 0.5f : 1,
                             .has_ids = net->input.ids};
    if (net->input.ids) args.ids = ids_args(plan, input);
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

iter_status iter__cuda_body(cuda_plan *plan, const cuda_input *input, engine_run what,
                            iter_error *err) {
    const bool learns = what != ENGINE_RUN_FORWARD;
    ENGINE_TRY(iter__cuda_feed(plan, input, err));
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        const cuda_node *node = &plan->nodes[i];
        const iter_status status = node->ops->forward(plan, node, learns, err);
        if (status < 0) return fail_at(plan, node, status, err);
    }
    ENGINE_TRY(iter__cuda_loss(plan, input, learns, err));
    if (!learns) return ITER_OK;
    ENGINE_TRY(go_back(plan, err));
    return what == ENGINE_RUN_TRAIN ? iter__cuda_update(plan, err) : ITER_OK;
}
