/*
 * backend_cuda.c - the backend for NVIDIA's GPUs: cuDNN for convolutions and the gru, cuBLAS
 * for other products, our own kernels for the rest. All libraries are opened at run time.
 *
 * A run is queued without waiting, except for the run CUDA_FLIGHTS before it. Its outcome is summed
 * on the device (engine_tally), and collect() reads it. If a run fails, neither it nor a later run
 * updates anything until the failure has been collected. So the weights remain those before the
 * step that failed, although the host learns of it later.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/cuda_backend.h"
#include "engine/engine_error.h"
#include "engine/engine_memory.h"

/* ---- Making ---------------------------------------------------------------------------------- */

/* The layout that f32 needs no conversion for: tensor cores want channels last. Ids are always read
 * by a kernel. */
static const char *cuda_layout(const engine_net *net, int32_t precision) {
    if (net->input.ids) return "nt";
    for (int32_t i = 0; i < net->n_layers; i++)
        switch (net->layers[i].kind) {
        case ENGINE_CONV2D:
        case ENGINE_MAXPOOL:
        case ENGINE_AVGPOOL:
        case ENGINE_FLATTEN: return precision == ITER_PRECISION_F32 ? "nchw" : "nhwc";
        case ENGINE_GRU:
        case ENGINE_LAST_STEP:
        case ENGINE_MEAN_STEPS: return "tn";
        case ENGINE_DENSE: return "";
        default: break;
        }
    return "";
}

static void cuda_destroy(void *state) {
    cuda_backend *b = state;
    cuda_machine *m = &b->plan.machine;
    if (iter__machine_enter_to_free(m)) {
        m->cuda.cuStreamSynchronize(m->stream);
        iter__cuda_graphs_drop(b);
        iter__cuda_sums_drop(b);
        iter__cuda_stages_drop(b);
        iter__machine_leave(m);
    }
    iter__cuda_sums_free(b);
    iter__cuda_plan_drop(&b->plan);
}

static iter_status cuda_create(void *state, const engine_backend_config *config, iter_error *err) {
    cuda_backend *b = state;
    ENGINE_TRY(iter__cuda_plan_make(&b->plan, config, err));
    iter_status status = iter__machine_enter(&b->plan.machine, err);
    if (status >= 0) {
        status = iter__cuda_stages_make(b, err);
        if (status >= 0) status = iter__cuda_sums_make(b, config->sums_with, err);
        iter__machine_leave(&b->plan.machine);
    }
    if (status < 0) cuda_destroy(state);
    return status;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

engine_step iter__cuda_step_of(const cuda_plan *plan, const engine_batch *batch) {
    const engine_optimizer *o = plan->optimizer;
    const double t = (double)batch->step + 1;
    engine_step step = {.words = {(uint32_t)batch->step, (uint32_t)(batch->step >> 32)},
                        .lr = (float)batch->lr,
                        .rate = (float)batch->lr,
                        .first_row = (uint32_t)batch->first_row};
    if (batch->n_counted > 0) step.share = 1 / (double)batch->n_counted;
    if (o->kind == ENGINE_ADAM)
        step.rate = (float)(batch->lr * sqrt(1 - pow(o->beta2, t)) / (1 - pow(o->beta1, t)));
    return step;
}

/* Writes what changes from step to step. `step` says where the batch lies. */
static iter_status write_step(cuda_backend *b, const engine_batch *batch, engine_run what,
                              engine_step *step, iter_error *err) {
    cuda_plan *plan = &b->plan;
    cuda_machine *m = &plan->machine;
    unsigned char *at = b->steps + b->n_pending * plan->step_bytes;
    step->run = b->n_pending;
    step->updates = what == ENGINE_RUN_TRAIN && batch->n_counted > 0;
    memcpy(at, step, sizeof(*step));
    memset(at + sizeof(*step), 0, (size_t)plan->net->batch);
    memcpy(at + sizeof(*step), batch->counts, (size_t)batch->n_rows);
    CUDA_CALL(m, err, cuMemcpyHtoDAsync, (plan->step, at, plan->step_bytes, m->stream));
    return ITER_OK;
}

/* Gives the batch back after what was queued. If that fails, its loader may write to the slot as
 * soon as the last reference is dropped. So we wait until nothing reads it any more. */
static iter_status release(cuda_backend *b, const engine_batch *batch, iter_error *err) {
    cuda_machine *m = &b->plan.machine;
    const iter_status status = iter_batch_release(batch->source, m->stream, err);
    if (status >= 0) return ITER_OK;
    const iter_status waited = iter__machine_sync(m, NULL);
    (void)waited; /* a device that does not answer reads nothing either */
    return status;
}

/* *out_queued: the whole run was queued, whatever the status. */
static iter_status queue_run(cuda_backend *b, const engine_batch *batch, engine_run what,
                             bool *out_queued, iter_error *err) {
    engine_step step = iter__cuda_step_of(&b->plan, batch);
    if (b->n_pending == ENGINE_MAX_PENDING)
        return iter__engine_fail(err, ITER_ESTATE, "%d runs were not collected",
                                 ENGINE_MAX_PENDING);
    ENGINE_TRY(iter__cuda_stage(b, batch, &step, err));
    iter_status status = write_step(b, batch, what, &step, err);
    if (status >= 0) status = iter__cuda_go(b, what, err);
    *out_queued = status >= 0;
    if (!batch->source) return status;
    /* Needed even if only part of the step was queued. */
    const iter_status released = release(b, batch, status < 0 ? NULL : err);
    if (status < 0 || released >= 0) return status;
    return iter__engine_fail_in(err, released, "%s; but its batch was not given back",
                                what == ENGINE_RUN_TRAIN ? "taken" : "done");
}

/* Resets the tally, and with it forgets what was queued. */
static iter_status clear_tally(cuda_backend *b, iter_error *err) {
    cuda_machine *m = &b->plan.machine;
    engine_tally *tally = b->tally;
    tally->loss_sum = tally->bad_loss = 0;
    tally->n_correct = 0;
    tally->n_runs = tally->failure = tally->failed_run = 0;
    tally->bad_id = tally->bad_label = ENGINE_NO_PLACE;
    tally->overflow = 0;
    b->n_pending = 0;
    CUDA_CALL(m, err, cuMemcpyHtoDAsync, (b->plan.tally, tally, sizeof(*tally), m->stream));
    return ITER_OK;
}

static iter_status read_tally(cuda_backend *b, iter_error *err) {
    return iter__machine_read(&b->plan.machine, b->tally, b->plan.tally, sizeof(*b->tally), err);
}

/* Waits until fewer than CUDA_FLIGHTS runs are in flight. */
static iter_status await_flight(cuda_backend *b, iter_error *err) {
    cuda_machine *m = &b->plan.machine;
    CUDA_CALL(m, err, cuEventSynchronize, (b->landed[b->n_flights % CUDA_FLIGHTS]));
    return ITER_OK;
}

/* If recording fails, one more run is in flight. */
static void mark_flight(cuda_backend *b) {
    cuda_machine *m = &b->plan.machine;
    m->cuda.cuEventRecord(b->landed[b->n_flights++ % CUDA_FLIGHTS], m->stream);
}

static iter_status cuda_run(void *state, const engine_batch *batch, engine_run what,
                            engine_outcome *out, iter_error *err) {
    cuda_backend *b = state;
    cuda_machine *m = &b->plan.machine;
    *out = (engine_outcome){.pending = false};
    ENGINE_TRY(iter__machine_enter(m, err));
    iter_status status = await_flight(b, err);
    if (status >= 0) status = queue_run(b, batch, what, &out->pending, err);
    if (out->pending) {
        mark_flight(b);
        b->n_pending++;
        if (what != ENGINE_RUN_FORWARD) b->has_gradient = true;
        b->n_converted += iter__cuda_turns(&b->plan);
    } else if (read_tally(b, NULL) >= 0) {
        b->has_kept = b->n_pending > 0;
        b->kept = *b->tally;
        /* this run's own failure */
        if (b->kept.failed_run >= b->n_pending) b->kept.failure = ENGINE_FINE;
        /* a lost device reports it again at the next call */
        const iter_status cleared = clear_tally(b, NULL);
        (void)cleared;
    }
    iter__machine_leave(m);
    return status;
}

static engine_collected collected_of(const engine_tally *tally) {
    static const engine_trouble troubles[] = {
        [ENGINE_FINE] = ENGINE_TROUBLE_NONE,
        [ENGINE_BAD_LOSS] = ENGINE_TROUBLE_LOSS,
        [ENGINE_BAD_LABEL] = ENGINE_TROUBLE_LABEL,
        [ENGINE_BAD_ID] = ENGINE_TROUBLE_ID,
    };
    return (engine_collected){.loss_sum = tally->loss_sum,
                              .n_correct = (int64_t)tally->n_correct,
                              .trouble = troubles[tally->failure % 4],
                              .run = tally->failed_run,
                              .loss = tally->bad_loss,
                              .row = tally->row,
                              .place = tally->place,
                              .value = tally->value};
}

static iter_status cuda_collect(void *state, engine_collected *out, iter_error *err) {
    cuda_backend *b = state;
    cuda_machine *m = &b->plan.machine;
    *out = (engine_collected){.loss_sum = 0};
    if (b->has_kept) {
        b->has_kept = false;
        *out = collected_of(&b->kept);
        return ITER_OK;
    }
    if (b->n_pending == 0) return ITER_OK;
    ENGINE_TRY(iter__machine_enter(m, err));
    iter_status status = read_tally(b, err);
    if (status >= 0) {
        *out = collected_of(b->tally);
        status = clear_tally(b, err);
    }
    iter__machine_leave(m);
    return status;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static CUdeviceptr value_at(const cuda_plan *plan, int32_t param, iter_value value) {
    const CUdeviceptr base = value == ITER_VALUE_WEIGHT   ? plan->weights
                             : value == ITER_VALUE_MOMENT ? plan->moments[0]
                                                          : plan->moments[1];
    return base ? base + plan->params[param].first * sizeof(float) : 0;
}

/* The data's gradient: f32, dense, in the data's own layout. */
static iter_status get_input_gradient(cuda_backend *b, float *out, iter_error *err) {
    cuda_plan *plan = &b->plan;
    const engine_net *net = plan->net;
    const cuda_place *place = &plan->places[0];
    const int64_t n = net->batch * iter__shape_elements(&net->input);
    if (!plan->data_gradient)
        return iter__engine_fail(err, ITER_EINVAL, "the data's gradient is not kept");
    const iter_tensor view = iter_tensor_dense(&net->data, NULL);
    cuda_numbers_at to = iter__cuda_data_end(plan, &view, plan->data_gradient);
    to.type = ENGINE_F32;
    const cuda_numbers_at from = iter__cuda_end_of(plan, place, place->gradient);
    ENGINE_TRY(iter__cuda_copy(plan, place, &from, &to, err));
    ENGINE_TRY(iter__machine_read(&plan->machine, out, plan->data_gradient,
                                  (size_t)n * sizeof(float), err));
    if (!iter__cuda_is_scaled(plan)) return ITER_OK;
    ENGINE_TRY(read_tally(b, err));
    for (int64_t i = 0; i < n; i++)
        out[i] /= b->tally->used;
    return ITER_OK;
}

static iter_status get_inside(cuda_backend *b, int32_t param, iter_value value, void *out,
                              iter_error *err) {
    cuda_plan *plan = &b->plan;
    if (value == ITER_VALUE_INPUT_GRADIENT) return get_input_gradient(b, out, err);
    const size_t bytes = (size_t)plan->net->params[param].n_elements * sizeof(float);
    CUdeviceptr at = plan->gathered;
    if (value == ITER_VALUE_GRADIENT)
        ENGINE_TRY(iter__cuda_gather(plan, param, err));
    else
        at = value_at(plan, param, value);
    if (!at) return iter__engine_fail(err, ITER_EINVAL, "there is no such value");
    return iter__machine_read(&plan->machine, out, at, bytes, err);
}

static iter_status cuda_get(void *state, int32_t param, iter_value value, void *out,
                            iter_error *err) {
    cuda_backend *b = state;
    ENGINE_TRY(iter__machine_enter(&b->plan.machine, err));
    const iter_status status = get_inside(b, param, value, out, err);
    iter__machine_leave(&b->plan.machine);
    return status;
}

static iter_status cuda_set(void *state, int32_t param, iter_value value, const void *from,
                            iter_error *err) {
    cuda_backend *b = state;
    cuda_plan *plan = &b->plan;
    const CUdeviceptr at = value_at(plan, param, value);
    const size_t bytes = (size_t)plan->net->params[param].n_elements * sizeof(float);
    if (!at) return iter__engine_fail(err, ITER_EINVAL, "there is no such value");
    ENGINE_TRY(iter__machine_enter(&plan->machine, err));
    iter_status status = iter__machine_write(&plan->machine, at, from, bytes, err);
    if (status >= 0 && value == ITER_VALUE_WEIGHT) status = iter__cuda_spread(plan, param, err);
    iter__machine_leave(&plan->machine);
    return status;
}

static iter_status cuda_outputs(void *state, int64_t n_rows, void *out, iter_error *err) {
    cuda_backend *b = state;
    cuda_plan *plan = &b->plan;
    const cuda_place *outputs = &plan->places[plan->n_places - 1];
    const size_t bytes = (size_t)(n_rows * plan->net->n_outputs) * sizeof(float);
    CUdeviceptr at = outputs->values;
    ENGINE_TRY(iter__machine_enter(&plan->machine, err));
    iter_status status = ITER_OK;
    if (plan->numbers.type != ENGINE_F32) {
        const cuda_numbers_at from = iter__cuda_end_of(plan, outputs, at);
        cuda_numbers_at to = from;
        at = to.at = plan->outputs;
        to.type = ENGINE_F32;
        status = iter__cuda_copy(plan, outputs, &from, &to, err);
    }
    if (status >= 0) status = iter__machine_read(&plan->machine, out, at, bytes, err);
    iter__machine_leave(&plan->machine);
    return status;
}

/* ---- What it is ------------------------------------------------------------------------------ */

/* "NVIDIA H200, sm_90; f32 NCHW; cuDNN 9.15; cuBLAS 13.1" */
static void cuda_describe(const void *state, engine_backend_info *out) {
    const cuda_backend *b = state;
    const cuda_machine *m = &b->plan.machine;
    const cuda_numbers *numbers = &b->plan.numbers;
    const cuda_nccl *nccl = &b->sums.nccl;
    char dnn[64] = "", blas[64] = "", sums[64] = "";
    if (m->dnn.version)
        snprintf(dnn, sizeof(dnn), "; cuDNN %zu.%zu", m->dnn.version / 10000,
                 m->dnn.version / 100 % 100);
    if (m->blas.version)
        snprintf(blas, sizeof(blas), "; cuBLAS %d.%d", m->blas.version / 10000,
                 m->blas.version / 100 % 100);
    if (nccl->handle)
        snprintf(sums, sizeof(sums), "; NCCL %d.%d", nccl->version / 10000,
                 nccl->version / 100 % 100);
    snprintf(out->text, sizeof(out->text), "%.32s; %s%s%.20s%.20s%.20s%s", m->device,
             iter__cuda_numbers_text(numbers),
             b->plan.net->input.n_dims < 3 ? ""
             : numbers->channels_last      ? " NHWC"
                                           : " NCHW",
             dnn, blas, sums, b->no_graphs[0] ? "; no graphs" : "");
    out->n_bytes = b->plan.memory_bytes + b->plan.workspace_bytes + b->pinned_bytes;
    out->n_graph_runs = b->n_graph_runs;
    out->n_call_runs = b->n_call_runs;
    out->n_converted = b->n_converted;
    out->convert_seconds = (double)b->n_converted * b->convert_ms * 1e-3;
    out->convert_text[0] = '\0';
    if (b->n_converted > 0)
        snprintf(out->convert_text, sizeof(out->convert_text), "%s, by a kernel",
                 b->plan.net->input.n_dims < 3 ? "rows to time first"
                 : numbers->channels_last      ? "NCHW to NHWC"
                                               : "NHWC to NCHW");
}

/* Joins the texts of all nodes that work on the layer. */
static void cuda_layer_text(const void *state, int32_t layer, char *out, size_t capacity) {
    const cuda_backend *b = state;
    size_t n = 0;
    out[0] = '\0';
    for (int32_t i = 0; i < b->plan.n_nodes && n < capacity; i++) {
        const cuda_node *node = &b->plan.nodes[i];
        if (layer < node->first_layer || layer >= node->first_layer + node->n_layers) continue;
        if (!node->ops->text) continue;
        const size_t begin = n;
        if (n > 0 && n + 2 < capacity) n += (size_t)snprintf(out + n, capacity - n, ", ");
        const size_t at = n;
        node->ops->text(&b->plan, node, out + n, capacity - n);
        n += strlen(out + n);
        if (n == at) out[n = begin] = '\0';
    }
}

extern const engine_backend_ops iter__backend_cuda;
const engine_backend_ops iter__backend_cuda = {
    .name = "cuda",
    .help = "cuDNN's convolution and gru, cuBLAS's products, own kernels for the rest",
    .real = ITER_F32,
    .state_size = sizeof(cuda_backend),
    .layout = cuda_layout,
    .create = cuda_create,
    .destroy = cuda_destroy,
    .get = cuda_get,
    .set = cuda_set,
    .run = cuda_run,
    .outputs = cuda_outputs,
    .describe = cuda_describe,
    .layer_text = cuda_layer_text,
    .sum_memory = iter__cuda_sum_memory,
    .gradients = iter__cuda_gradients,
    .update = iter__cuda_update_sums,
    .on_device = true,
    .collect = cuda_collect,
};
