/*
 * cuda_maps.c - operations on single numbers: bias, activation and dropout in one kernel; copies
 * into another order; sums for biases; and the dense layer, whose products cuBLAS computes.
 */
#include <stdio.h>

#include "engine/cuda/cuda_plan.h"
#include "engine/engine_error.h"

/* ---- Copies ---------------------------------------------------------------------------------- */

cuda_numbers_at iter__cuda_end_of(const cuda_plan *plan, const cuda_place *place, CUdeviceptr at) {
    const cuda_numbers_at end = {at,
                                 plan->numbers.type,
                                 place->row_stride,
                                 {place->strides[0], place->strides[1], place->strides[2]}};
    return end;
}

/* The dimension that is outermost in a copy's loop. What is contiguous in `to` is innermost. */
static int first_of(const cuda_place *place, const cuda_numbers_at *to) {
    return to->strides[0] == 1 && place->dims[0] > 1;
}

static engine_source source_of(const cuda_numbers_at *from, int first, int64_t n_rows) {
    engine_source source = {.at = from->at, .row = from->row_stride, .n_rows = (int32_t)n_rows};
    for (int i = 0; i < 3; i++)
        source.strides[i] = from->strides[(i + first) % 3];
    return source;
}

static engine_copy_args copy_args(const cuda_plan *plan, const cuda_place *place,
                                  const cuda_numbers_at *to) {
    const int64_t *d = place->dims;
    engine_copy_args args = {.to = to->at,
                             .n = plan->net->batch * d[0] * d[1] * d[2],
                             .to_row = to->row_stride,
                             .to_type = (int32_t)to->type};
    for (int i = 0, first = first_of(place, to); i < 3; i++) {
        args.dims[i] = d[(i + first) % 3];
        args.to_strides[i] = to->strides[(i + first) % 3];
    }
    return args;
}

iter_status iter__cuda_copy(cuda_plan *plan, const cuda_place *place, const cuda_numbers_at *from,
                            const cuda_numbers_at *to, iter_error *err) {
    engine_copy_args args = copy_args(plan, place, to);
    args.from = source_of(from, first_of(place, to), plan->net->batch);
    args.from_type = (int32_t)from->type;
    return iter__machine_launch_over(&plan->machine, kernel_engine_copy, args.n, &args, err);
}

iter_status iter__cuda_copy_data(cuda_plan *plan, engine_type type, iter_error *err) {
    const cuda_place *place = &plan->places[0];
    const cuda_numbers_at to = iter__cuda_end_of(plan, place, place->values);
    engine_copy_args args = copy_args(plan, place, &to);
    args.source = plan->step + offsetof(engine_step, data);
    args.from_type = (int32_t)type;
    return iter__machine_launch_over(&plan->machine, kernel_engine_copy, args.n, &args, err);
}

engine_source iter__cuda_data_source(const cuda_plan *plan, const cuda_numbers_at *data,
                                     int64_t n_rows) {
    const cuda_place *place = &plan->places[0];
    if (plan->net->input.ids) return source_of(data, 0, n_rows);
    const cuda_numbers_at to = iter__cuda_end_of(plan, place, place->values);
    return source_of(data, first_of(place, &to), n_rows);
}

/* Features in the order C, H, W or T, F: [rows, features]. */
static cuda_numbers_at flat_end(const cuda_plan *plan, const cuda_place *place, CUdeviceptr at) {
    const int64_t *d = place->dims;
    const cuda_numbers_at end = {
        at, plan->numbers.type, d[0] * d[1] * d[2], {d[1] * d[2], d[2], 1}};
    return end;
}

static iter_status flatten_forward(cuda_plan *plan, const cuda_node *node, bool training,
                                   iter_error *err) {
    (void)training;
    const cuda_place *in = &plan->places[node->in];
    const cuda_numbers_at from = iter__cuda_end_of(plan, in, in->values),
                          to = flat_end(plan, in, plan->places[node->out].values);
    return iter__cuda_copy(plan, in, &from, &to, err);
}

static iter_status flatten_backward(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    const cuda_place *in = &plan->places[node->in];
    const cuda_numbers_at from = flat_end(plan, in, plan->places[node->out].gradient),
                          to = iter__cuda_end_of(plan, in, in->gradient);
    return iter__cuda_copy(plan, in, &from, &to, err);
}

const cuda_node_ops iter__cuda_flatten = {
    .forward = flatten_forward,
    .backward = flatten_backward,
};

/* ---- Sums over all but the channels ---------------------------------------------------------- */

#define INNER_SHARE 4096 /* numbers of a channel that one block sums */
#define OUTER_SHARE 256  /* rows, if channels are contiguous */
#define CHUNKS_MOST 128

static engine_sums_args sums_args(const cuda_place *place) {
    const bool inner = place->order == ENGINE_NCHW;
    engine_sums_args args = {.channels = (int32_t)place->channels,
                             .inner = inner ? (int32_t)place->strides[0] : 1};
    args.outer = place->n_elements / (args.channels * (int64_t)args.inner);
    int64_t chunks = inner ? args.outer * args.inner / INNER_SHARE : args.outer / OUTER_SHARE;
    if (chunks < 1) chunks = 1;
    args.chunks = chunks < CHUNKS_MOST ? (int32_t)chunks : CHUNKS_MOST;
    return args;
}

int64_t iter__cuda_sum_partial(const cuda_place *place) {
    return place->channels * CHUNKS_MOST;
}

iter_status iter__cuda_sum(cuda_plan *plan, const cuda_place *place, CUdeviceptr in,
                           CUdeviceptr out, int64_t n_out, iter_error *err) {
    engine_sums_args args = sums_args(place);
    args.in = in;
    args.out = out;
    args.partial = plan->partial;
    args.n_out = (int32_t)n_out;
    args.type = (int32_t)plan->numbers.type;
    const bool inner = place->order == ENGINE_NCHW;
    const int64_t groups = inner ? args.channels : (args.channels + 31) / 32;
    ENGINE_TRY(iter__machine_launch(&plan->machine,
                                    inner ? kernel_engine_sums_inner : kernel_engine_sums_outer,
                                    groups * args.chunks, &args, err));
    return iter__machine_launch_over(&plan->machine, kernel_engine_sums_end, n_out, &args, err);
}

/* ---- Bias, activation, dropout --------------------------------------------------------------- */

static iter_status map_place(cuda_plan *plan, cuda_node *node, iter_error *err) {
    (void)err;
    cuda_map *map = &node->as.map;
    if (map->bias < 0) return ITER_OK;
    const int64_t n = plan->net->params[map->bias].n_elements;
    const int64_t partial = iter__cuda_sum_partial(&plan->places[node->in]);
    if (partial > plan->n_partial) plan->n_partial = partial;
    map->bias_gradient = iter__cuda_take(plan, n, sizeof(float));
    iter__cuda_add_piece(plan, map->bias, 0, n, map->bias_gradient, false, 0, false);
    return ITER_OK;
}

static engine_map_args map_args(const cuda_plan *plan, const cuda_node *node, bool training) {
    const cuda_place *place = &plan->places[node->in];
    const cuda_map *map = &node->as.map;
    const int64_t pixels = place->dims[1] * place->dims[2];
    const bool image = place->order != ENGINE_TNF;
    engine_map_args args = {.n = place->n_elements,
                            .bias = map->bias >= 0 ? iter__cuda_master(plan, map->bias) : 0,
                            .step = plan->step,
                            .order = (int32_t)place->order,
                            .activation = (int32_t)map->activation,
                            .type = plan->numbers.type,
                            .channels = (int32_t)(image ? place->dims[0] : place->channels),
                            .scale = 1};
    args.b = (int32_t)(place->order == ENGINE_NCHW   ? place->channels
                       : place->order == ENGINE_NHWC ? pixels
                                                     : plan->net->batch);
    args.c = (int32_t)(place->order == ENGINE_NCHW ? pixels : place->channels);
    if (map->dropout < 0 || !training) return args;
    const engine_layer *layer = &plan->net->layers[map->dropout];
    const double p = layer->options.dropout.p;
    args.drops = 1;
    args.block = (int32_t)((place->dims[0] + 15) / 16 * 16);
    args.threshold = iter__dropout_threshold(p);
    args.key[0] = (uint32_t)layer->rng_key;
    args.key[1] = (uint32_t)(layer->rng_key >> 32);
    args.scale = (float)(1 / (1 - p));
    return args;
}

/* A thread's elements are of one line, and its accesses aligned. */
static int32_t lanes_of(const engine_map_args *args) {
    const engine_address all = args->in | args->out | args->gradient;
    return args->c % ENGINE_LANES == 0 && all % (4 * ENGINE_LANES) == 0 ? ENGINE_LANES : 1;
}

static iter_status map_forward(cuda_plan *plan, const cuda_node *node, bool training,
                               iter_error *err) {
    engine_map_args args = map_args(plan, node, training);
    args.in = plan->places[node->in].values;
    args.out = plan->places[node->out].values;
    args.lanes = lanes_of(&args);
    return iter__machine_launch_over(&plan->machine, kernel_engine_map, args.n / args.lanes, &args,
                                     err);
}

static iter_status map_backward(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    const cuda_map *map = &node->as.map;
    const cuda_place *in = &plan->places[node->in];
    engine_map_args args = map_args(plan, node, true);
    args.in = plan->places[node->out].gradient;
    args.out = plan->places[node->out].values;
    args.gradient = in->gradient;
    args.lanes = lanes_of(&args);
    if (args.drops || args.activation != ENGINE_AS_IT_IS)
        ENGINE_TRY(iter__machine_launch_over(&plan->machine, kernel_engine_map_back,
                                             args.n / args.lanes, &args, err));
    if (map->bias < 0) return ITER_OK;
    return iter__cuda_sum(plan, in, in->gradient, map->bias_gradient,
                          plan->net->params[map->bias].n_elements, err);
}

static void map_text(const cuda_plan *plan, const cuda_node *node, char *out, size_t capacity) {
    (void)plan;
    const cuda_map *map = &node->as.map;
    const int n_parts =
        (map->bias >= 0) + (map->activation != ENGINE_AS_IT_IS) + (map->dropout >= 0);
    if (n_parts > 1)
        snprintf(out, capacity, "%s%s%sin one kernel", map->bias >= 0 ? "bias, " : "",
                 map->activation != ENGINE_AS_IT_IS ? "activation " : "",
                 map->dropout >= 0 ? "and dropout " : "");
}

const cuda_node_ops iter__cuda_map_node = {
    .place = map_place,
    .forward = map_forward,
    .backward = map_backward,
    .text = map_text,
};

/* ---- Dense ----------------------------------------------------------------------------------- */

static iter_status dense_place(cuda_plan *plan, cuda_node *node, iter_error *err) {
    (void)err;
    const int32_t p = plan->net->layers[node->first_layer].first_param;
    const int64_t n = plan->net->params[p].n_elements;
    const engine_type type = plan->numbers.type;
    const CUdeviceptr copy = type != ENGINE_F32 ? iter__cuda_take(plan, n, 2) : 0;
    node->weights.gradient = iter__cuda_take(plan, n, sizeof(float));
    node->weights.at = type != ENGINE_F32 ? copy : iter__cuda_master(plan, p);
    iter__cuda_add_piece(plan, p, 0, n, node->weights.gradient, ENGINE_F32, copy, type);
    return ITER_OK;
}

static blas_product product_of(const cuda_plan *plan, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c) {
    const blas_product product = {.a = a,
                                  .b = b,
                                  .c = c,
                                  .type = plan->numbers.type,
                                  .c_type = plan->numbers.type,
                                  .tf32 = plan->numbers.tf32};
    return product;
}

static iter_status dense_forward(cuda_plan *plan, const cuda_node *node, bool training,
                                 iter_error *err) {
    (void)training;
    const cuda_place *in = &plan->places[node->in], *out = &plan->places[node->out];
    blas_product y = product_of(plan, in->values, node->weights.at, out->values);
    y.rows = plan->net->batch;
    y.inner = in->channels;
    y.columns = out->channels;
    y.b_transposed = true;
    return iter__blas_product(&plan->machine, &y, err);
}

static iter_status dense_backward(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    const cuda_place *in = &plan->places[node->in], *out = &plan->places[node->out];
    blas_product d_w = product_of(plan, out->gradient, in->values, node->weights.gradient);
    d_w.rows = out->channels;
    d_w.inner = plan->net->batch;
    d_w.columns = in->channels;
    d_w.a_transposed = true;
    d_w.c_type = ENGINE_F32;
    ENGINE_TRY(iter__blas_product(&plan->machine, &d_w, err));
    if (!in->gradient) return ITER_OK;
    blas_product d_x = product_of(plan, out->gradient, node->weights.at, in->gradient);
    d_x.rows = plan->net->batch;
    d_x.inner = out->channels;
    d_x.columns = in->channels;
    return iter__blas_product(&plan->machine, &d_x, err);
}

static void dense_text(const cuda_plan *plan, const cuda_node *node, char *out, size_t capacity) {
    (void)plan;
    (void)node;
    snprintf(out, capacity, "cuBLAS");
}

const cuda_node_ops iter__cuda_dense = {
    .place = dense_place,
    .forward = dense_forward,
    .backward = dense_backward,
    .text = dense_text,
};
