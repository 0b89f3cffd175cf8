/*
 * reference_layers.h - the work of one layer, and the layers that are one loop: activations,
 * dropout, flatten, dense, embedding, steps. Part of the reference backends, compiled for REAL =
 * float and REAL = double.
 *
 * Values are dense and have the net's shapes: [rows, C, H, W], [rows, T, F], [rows, F]. Sums of
 * products are computed in double and rounded once, so that results in float, too, match the
 * formula to the last bits. Loops are in the order of the formulas; only the innermost loop is
 * chosen so that a compiler can use vector registers.
 */
#ifndef ENGINE_REFERENCE_REFERENCE_LAYERS_H
#define ENGINE_REFERENCE_REFERENCE_LAYERS_H

#include <math.h>
#include <string.h>

#include <iter/rng.h>

#include "engine/backend.h"

/* What a layer gets for a batch. Forward writes out. Backward reads everything that forward read or
 * wrote, and writes d_in and the parameters' gradients. */
typedef struct layer_work {
    const engine_layer *layer;
    int64_t n_rows;
    const REAL *in;         /* [n_rows, in] */
    const int64_t *ids;     /* [n_rows, T] instead of in, for an embedding */
    REAL *out;              /* [n_rows, out] */
    const REAL *d_out;      /* [n_rows, out] gradient of the loss by out */
    REAL *d_in;             /* [n_rows, in]; NULL = not needed */
    const REAL *weights[4]; /* the layer's parameters; NULL = it has fewer */
    REAL *gradients[4];
    /* [n_rows, T] if a gru begins anew where they change; else NULL */
    const int32_t *segments;
    /* What a tied loss adds to the gradient of the embedding's weight; NULL = there is none. */
    const double *tied;
    REAL *kept;        /* kept_elements() that forward leaves for backward */
    double *sums;      /* sum_elements() of scratch */
    uint64_t step;     /* of training */
    int64_t first_row; /* of the global batch */
    bool training;     /* else dropout is the identity */
} layer_work;

static inline int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t n_in(const layer_work *w) {
    return w->n_rows * iter__shape_elements(&w->layer->in);
}

static inline int64_t n_out(const layer_work *w) {
    return w->n_rows * iter__shape_elements(&w->layer->out);
}

/* ---- Sums of products ------------------------------------------------------------------------ */

static inline double dot(const REAL *a, const REAL *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* sums[i] += factor * from[i] */
static inline void add_scaled(double *sums, double factor, const REAL *from, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        sums[i] += factor * (double)from[i];
}

static inline void round_sums(REAL *out, const double *sums, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = (REAL)sums[i];
}

/* out[i, k] = sum over rows of a[row, i] * b[row, k]; used for the gradients of weights. */
static void sum_outer(REAL *out, double *sums, const REAL *a, int64_t n_a, const REAL *b,
                      int64_t n_b, int64_t n_rows) {
    memset(sums, 0, (size_t)(n_a * n_b) * sizeof(*sums));
    for (int64_t row = 0; row < n_rows; row++)
        for (int64_t i = 0; i < n_a; i++)
            add_scaled(sums + i * n_b, (double)a[row * n_a + i], b + row * n_b, n_b);
    round_sums(out, sums, n_a * n_b);
}

/* out[i] = sum over rows of a[row, i]; used for the gradients of biases. */
static void sum_rows(REAL *out, double *sums, const REAL *a, int64_t n_a, int64_t n_rows) {
    memset(sums, 0, (size_t)n_a * sizeof(*sums));
    for (int64_t row = 0; row < n_rows; row++)
        add_scaled(sums, 1, a + row * n_a, n_a);
    round_sums(out, sums, n_a);
}

/* ---- Activations ----------------------------------------------------------------------------- */

static inline double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void relu_forward(const layer_work *w) {
    for (int64_t i = 0; i < n_in(w); i++)
        w->out[i] = w->in[i] <= 0 ? 0 : w->in[i]; /* NaN stays NaN */
}

static void relu_backward(const layer_work *w) {
    for (int64_t i = 0; i < n_in(w); i++)
        w->d_in[i] = w->in[i] > 0 ? w->d_out[i] : 0;
}

static void tanh_forward(const layer_work *w) {
    for (int64_t i = 0; i < n_in(w); i++)
        w->out[i] = (REAL)tanh((double)w->in[i]);
}

static void tanh_backward(const layer_work *w) {
    for (int64_t i = 0; i < n_in(w); i++)
        w->d_in[i] = w->d_out[i] * (1 - w->out[i] * w->out[i]);
}

static void sigmoid_forward(const layer_work *w) {
    for (int64_t i = 0; i < n_in(w); i++)
        w->out[i] = (REAL)sigmoid((double)w->in[i]);
}

static void sigmoid_backward(const layer_work *w) {
    for (int64_t i = 0; i < n_in(w); i++)
        w->d_in[i] = w->d_out[i] * w->out[i] * (1 - w->out[i]);
}

static void flatten_forward(const layer_work *w) {
    memcpy(w->out, w->in, (size_t)n_in(w) * sizeof(REAL));
}

static void flatten_backward(const layer_work *w) {
    memcpy(w->d_in, w->d_out, (size_t)n_in(w) * sizeof(REAL));
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* Position of element e of a row among the row's random numbers (engine/net.h). */
static int64_t dropout_place(const engine_shape *shape, int64_t e) {
    if (shape->n_dims < 3) return e;
    const int64_t pixels = shape->dims[1] * shape->dims[2];
    const int64_t channels = (shape->dims[0] + 15) / 16 * 16;
    return e % pixels * channels + e / pixels;
}

/* The 16-bit number that decides about a position: one of the eight halves of its block's words. */
static uint32_t dropout_u16(const layer_work *w, int64_t row, int64_t place) {
    const uint32_t key[2] = {(uint32_t)w->layer->rng_key, (uint32_t)(w->layer->rng_key >> 32)};
    const uint32_t counter[4] = {(uint32_t)(place / 8), (uint32_t)row, (uint32_t)w->step,
                                 (uint32_t)(w->step >> 32)};
    uint32_t words[4];
    iter_philox4x32(counter, key, words);
    const uint32_t word = words[place % 8 / 2];
    return place % 2 ? word >> 16 : word & 0xffff;
}

static void dropout_apply(const layer_work *w, const REAL *from, REAL *to) {
    const engine_shape *shape = &w->layer->in;
    const int64_t n = iter__shape_elements(shape);
    const double p = w->layer->options.dropout.p;
    const uint32_t threshold = iter__dropout_threshold(p);
    const REAL scale = (REAL)(float)(1 / (1 - p));
    if (!w->training) {
        memcpy(to, from, (size_t)(w->n_rows * n) * sizeof(REAL));
        return;
    }
    for (int64_t row = 0; row < w->n_rows; row++)
        for (int64_t e = 0; e < n; e++) {
            const bool keep =
                dropout_u16(w, w->first_row + row, dropout_place(shape, e)) >= threshold;
            to[row * n + e] = keep ? from[row * n + e] * scale : 0;
        }
}

static void dropout_forward(const layer_work *w) {
    dropout_apply(w, w->in, w->out);
}

static void dropout_backward(const layer_work *w) {
    dropout_apply(w, w->d_out, w->d_in);
}

/* ---- Dense ----------------------------------------------------------------------------------- */

static void dense_forward(const layer_work *w) {
    const int64_t inputs = w->layer->in.dims[0], units = w->layer->out.dims[0];
    const REAL *weight = w->weights[0], *bias = w->weights[1];
    for (int64_t row = 0; row < w->n_rows; row++)
        for (int64_t u = 0; u < units; u++)
            w->out[row * units + u] =
                (REAL)((bias ? (double)bias[u] : 0) +
                       dot(weight + u * inputs, w->in + row * inputs, inputs));
}

static void dense_backward(const layer_work *w) {
    const int64_t inputs = w->layer->in.dims[0], units = w->layer->out.dims[0];
    sum_outer(w->gradients[0], w->sums, w->d_out, units, w->in, inputs, w->n_rows);
    if (w->gradients[1]) sum_rows(w->gradients[1], w->sums, w->d_out, units, w->n_rows);
    for (int64_t row = 0; row < w->n_rows && w->d_in; row++) {
        memset(w->sums, 0, (size_t)inputs * sizeof(*w->sums));
        for (int64_t u = 0; u < units; u++)
            add_scaled(w->sums, (double)w->d_out[row * units + u], w->weights[0] + u * inputs,
                       inputs);
        round_sums(w->d_in + row * inputs, w->sums, inputs);
    }
}

/* ---- Embedding and steps --------------------------------------------------------------------- */

static void embedding_forward(const layer_work *w) {
    const int64_t units = w->layer->options.embedding.units;
    for (int64_t i = 0; i < n_in(w); i++)
        memcpy(w->out + i * units, w->weights[0] + w->ids[i] * units, (size_t)units * sizeof(REAL));
}

static void embedding_backward(const layer_work *w) {
    const iter_embedding_options *o = &w->layer->options.embedding;
    const size_t bytes = (size_t)(o->rows * o->units) * sizeof(*w->sums);
    if (w->tied)
        memcpy(w->sums, w->tied, bytes);
    else
        memset(w->sums, 0, bytes);
    for (int64_t i = 0; i < n_in(w); i++)
        add_scaled(w->sums + w->ids[i] * o->units, 1, w->d_out + i * o->units, o->units);
    round_sums(w->gradients[0], w->sums, o->rows * o->units);
}

static void last_step_forward(const layer_work *w) {
    const int64_t steps = w->layer->in.dims[0], features = w->layer->in.dims[1];
    for (int64_t row = 0; row < w->n_rows; row++)
        memcpy(w->out + row * features, w->in + (row * steps + steps - 1) * features,
               (size_t)features * sizeof(REAL));
}

static void last_step_backward(const layer_work *w) {
    const int64_t steps = w->layer->in.dims[0], features = w->layer->in.dims[1];
    memset(w->d_in, 0, (size_t)n_in(w) * sizeof(REAL));
    for (int64_t row = 0; row < w->n_rows; row++)
        memcpy(w->d_in + (row * steps + steps - 1) * features, w->d_out + row * features,
               (size_t)features * sizeof(REAL));
}

static void mean_steps_forward(const layer_work *w) {
    const int64_t steps = w->layer->in.dims[0], features = w->layer->in.dims[1];
    for (int64_t row = 0; row < w->n_rows; row++) {
        memset(w->sums, 0, (size_t)features * sizeof(*w->sums));
        for (int64_t t = 0; t < steps; t++)
            add_scaled(w->sums, 1 / (double)steps, w->in + (row * steps + t) * features, features);
        round_sums(w->out + row * features, w->sums, features);
    }
}

static void mean_steps_backward(const layer_work *w) {
    const int64_t steps = w->layer->in.dims[0], features = w->layer->in.dims[1];
    for (int64_t row = 0; row < w->n_rows; row++)
        for (int64_t t = 0; t < steps; t++)
            for (int64_t f = 0; f < features; f++)
                w->d_in[(row * steps + t) * features + f] =
                    (REAL)((double)w->d_out[row * features + f] / (double)steps);
}

#endif
