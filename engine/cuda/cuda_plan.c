/*
 * cuda_plan.c - lays a net out on a GPU, once.
 *
 * The same code lays everything out twice: first without memory, to add up the sizes, then in one
 * allocation of that size. Workspace of the libraries is a second allocation, because its size
 * depends on the measured algorithms, and measuring needs the first. All memory starts as zeros.
 */
#include "engine/cuda/cuda_plan.h"

#include <assert.h>
#include <string.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"

#define ALIGNMENT 256
/* Most workspace that measuring may use. */
#define TRIAL_MOST ((size_t)1 << 30)

static size_t round_up(size_t n) {
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

CUdeviceptr iter__cuda_take(cuda_plan *plan, int64_t n, size_t size) {
    const size_t at = plan->taken;
    plan->taken += round_up((size_t)n * size);
    return plan->memory ? plan->memory + at : 0;
}

const char *iter__cuda_numbers_text(const cuda_numbers *numbers) {
    return numbers->type == ENGINE_F16    ? "f16"
           : numbers->type == ENGINE_BF16 ? "bf16"
           : numbers->tf32                ? "TF32"
                                          : "f32";
}

bool iter__cuda_is_scaled(const cuda_plan *plan) {
    return plan->numbers.type == ENGINE_F16;
}

size_t iter__cuda_number_bytes(const cuda_plan *plan) {
    return plan->numbers.type == ENGINE_F32 ? 4 : 2;
}

CUdeviceptr iter__cuda_master(const cuda_plan *plan, int32_t param) {
    return plan->weights ? plan->weights + plan->params[param].first * sizeof(float) : 0;
}

engine_piece *iter__cuda_add_piece(cuda_plan *plan, int32_t param, int64_t first, int64_t n,
                                   CUdeviceptr gradient, engine_type gradient_type,
                                   CUdeviceptr compute, engine_type compute_type) {
    assert(plan->n_pieces < CUDA_MAX_PIECES);
    cuda_param *of = &plan->params[param];
    engine_piece *piece = &plan->pieces[plan->n_pieces];
    if (of->n_pieces++ == 0) of->first_piece = plan->n_pieces;
    plan->n_pieces++;
    *piece = (engine_piece){.first = of->first + (uint64_t)first,
                            .n = (uint64_t)n,
                            .gradient = gradient,
                            .compute = compute,
                            .plain = 1,
                            .dims = {1, 1, 1},
                            .gradient_type = (int32_t)gradient_type,
                            .compute_type = (int32_t)compute_type,
                            .decays = !plan->net->params[param].bias};
    return piece;
}

/* ---- Laying out ------------------------------------------------------------------------------ */

static void lay_out_masters(cuda_plan *plan) {
    const engine_net *net = plan->net;
    uint64_t n = 0;
    for (int32_t p = 0; p < net->n_params; p++) {
        plan->params[p] = (cuda_param){.first = n};
        n += round_up((size_t)net->params[p].n_elements * sizeof(float)) / sizeof(float);
    }
    plan->n_weights = n;
    plan->weights = iter__cuda_take(plan, (int64_t)n, sizeof(float));
    for (int32_t i = 0; i < iter__optimizer_n_moments(plan->optimizer); i++)
        plan->moments[i] = iter__cuda_take(plan, (int64_t)n, sizeof(float));
}

static void lay_out_places(cuda_plan *plan) {
    const size_t size = iter__cuda_number_bytes(plan);
    for (int32_t i = 0; i < plan->n_places; i++) {
        cuda_place *place = &plan->places[i];
        const cuda_place *owner = &plan->places[place->shares];
        if (place->shape.ids) continue;
        if (place->shares == i)
            place->values = iter__cuda_take(plan, place->n_elements, size);
        else
            place->values = owner->values;
        if (place->shares_values && plan->memory)
            place->values += (CUdeviceptr)(owner->n_elements - place->n_elements) * size;
        if (!place->wants) continue;
        place->gradient = place->shares == i || place->shares_values
                              ? iter__cuda_take(plan, place->n_elements, size)
                              : owner->gradient;
    }
}

/* Counts the chunks of all parameters, from their pieces. */
static void count_chunks(cuda_plan *plan) {
    plan->n_chunks = 0;
    for (int32_t p = 0; p < plan->net->n_params; p++) {
        cuda_param *param = &plan->params[p];
        param->first_chunk = plan->n_chunks;
        for (int32_t i = 0; i < param->n_pieces; i++) {
            const uint64_t n = plan->pieces[param->first_piece + i].n;
            plan->n_chunks += (uint32_t)((n + ENGINE_CHUNK - 1) / ENGINE_CHUNK);
        }
        param->n_chunks = plan->n_chunks - param->first_chunk;
    }
}

static void lay_out_rest(cuda_plan *plan) {
    const engine_net *net = plan->net;
    const int64_t rows = net->batch;
    int64_t most = 1;
    for (int32_t p = 0; p < net->n_params; p++)
        most = larger(most, net->params[p].n_elements);
    if (plan->sums) most = larger(most, (int64_t)plan->n_weights);
    plan->gathered = iter__cuda_take(plan, most, sizeof(float));
    plan->device_pieces = iter__cuda_take(plan, plan->n_pieces, sizeof(engine_piece));
    if (plan->sums) plan->sum_pieces = iter__cuda_take(plan, plan->n_pieces, sizeof(engine_piece));
    plan->device_chunks = iter__cuda_take(plan, plan->n_chunks, sizeof(engine_chunk));
    plan->step_bytes = round_up(sizeof(engine_step) + (size_t)rows);
    plan->step = iter__cuda_take(plan, 1, plan->step_bytes);
    plan->tally = iter__cuda_take(plan, 1, sizeof(engine_tally));
    plan->losses = iter__cuda_take(plan, rows, sizeof(double));
    plan->correct = iter__cuda_take(plan, rows, sizeof(int32_t));
    plan->partial = iter__cuda_take(plan, plan->n_partial, sizeof(float));
    plan->lengths = iter__cuda_take(plan, rows, sizeof(int32_t));
    plan->staged[0] = iter__cuda_take(plan, 1, iter_desc_bytes(&net->data));
    plan->staged[1] = iter__cuda_take(plan, 1, iter_desc_bytes(&net->label));
    plan->blank_label = iter__cuda_take(plan, 1, iter_desc_bytes(&net->label));
    plan->outputs = iter__cuda_take(plan, rows * net->n_outputs, sizeof(float));
    if (net->input.ids)
        plan->ids = iter__cuda_take(plan, rows * net->input.dims[0], sizeof(int32_t));
    if (plan->keep_input_gradient)
        plan->data_gradient =
            iter__cuda_take(plan, rows * iter__shape_elements(&net->input), sizeof(float));
}

static iter_status lay_out(cuda_plan *plan, iter_error *err) {
    plan->taken = 0;
    plan->n_pieces = 0;
    lay_out_masters(plan);
    lay_out_places(plan);
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        cuda_node *node = &plan->nodes[i];
        if (!node->ops->place) continue;
        const iter_status status = node->ops->place(plan, node, err);
        if (status < 0)
            return iter__engine_fail_in(err, status, "%s",
                                        plan->net->layers[node->first_layer].name);
    }
    count_chunks(plan);
    lay_out_rest(plan);
    return ITER_OK;
}

/* ---- Filling --------------------------------------------------------------------------------- */

static iter_status write_chunks(cuda_plan *plan, iter_error *err) {
    engine_chunk *chunks = iter__engine_alloc(plan->n_chunks + 1, sizeof(*chunks));
    uint32_t n = 0;
    if (!chunks) return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    for (int32_t i = 0; i < plan->n_pieces; i++)
        for (uint64_t first = 0; first < plan->pieces[i].n; first += ENGINE_CHUNK)
            chunks[n++] = (engine_chunk){(uint32_t)i, 0, first};
    assert(n == plan->n_chunks);
    iter_status status = ITER_OK;
    if (n > 0)
        status = iter__machine_write(&plan->machine, plan->device_chunks, chunks,
                                     n * sizeof(*chunks), err);
    iter__engine_free(chunks);
    if (status >= 0 && n > 0)
        status = iter__machine_write(&plan->machine, plan->device_pieces, plan->pieces,
                                     (size_t)plan->n_pieces * sizeof(*plan->pieces), err);
    return status;
}

/* The pieces whose gradients are in `gathered`, in the masters' order. Copies of the weights are in
 * another order, so these have none. */
static iter_status write_sum_pieces(cuda_plan *plan, iter_error *err) {
    const size_t n = (size_t)plan->n_pieces;
    engine_piece *pieces = iter__engine_alloc(n + 1, sizeof(*pieces));
    if (!pieces) return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const engine_piece *p = &plan->pieces[i];
        pieces[i] = (engine_piece){.first = p->first,
                                   .n = p->n,
                                   .gradient = plan->gathered + p->first * sizeof(float),
                                   .plain = 1,
                                   .decays = p->decays};
    }
    const iter_status status =
        iter__machine_write(&plan->machine, plan->sum_pieces, pieces, n * sizeof(*pieces), err);
    iter__engine_free(pieces);
    return status;
}

/* Writes the lengths of sequences, and an empty tally. */
static iter_status fill(cuda_plan *plan, iter_error *err) {
    cuda_machine *m = &plan->machine;
    engine_tally tally = {.bad_id = ENGINE_NO_PLACE, .bad_label = ENGINE_NO_PLACE, .scale = 1024};
    unsigned steps = 0;
    for (int32_t i = 0; i < plan->net->n_layers; i++)
        if (plan->net->layers[i].kind == ENGINE_GRU)
            steps = (unsigned)plan->net->layers[i].in.dims[0];
    CUDA_CALL(m, err, cuMemsetD8Async, (plan->memory, 0, plan->memory_bytes, m->stream));
    CUDA_CALL(m, err, cuMemsetD32Async,
              (plan->lengths, steps, (size_t)plan->net->batch, m->stream));
    ENGINE_TRY(iter__machine_write(m, plan->tally, &tally, sizeof(tally), err));
    ENGINE_TRY(write_chunks(plan, err));
    return plan->sums && plan->n_pieces > 0 ? write_sum_pieces(plan, err) : ITER_OK;
}

/* Nodes that can choose measure their algorithms, in memory that is freed afterwards; if measuring
 * fails, drop() frees it. */
static iter_status measure(cuda_plan *plan, iter_error *err) {
    cuda_machine *m = &plan->machine;
    size_t left = 0, total = 0;
    CUDA_CALL(m, err, cuMemGetInfo, (&left, &total));
    const size_t bytes = left / 2 < TRIAL_MOST ? left / 2 : TRIAL_MOST;
    ENGINE_TRY(iter__machine_alloc(m, bytes, "trials of algorithms", &plan->workspace, err));
    for (int32_t i = 0; i < plan->n_nodes; i++)
        if (plan->nodes[i].ops->measure)
            ENGINE_TRY(
                plan->nodes[i].ops->measure(plan, &plan->nodes[i], plan->workspace, bytes, err));
    ENGINE_TRY(iter__machine_sync(m, err));
    const CUdeviceptr workspace = plan->workspace;
    plan->workspace = 0;
    CUDA_CALL(m, err, cuMemFree, (workspace));
    return ITER_OK;
}

/* One workspace for cuDNN's calls, which never overlap, and one for cuBLAS. */
static iter_status take_workspace(cuda_plan *plan, iter_error *err) {
    cuda_machine *m = &plan->machine;
    const size_t blas = m->blas.library ? iter__blas_workspace_bytes(m) : 0;
    size_t dnn = 0;
    for (int32_t i = 0; i < plan->n_nodes; i++)
        if (plan->nodes[i].workspace_bytes > dnn) dnn = plan->nodes[i].workspace_bytes;
    dnn = round_up(dnn);
    plan->workspace_bytes = dnn + blas;
    ENGINE_TRY(iter__machine_alloc(m, plan->workspace_bytes, "what cuDNN and cuBLAS work in",
                                   &plan->workspace, err));
    return blas ? iter__blas_set_workspace(m, plan->workspace + dnn, blas, err) : ITER_OK;
}

/* ---- Public ---------------------------------------------------------------------------------- */

static bool has_kind(const engine_net *net, const engine_kind *kinds, int n) {
    for (int32_t i = 0; i < net->n_layers; i++)
        for (int k = 0; k < n; k++)
            if (net->layers[i].kind == kinds[k]) return true;
    return false;
}

static void set_numbers(cuda_plan *plan, int32_t precision) {
    plan->numbers.type = precision == ITER_PRECISION_F16    ? ENGINE_F16
                         : precision == ITER_PRECISION_BF16 ? ENGINE_BF16
                                                            : ENGINE_F32;
    plan->numbers.tf32 = precision == ITER_PRECISION_TF32;
    plan->numbers.channels_last = precision != ITER_PRECISION_F32;
}

/* Kernels and library calls number their elements in 32 bits. */
static iter_status check_sizes(const cuda_plan *plan, iter_error *err) {
    int64_t most = 0;
    for (int32_t i = 0; i < plan->n_places; i++)
        most = larger(most, plan->places[i].n_elements);
    for (int32_t p = 0; p < plan->net->n_params; p++)
        most = larger(most, plan->net->params[p].n_elements);
    if (most <= INT32_MAX) return ITER_OK;
    return iter__engine_fail(err, ITER_EUNSUPPORTED,
                             "a tensor of the net has %lld numbers, this backend takes %d: lower "
                             "the batch size",
                             (long long)most, INT32_MAX);
}

static void drop_nodes(cuda_plan *plan) {
    for (int32_t i = 0; i < plan->n_nodes; i++)
        if (plan->nodes[i].ops->drop) plan->nodes[i].ops->drop(plan, &plan->nodes[i]);
    plan->n_nodes = 0;
}

static iter_status prepare_nodes(cuda_plan *plan, iter_error *err) {
    ENGINE_TRY(iter__cuda_make_nodes(plan, err));
    ENGINE_TRY(check_sizes(plan, err));
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        cuda_node *node = &plan->nodes[i];
        if (!node->ops->prepare) continue;
        const iter_status status = node->ops->prepare(plan, node, err);
        if (status < 0)
            return iter__engine_fail_in(err, status, "%s",
                                        plan->net->layers[node->first_layer].name);
    }
    return ITER_OK;
}

/* The part of making that needs the context. */
static iter_status make_inside(cuda_plan *plan, iter_error *err) {
    cuda_machine *m = &plan->machine;
    iter_status status = prepare_nodes(plan, err);
    if (status == ITER_EUNSUPPORTED && plan->numbers.channels_last &&
        plan->net->input.n_dims == 3) {
        drop_nodes(plan); /* cuDNN has no algorithm for some layer in NHWC; try NCHW */
        plan->numbers.channels_last = false;
        status = prepare_nodes(plan, err);
    }
    if (status < 0) return status;
    ENGINE_TRY(lay_out(plan, err));
    plan->memory_bytes = plan->taken;
    ENGINE_TRY(
        iter__machine_alloc(m, plan->memory_bytes, "the net and its batches", &plan->memory, err));
    ENGINE_TRY(lay_out(plan, err));
    if (plan->algorithms != ITER_ALGORITHMS_DETERMINISTIC) ENGINE_TRY(measure(plan, err));
    ENGINE_TRY(fill(plan, err)); /* overwrites what measuring left there */
    return take_workspace(plan, err);
}

iter_status iter__cuda_plan_make(cuda_plan *plan, const engine_backend_config *config,
                                 iter_error *err) {
    static const engine_kind of_dnn[] = {ENGINE_CONV2D, ENGINE_GRU};
    static const engine_kind of_blas[] = {ENGINE_DENSE, ENGINE_GRU};
    plan->net = config->net;
    plan->optimizer = config->optimizer;
    plan->keep_input_gradient = config->keep_input_gradient && !config->net->input.ids;
    plan->sums = config->sums_with != NULL;
    plan->algorithms = config->algorithms;
    set_numbers(plan, config->precision);
    ENGINE_TRY(iter__machine_open(&plan->machine, config->device, has_kind(plan->net, of_dnn, 2),
                                  has_kind(plan->net, of_blas, 2), err));
    plan->pieces = iter__engine_alloc(CUDA_MAX_PIECES, sizeof(*plan->pieces));
    iter_status status =
        plan->pieces ? ITER_OK : iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    if (status >= 0) status = iter__machine_enter(&plan->machine, err);
    if (status >= 0) {
        status = make_inside(plan, err);
        iter__machine_leave(&plan->machine);
    }
    if (status < 0) iter__cuda_plan_drop(plan);
    return status;
}

void iter__cuda_plan_drop(cuda_plan *plan) {
    cuda_machine *m = &plan->machine;
    if (iter__machine_enter_to_free(m)) {
        m->cuda.cuStreamSynchronize(m->stream);
        drop_nodes(plan);
        if (plan->workspace) m->cuda.cuMemFree(plan->workspace);
        if (plan->memory) m->cuda.cuMemFree(plan->memory);
        iter__machine_leave(m);
    }
    iter__machine_close(m);
    iter__engine_free(plan->pieces);
    plan->pieces = NULL;
}
