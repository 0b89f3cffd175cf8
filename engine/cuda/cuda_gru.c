/*
 * cuda_gru.c - the gru that resets before the product, which cuDNN lacks: a step is two products by
 * cuBLAS and two of our kernels.
 *
 *     r = sigmoid(Wr x + br + Rr h + cr)         z = sigmoid(Wz x + bz + Rz h + cz)
 *     n = tanh(Wn x + bn + Rn (r * h) + cn)      h' = (1 - z) n + z h
 *
 * The products over x are computed for all steps at once. So are those of the weights' gradients:
 * each step stores the gradients of its three sums, which are the same over x and over h.
 */
#include <stdio.h>

#include "engine/cuda/cuda_plan.h"
#include "engine/engine_error.h"

typedef struct gru_sizes {
    int64_t rows, steps, features, units;
    size_t size; /* bytes of a number */
} gru_sizes;

static gru_sizes sizes_of(const cuda_plan *plan, const cuda_node *node) {
    const engine_layer *layer = &plan->net->layers[node->first_layer];
    const gru_sizes s = {plan->net->batch, layer->in.dims[0], layer->in.dims[1], layer->out.dims[1],
                         iter__cuda_number_bytes(plan)};
    return s;
}

static int32_t first_param(const cuda_plan *plan, const cuda_node *node) {
    return plan->net->layers[node->first_layer].first_param;
}

static iter_status before_place(cuda_plan *plan, cuda_node *node, iter_error *err) {
    (void)err;
    const gru_sizes s = sizes_of(plan, node);
    const engine_type type = plan->numbers.type;
    const int32_t p = first_param(plan, node);
    cuda_gru *g = &node->as.own_gru;
    const int64_t n = s.steps * s.rows * s.units;
    CUdeviceptr *const kept[] = {&g->r, &g->z, &g->cell, &g->aid};
    for (int i = 0; i < 4; i++)
        *kept[i] = iter__cuda_take(plan, n, s.size);
    g->over_input = iter__cuda_take(plan, 3 * n, s.size);
    g->d_gates = iter__cuda_take(plan, 3 * n, s.size);
    g->over_state = iter__cuda_take(plan, 3 * s.rows * s.units, s.size);
    g->d_state = iter__cuda_take(plan, s.rows * s.units, sizeof(float));
    g->d_aid = iter__cuda_take(plan, s.rows * s.units, sizeof(float));
    for (int32_t i = 0; i < 2; i++) {
        const int64_t count = plan->net->params[p + i].n_elements;
        const CUdeviceptr copy = type != ENGINE_F32 ? iter__cuda_take(plan, count, 2) : 0;
        g->weights[i].gradient = iter__cuda_take(plan, count, sizeof(float));
        g->weights[i].at = type != ENGINE_F32 ? copy : iter__cuda_master(plan, p + i);
        iter__cuda_add_piece(plan, p + i, 0, count, g->weights[i].gradient, ENGINE_F32, copy, type);
    }
    for (int32_t i = 0; i < 2; i++) {
        const int64_t count = 3 * s.units;
        g->bias_gradients[i] = iter__cuda_take(plan, count, sizeof(float));
        iter__cuda_add_piece(plan, p + 2 + i, 0, count, g->bias_gradients[i], false, 0, false);
    }
    const int64_t partial = 3 * iter__cuda_sum_partial(&plan->places[node->out]);
    if (partial > plan->n_partial) plan->n_partial = partial;
    return ITER_OK;
}

static engine_gru_args args_at(const cuda_plan *plan, const cuda_node *node, int64_t t) {
    const gru_sizes s = sizes_of(plan, node);
    const cuda_gru *g = &node->as.own_gru;
    const cuda_place *out = &plan->places[node->out];
    const CUdeviceptr step = (CUdeviceptr)(t * s.rows * s.units) * s.size;
    const CUdeviceptr one = (CUdeviceptr)(s.rows * s.units) * s.size;
    const int32_t p = first_param(plan, node);
    const engine_gru_args args = {.over_input = g->over_input + 3 * step,
                                  .over_state = g->over_state,
                                  .bias_input = iter__cuda_master(plan, p + 2),
                                  .bias_state = iter__cuda_master(plan, p + 3),
                                  .before = t > 0 ? out->values + step - one : 0,
                                  .after = out->values + step,
                                  .r = g->r + step,
                                  .z = g->z + step,
                                  .cell = g->cell + step,
                                  .aid = g->aid + step,
                                  .d_after = out->gradient + step,
                                  .d_state = g->d_state,
                                  .d_aid = g->d_aid,
                                  .d_gates = g->d_gates + 3 * step,
                                  .rows = (int32_t)s.rows,
                                  .units = (int32_t)s.units,
                                  .type = (int32_t)plan->numbers.type};
    return args;
}

static blas_product product_of(const cuda_plan *plan, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c,
                               int64_t rows, int64_t inner, int64_t columns) {
    const blas_product product = {.a = a,
                                  .b = b,
                                  .c = c,
                                  .rows = rows,
                                  .inner = inner,
                                  .columns = columns,
                                  .type = plan->numbers.type,
                                  .c_type = plan->numbers.type,
                                  .tf32 = plan->numbers.tf32};
    return product;
}

/* Gates [first, first + n) of over_state = h times their recurrent weights. */
static iter_status over_state(cuda_plan *plan, const cuda_node *node, CUdeviceptr h, int64_t first,
                              int64_t n, iter_error *err) {
    const gru_sizes s = sizes_of(plan, node);
    const cuda_gru *g = &node->as.own_gru;
    const size_t to = (size_t)(first * s.units) * s.size;
    blas_product product = product_of(plan, h, g->weights[1].at + to * (size_t)s.units,
                                      g->over_state + to, s.rows, s.units, n * s.units);
    product.b_transposed = true;
    product.c_stride = 3 * s.units;
    return iter__blas_product(&plan->machine, &product, err);
}

static iter_status before_forward(cuda_plan *plan, const cuda_node *node, bool training,
                                  iter_error *err) {
    (void)training;
    const gru_sizes s = sizes_of(plan, node);
    const cuda_gru *g = &node->as.own_gru;
    cuda_machine *m = &plan->machine;
    blas_product all = product_of(plan, plan->places[node->in].values, g->weights[0].at,
                                  g->over_input, s.steps * s.rows, s.features, 3 * s.units);
    all.b_transposed = true;
    ENGINE_TRY(iter__blas_product(m, &all, err));
    for (int64_t t = 0; t < s.steps; t++) {
        const engine_gru_args args = args_at(plan, node, t);
        if (t > 0) ENGINE_TRY(over_state(plan, node, args.before, 0, 2, err));
        ENGINE_TRY(
            iter__machine_launch_over(m, kernel_engine_gru_gates, s.rows * s.units, &args, err));
        if (t > 0) ENGINE_TRY(over_state(plan, node, args.aid, 2, 1, err));
        ENGINE_TRY(
            iter__machine_launch_over(m, kernel_engine_gru_state, s.rows * s.units, &args, err));
    }
    return ITER_OK;
}

/* From the gradients of gates [first, first + n) to the gradient of their input: f32 [rows,
 * units]. */
static iter_status to_state(cuda_plan *plan, const cuda_node *node, int64_t t, int64_t first,
                            int64_t n, CUdeviceptr to, bool adds, iter_error *err) {
    const gru_sizes s = sizes_of(plan, node);
    const cuda_gru *g = &node->as.own_gru;
    const size_t gate = (size_t)(first * s.units) * s.size;
    const size_t step = (size_t)(3 * t * s.rows * s.units) * s.size;
    blas_product product =
        product_of(plan, g->d_gates + step + gate, g->weights[1].at + gate * (size_t)s.units, to,
                   s.rows, n * s.units, s.units);
    product.a_stride = 3 * s.units;
    product.c_type = ENGINE_F32;
    product.adds = adds;
    return iter__blas_product(&plan->machine, &product, err);
}

static iter_status back_through_steps(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    const gru_sizes s = sizes_of(plan, node);
    const cuda_gru *g = &node->as.own_gru;
    cuda_machine *m = &plan->machine;
    CUDA_CALL(m, err, cuMemsetD32Async, (g->d_state, 0, (size_t)(s.rows * s.units), m->stream));
    for (int64_t t = s.steps - 1; t >= 0; t--) {
        const engine_gru_args args = args_at(plan, node, t);
        ENGINE_TRY(
            iter__machine_launch_over(m, kernel_engine_gru_back, s.rows * s.units, &args, err));
        ENGINE_TRY(to_state(plan, node, t, 2, 1, g->d_aid, false, err));
        ENGINE_TRY(iter__machine_launch_over(m, kernel_engine_gru_back_reset, s.rows * s.units,
                                             &args, err));
        if (t > 0) ENGINE_TRY(to_state(plan, node, t, 0, 2, g->d_state, true, err));
    }
    return ITER_OK;
}

/* [n_gates units, columns] = transposed gradients of gates, from step t on, times the input of
 * their product. */
static iter_status weights_gradient(cuda_plan *plan, const cuda_node *node, int64_t t,
                                    int64_t first, int64_t n_gates, CUdeviceptr over,
                                    int64_t columns, CUdeviceptr to, iter_error *err) {
    const gru_sizes s = sizes_of(plan, node);
    const cuda_gru *g = &node->as.own_gru;
    const size_t from = (size_t)(3 * t * s.rows * s.units + first * s.units) * s.size;
    blas_product product = product_of(plan, g->d_gates + from, over, to, n_gates * s.units,
                                      (s.steps - t) * s.rows, columns);
    product.a_transposed = true;
    product.a_stride = 3 * s.units;
    product.c_type = ENGINE_F32;
    return iter__blas_product(&plan->machine, &product, err);
}

static iter_status before_backward(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    const gru_sizes s = sizes_of(plan, node);
    const cuda_gru *g = &node->as.own_gru;
    const cuda_place *in = &plan->places[node->in], *out = &plan->places[node->out];
    cuda_machine *m = &plan->machine;
    const CUdeviceptr recurrent = g->weights[1].gradient;
    const size_t n_gates = (size_t)(2 * s.units * s.units);
    ENGINE_TRY(back_through_steps(plan, node, err));
    ENGINE_TRY(
        weights_gradient(plan, node, 0, 0, 3, in->values, s.features, g->weights[0].gradient, err));
    if (s.steps > 1)
        ENGINE_TRY(weights_gradient(plan, node, 1, 0, 2, out->values, s.units, recurrent, err));
    else
        CUDA_CALL(m, err, cuMemsetD32Async, (recurrent, 0, n_gates, m->stream));
    ENGINE_TRY(weights_gradient(plan, node, 0, 2, 1, g->aid, s.units,
                                recurrent + n_gates * sizeof(float), err));
    cuda_place gates = *out;
    gates.channels = 3 * s.units;
    gates.n_elements = 3 * out->n_elements;
    for (int i = 0; i < 2; i++)
        ENGINE_TRY(
            iter__cuda_sum(plan, &gates, g->d_gates, g->bias_gradients[i], 3 * s.units, err));
    if (!in->gradient) return ITER_OK;
    const blas_product d_x = product_of(plan, g->d_gates, g->weights[0].at, in->gradient,
                                        s.steps * s.rows, 3 * s.units, s.features);
    return iter__blas_product(m, &d_x, err);
}

static void before_text(const cuda_plan *plan, const cuda_node *node, char *out, size_t capacity) {
    (void)plan;
    (void)node;
    snprintf(out, capacity, "cuBLAS, step by step");
}

const cuda_node_ops iter__cuda_gru_before = {
    .place = before_place,
    .forward = before_forward,
    .backward = before_backward,
    .text = before_text,
};
