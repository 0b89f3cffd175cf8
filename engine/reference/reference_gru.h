/*
 * reference_gru.h - the recurrence of the reference backends, one row and one step at a time.
 *
 *     r = sigmoid(Wr x + br + Rr h + cr)         z = sigmoid(Wz x + bz + Rz h + cz)
 *     n = tanh(Wn x + bn + r * q), q = Rn h + cn         reset after (cuDNN, PyTorch, MXNet)
 *     n = tanh(Wn x + bn + Rn s + cn), s = r * h         reset before (Cho et al. 2014)
 *     h' = (1 - z) n + z h
 *
 * Backward goes from the last step to the first. For every row and step it stores the gradients of
 * the three sums over x (by_input) and of the three over h (by_state). The weights' gradients are
 * then sums of outer products over all rows and steps.
 */
#ifndef ENGINE_REFERENCE_REFERENCE_GRU_H
#define ENGINE_REFERENCE_REFERENCE_GRU_H

#include "engine/reference/reference_layers.h"

/* What forward keeps per row and step: [rows, T, units] four times, [rows, T, 3 units] twice. */
typedef struct gru_view {
    int64_t steps, features, units;
    bool before;
    REAL *r, *z, *n;
    REAL *aid;      /* q if reset is after, s if it is before */
    REAL *by_input; /* gradients of the sums over x, gates in the order r, z, n */
    REAL *by_state; /* of those over h, and over s */
} gru_view;

static int64_t gru_kept(const engine_layer *layer, int64_t n_rows) {
    return n_rows * layer->in.dims[0] * 10 * layer->options.gru.units;
}

/* Scratch of a step: the gradient of h, and sums as long as h, s or x. */
static int64_t gru_sums(const engine_layer *layer) {
    return 3 * layer->options.gru.units + layer->in.dims[1];
}

static gru_view gru_open(const layer_work *w) {
    const int64_t units = w->layer->options.gru.units;
    const int64_t n = w->n_rows * w->layer->in.dims[0] * units;
    const gru_view g = {w->layer->in.dims[0],
                        w->layer->in.dims[1],
                        units,
                        w->layer->options.gru.reset == ITER_GRU_RESET_BEFORE,
                        w->kept,
                        w->kept + n,
                        w->kept + 2 * n,
                        w->kept + 3 * n,
                        w->kept + 4 * n,
                        w->kept + 7 * n};
    return g;
}

/* One unit's sum over x of gate 0, 1 or 2, bias included. */
static double over_input(const layer_work *w, const gru_view *g, const REAL *x, int gate,
                         int64_t u) {
    const int64_t row = gate * g->units + u;
    return (double)w->weights[2][row] + dot(w->weights[0] + row * g->features, x, g->features);
}

/* The same over h (or s); NULL = zeros. */
static double over_state(const layer_work *w, const gru_view *g, const REAL *h, int gate,
                         int64_t u) {
    const int64_t row = gate * g->units + u;
    return (double)w->weights[3][row] + (h ? dot(w->weights[1] + row * g->units, h, g->units) : 0);
}

/* Step `at` = row * T + t; h is the state before it. */
static void gru_step(const layer_work *w, const gru_view *g, int64_t at, const REAL *h) {
    const REAL *x = w->in + at * g->features;
    const int64_t o = at * g->units;
    for (int64_t u = 0; u < g->units; u++) {
        g->r[o + u] = (REAL)sigmoid(over_input(w, g, x, 0, u) + over_state(w, g, h, 0, u));
        g->z[o + u] = (REAL)sigmoid(over_input(w, g, x, 1, u) + over_state(w, g, h, 1, u));
        g->aid[o + u] = g->before ? (h ? g->r[o + u] * h[u] : 0) : (REAL)over_state(w, g, h, 2, u);
    }
    for (int64_t u = 0; u < g->units; u++) {
        const double state = g->before ? over_state(w, g, g->aid + o, 2, u)
                                       : (double)g->r[o + u] * (double)g->aid[o + u];
        const double n = tanh(over_input(w, g, x, 2, u) + state), z = (double)g->z[o + u];
        g->n[o + u] = (REAL)n;
        w->out[o + u] = (REAL)((1 - z) * n + (h ? z * (double)h[u] : 0));
    }
}

/* The state before step `at`; NULL = zeros: the row or a segment begins. */
static const REAL *state_before(const layer_work *w, const gru_view *g, int64_t at) {
    if (at % g->steps == 0) return NULL;
    if (w->segments && w->segments[at] != w->segments[at - 1]) return NULL;
    return w->out + (at - 1) * g->units;
}

static void gru_forward(const layer_work *w) {
    const gru_view g = gru_open(w);
    for (int64_t at = 0; at < w->n_rows * g.steps; at++)
        gru_step(w, &g, at, state_before(w, &g, at));
}

/* sums = transposed weights of one gate, times the gradients of its sums */
static void add_transposed(double *sums, const REAL *weight, int64_t n_columns, const REAL *d,
                           int64_t units) {
    for (int64_t u = 0; u < units; u++)
        add_scaled(sums, (double)d[u], weight + u * n_columns, n_columns);
}

/* d_h [units]: in, the gradient of the state after step `at`; out, of the state before it. */
static void gru_step_back(const layer_work *w, const gru_view *g, int64_t at, const REAL *h,
                          double *d_h) {
    const int64_t units = g->units, o = at * units;
    const REAL *recurrent = w->weights[1];
    REAL *d_x = g->by_input + 3 * o, *d_s = g->by_state + 3 * o;
    double *d_aid = d_h + units;
    memset(d_aid, 0, (size_t)units * sizeof(*d_aid));
    for (int64_t u = 0; u < units; u++) {
        const double z = (double)g->z[o + u], n = (double)g->n[o + u];
        const double d_out = d_h[u] + (double)w->d_out[o + u];
        d_x[units + u] = (REAL)(d_out * ((h ? (double)h[u] : 0) - n) * z * (1 - z));
        d_x[2 * units + u] = (REAL)(d_out * (1 - z) * (1 - n * n));
        d_h[u] = d_out * z;
    }
    if (g->before)
        add_transposed(d_aid, recurrent + 2 * units * units, units, d_x + 2 * units, units);
    for (int64_t u = 0; u < units; u++) {
        const double r = (double)g->r[o + u], d_n = (double)d_x[2 * units + u];
        const double d_r =
            g->before ? d_aid[u] * (h ? (double)h[u] : 0) : d_n * (double)g->aid[o + u];
        d_x[u] = (REAL)(d_r * r * (1 - r));
        if (g->before) d_h[u] += d_aid[u] * r;
        d_s[2 * units + u] = (REAL)(g->before ? d_n : d_n * r);
    }
    memcpy(d_s, d_x, (size_t)(2 * units) * sizeof(REAL));
    add_transposed(d_h, recurrent, units, d_s, 2 * units);
    if (!g->before)
        add_transposed(d_h, recurrent + 2 * units * units, units, d_s + 2 * units, units);
}

/* The recurrent weights' gradient: gates r and z were applied to h, n to h or to s. */
static void gru_recurrent_gradient(const layer_work *w, const gru_view *g) {
    const int64_t units = g->units;
    memset(w->sums, 0, (size_t)(3 * units * units) * sizeof(*w->sums));
    for (int64_t at = 0; at < w->n_rows * g->steps; at++) {
        const REAL *h = state_before(w, g, at);
        if (!h) continue;
        const REAL *n_in_state = g->before ? g->aid + at * units : h;
        for (int64_t i = 0; i < 3 * units; i++)
            add_scaled(w->sums + i * units, (double)g->by_state[at * 3 * units + i],
                       i < 2 * units ? h : n_in_state, units);
    }
    round_sums(w->gradients[1], w->sums, 3 * units * units);
}

static void gru_backward(const layer_work *w) {
    const gru_view g = gru_open(w);
    const int64_t units = g.units, n_steps = w->n_rows * g.steps;
    for (int64_t row = 0; row < w->n_rows; row++) {
        memset(w->sums, 0, (size_t)units * sizeof(*w->sums));
        for (int64_t t = g.steps - 1; t >= 0; t--) {
            const int64_t at = row * g.steps + t;
            const REAL *h = state_before(w, &g, at);
            gru_step_back(w, &g, at, h, w->sums);
            if (!h) memset(w->sums, 0, (size_t)units * sizeof(*w->sums));
        }
    }
    for (int64_t at = 0; at < n_steps && w->d_in; at++) {
        memset(w->sums, 0, (size_t)g.features * sizeof(*w->sums));
        add_transposed(w->sums, w->weights[0], g.features, g.by_input + at * 3 * units, 3 * units);
        round_sums(w->d_in + at * g.features, w->sums, g.features);
    }
    sum_outer(w->gradients[0], w->sums, g.by_input, 3 * units, w->in, g.features, n_steps);
    gru_recurrent_gradient(w, &g);
    sum_rows(w->gradients[2], w->sums, g.by_input, 3 * units, n_steps);
    sum_rows(w->gradients[3], w->sums, g.by_state, 3 * units, n_steps);
}

#endif
