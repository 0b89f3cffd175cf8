/*
 * cpu_dense.c - products with a matrix.
 *
 *     out = in W^T + bias      dW = dout^T in      din = dout W      dbias = sum of rows of dout
 *
 * We divide each product among the threads along the side of W: every thread then reads its part of
 * W once, and multiplies alone. The first product is computed as W in^T and then transposed: if W
 * is large, oneDNN's sgemm needs a third less time for that (2.6.3, 512 x 6400 and 64 rows).
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/cpu_parallel.h"
#include "engine/engine_error.h"

#define COLUMNS 16 /* minimum of a part: a cache line */
#define SQUARE  16

typedef struct dense_node {
    cpu_node node;
    int64_t rows, in, out;
    bool bias;
    float *turned; /* [out, rows] */
    /* A part of this run failed. Relaxed, because the end of a parallel region orders it. */
    atomic_bool failed;
} dense_node;

/* This thread's part of n columns. */
static int64_t part(int64_t n, uint32_t t, uint32_t threads, int64_t *begin) {
    const int64_t lines = (n + COLUMNS - 1) / COLUMNS;
    int64_t end = COLUMNS * iter__cpu_part(lines, t + 1, threads);
    *begin = COLUMNS * iter__cpu_part(lines, t, threads);
    if (end > n) end = n;
    return end - *begin;
}

/* out [rows, columns at .. at + n) from turned and the bias, in squares that stay in the cache. */
static void turn(const dense_node *d, int64_t at, int64_t n) {
    const float *bias = d->bias ? d->node.params[1].weight : NULL;
    for (int64_t i = 0; i < d->rows; i += SQUARE)
        for (int64_t j = at; j < at + n; j += SQUARE)
            for (int64_t r = i; r < i + SQUARE && r < d->rows; r++)
                for (int64_t c = j; c < j + SQUARE && c < at + n; c++)
                    d->node.out->values[r * d->out + c] =
                        d->turned[c * d->rows + r] + (bias ? bias[c] : 0.0f);
}

static void fail_part(dense_node *d) {
    atomic_store_explicit(&d->failed, true, memory_order_relaxed);
}

static void forward_part(void *user, uint32_t t, uint32_t threads) {
    dense_node *d = user;
    const cpu_node *node = &d->node;
    int64_t at;
    const int64_t n = part(d->out, t, threads, &at);
    if (n <= 0) return;
    if (!iter__dnn_sgemm(false, true, n, d->rows, d->in, node->params[0].weight + at * d->in, d->in,
                         node->in->values, d->in, 0.0f, d->turned + at * d->rows, d->rows))
        fail_part(d);
    turn(d, at, n);
}

static void weights_part(void *user, uint32_t t, uint32_t threads) {
    dense_node *d = user;
    const cpu_node *node = &d->node;
    int64_t at;
    const int64_t n = part(d->out, t, threads, &at);
    const float *dout = node->out->gradient + at;
    if (n <= 0) return;
    if (!iter__dnn_sgemm(true, false, n, d->in, d->rows, dout, d->out, node->in->values, d->in,
                         0.0f, node->params[0].gradient + at * d->in, d->in))
        fail_part(d);
    if (!d->bias) return;
    float *dbias = node->params[1].gradient + at;
    memset(dbias, 0, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < d->rows; i++)
        node->shared->kernels->add(n, dout + i * d->out, dbias);
}

static void data_part(void *user, uint32_t t, uint32_t threads) {
    dense_node *d = user;
    const cpu_node *node = &d->node;
    int64_t at;
    const int64_t n = part(d->in, t, threads, &at);
    if (n <= 0) return;
    if (!iter__dnn_sgemm(false, false, d->rows, n, d->out, node->out->gradient, d->out,
                         node->params[0].weight + at, d->in, 0.0f, node->in->gradient + at, d->in))
        fail_part(d);
}

static iter_status run_parts(cpu_node *node, void (*part_of)(void *, uint32_t, uint32_t),
                             iter_error *err) {
    dense_node *d = (dense_node *)node;
    atomic_store_explicit(&d->failed, false, memory_order_relaxed);
    iter__cpu_parallel(iter__cpu_worth(d->in * d->out, node->shared->threads), part_of, d);
    if (!atomic_load_explicit(&d->failed, memory_order_relaxed)) return ITER_OK;
    return iter__engine_fail(err, ITER_ENOMEM, "oneDNN has no memory for a product of matrices");
}

static iter_status forward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run;
    return run_parts(node, forward_part, err);
}

static iter_status backward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run;
    ENGINE_TRY(run_parts(node, weights_part, err));
    return node->in->gradient ? run_parts(node, data_part, err) : ITER_OK;
}

static void text(const cpu_node *node, int32_t layer, char *out, size_t capacity) {
    (void)node, (void)layer;
    snprintf(out, capacity, "sgemm");
}

static const cpu_node_ops ops = {.forward = forward, .backward = backward, .text = text};

iter_status iter__node_dense(cpu_planner *planner, int32_t first, cpu_place *in, cpu_place **out,
                             int32_t *n_layers, iter_error *err) {
    const cpu_shared *shared = iter__plan_shared(planner);
    const engine_layer *layer = &shared->net->layers[first];
    cpu_node *node;
    *n_layers = 1;
    *out = iter__cpu_place_new(planner, in, &layer->out, CPU_ORDER_NCHW);
    ENGINE_TRY(iter__plan_node(planner, sizeof(dense_node), &ops, first, 1, in, *out, &node, err));
    dense_node *d = (dense_node *)node;
    d->rows = shared->net->batch;
    d->in = layer->in.dims[0];
    d->out = layer->out.dims[0];
    d->bias = layer->options.dense.bias;
    iter__plan_memory(planner, &d->turned, (size_t)(d->rows * d->out) * sizeof(float));
    iter__plan_param(planner, node, layer->first_param, d->in * d->out, true);
    if (d->bias) iter__plan_param(planner, node, layer->first_param + 1, d->out, true);
    return ITER_OK;
}
