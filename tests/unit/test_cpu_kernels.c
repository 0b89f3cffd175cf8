/*
 * test_cpu_kernels.c - gates, activations, optimisers, tokens and the GRU of the cpu backend, on
 * every SIMD level that this machine has, against formulas in double and central differences.
 */
#include <criterion/criterion.h>

#if defined(ITER_HAVE_DNNL)

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <iter/convert.h>

#include "engine/cpu/cpu_gru.h"
#include "engine/cpu/cpu_optimizer.h"
#include "engine/engine_memory.h"

TestSuite(cpu_kernels, .timeout = 280);

/* ---- Support --------------------------------------------------------------------------------- */

static int list_levels(const cpu_kernels **out) {
    const char *best = iter_cpu_level();
    int n = 0;
    out[n++] = iter__cpu_kernels("generic");
    if (strcmp(best, "avx2") == 0 || strcmp(best, "avx512") == 0)
        out[n++] = iter__cpu_kernels("avx2");
    if (strcmp(best, "avx512") == 0) out[n++] = iter__cpu_kernels("avx512");
    return n;
}

/* For each level: declares kernels. */
#define EACH_LEVEL(kernels)                                                                       \
    for (const cpu_kernels *levels_[3], **at_ = levels_, **end_ = levels_ + list_levels(levels_), \
                                        *kernels = *at_;                                          \
         at_ < end_; kernels = ++at_ < end_ ? *at_ : NULL)

static uint32_t state = 1;

/* Uniform in [-scale, scale]. */
static float uniform(float scale) {
    state = state * 1664525u + 1013904223u;
    return ((float)(state >> 8) / 8388608.0f - 1.0f) * scale;
}

static float *random_floats(int64_t n, float scale) {
    float *x = calloc((size_t)n + 1, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = uniform(scale);
    return x;
}

static float *copy_floats(const float *x, int64_t n) {
    float *y = calloc((size_t)n + 1, sizeof *y);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* ---- Activations ----------------------------------------------------------------------------- */

/* Distance from exact in units of the last place of the nearest float. */
static double ulps(float got, double exact) {
    const float near = (float)exact;
    int exponent;
    frexpf(near, &exponent);
    return fabs((double)got - exact) / ldexp(1.0, exponent - 24);
}

#define N_AT_ONCE 1003

static void check_activation(const cpu_kernels *kernels, bool is_tanh, uint32_t step) {
    float x[N_AT_ONCE], y[N_AT_ONCE];
    double worst = 0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
        int n = 0;
        for (; n < N_AT_ONCE && bits < UINT64_C(1) << 32; bits += step, n++) {
            const uint32_t word = (uint32_t)bits;
            memcpy(&x[n], &word, sizeof word);
        }
        (is_tanh ? kernels->tanh : kernels->sigmoid)(n, x, y);
        for (int i = 0; i < n; i++) {
            if (isnan(x[i])) {
                cr_assert(isnan(y[i]), "%s: NaN became %g", kernels->name, (double)y[i]);
                continue;
            }
            const double exact = is_tanh ? tanh((double)x[i]) : sigmoid((double)x[i]);
            if (fabs(exact) < (double)FLT_MIN)
                cr_assert(fabs((double)y[i] - exact) <= (double)FLT_MIN, "%s: f(%a) = %a",
                          kernels->name, (double)x[i], (double)y[i]);
            else
                worst = fmax(worst, ulps(y[i], exact));
        }
    }
    cr_log_info("%s %s: %.3f ulp", kernels->name, is_tanh ? "tanh" : "sigmoid", worst);
    cr_assert(worst <= 3.0, "%s %s: %g ulp", kernels->name, is_tanh ? "tanh" : "sigmoid", worst);
}

/* exp(x - max) and its sum, for any length and any place of the largest. */
static void check_exp_sum(const cpu_kernels *kernels, int64_t n, float scale) {
    float *x = random_floats(n, scale), *y = copy_floats(x, n), most = x[0], got_most;
    double sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = fmaxf(most, x[i]);
    const double got = kernels->exp_sum(n, y, &got_most);
    cr_assert(got_most == most, "%s, %d: %g, not %g", kernels->name, (int)n, (double)got_most,
              (double)most);
    for (int64_t i = 0; i < n; i++) {
        const double exact = exp((double)(x[i] - most));
        cr_assert(exact < (double)FLT_MIN ? y[i] <= FLT_MIN : ulps(y[i], exact) <= 3,
                  "%s: exp(%a) = %a", kernels->name, (double)(x[i] - most), (double)y[i]);
        sum += exact;
    }
    cr_assert(fabs(got - sum) <= 1e-6 * sum, "%s, %d: %.9g, not %.9g", kernels->name, (int)n, got,
              sum);
    free(x);
    free(y);
}

Test(cpu_kernels, exp_sum_is_near_exact) {
    const float scales[] = {0, 1, 30, 200};
    EACH_LEVEL(kernels) {
        for (int s = 0; s < 4; s++) {
            for (int64_t n = 1; n < 70; n++)
                check_exp_sum(kernels, n, scales[s]);
            check_exp_sum(kernels, 8192, scales[s]);
            check_exp_sum(kernels, 30011, scales[s]);
        }
        float x[37], most;
        for (int i = 0; i < 37; i++) { /* NaN in any place passes */
            memset(x, 0, sizeof x);
            x[i] = NAN;
            cr_assert(isnan(kernels->exp_sum(37, x, &most)), "%s: NaN at %d", kernels->name, i);
        }
    }
}

Test(cpu_kernels, activations_are_near_exact_over_the_whole_range) {
    EACH_LEVEL(kernels) {
        check_activation(kernels, true, 4099);
        check_activation(kernels, false, 4099);
    }
}

Test(cpu_kernels, activations_at_special_values) {
    EACH_LEVEL(kernels) {
        const float x[6] = {0.0f, -0.0f, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX};
        float y[6];
        kernels->tanh(6, x, y);
        cr_assert(y[0] == 0 && !signbit(y[0]) && y[1] == 0 && signbit(y[1]));
        cr_assert(y[2] == 1 && y[3] == -1 && y[4] == 1 && y[5] == -1);
        kernels->sigmoid(6, x, y);
        cr_assert(y[0] == 0.5f && y[1] == 0.5f);
        cr_assert(y[2] == 1 && y[3] == 0 && y[4] == 1 && y[5] == 0);
    }
}

/* For every length: nothing after the end is written, and the place in a row does not matter. */
Test(cpu_kernels, activations_of_any_length) {
    EACH_LEVEL(kernels) {
        float x[80], y[81], whole[80];
        for (int i = 0; i < 80; i++)
            x[i] = uniform(9);
        kernels->tanh(80, x, whole);
        for (int n = 0; n < 80; n++) {
            for (int i = 0; i < 81; i++)
                y[i] = 77;
            kernels->tanh(n, x, y);
            for (int i = 0; i < 81; i++)
                cr_assert(y[i] == (i < n ? whole[i] : 77.0f), "%s n %d i %d", kernels->name, n, i);
        }
    }
}

/* ---- Gates ----------------------------------------------------------------------------------- */

enum { ROWS = 3, MAX_UNITS = 37, GATES_LD = 3 * MAX_UNITS + 4, STATE_LD = MAX_UNITS + 3 };

/* One unit in double: sums before the activations (of x, of h) and the state before; reset
 * after. */
typedef struct unit {
    double xr, xz, xn, hr, hz, hn, h;
} unit;

static double unit_after(const unit *u) {
    const double r = sigmoid(u->xr + u->hr), z = sigmoid(u->xz + u->hz);
    const double n = tanh(u->xn + r * u->hn);
    return (1 - z) * n + z * u->h;
}

typedef struct gates {
    float projected[ROWS + 2][GATES_LD], recurrent[ROWS][GATES_LD];
    float before[ROWS][STATE_LD], h[ROWS][STATE_LD], dh[ROWS][STATE_LD], dy[ROWS][MAX_UNITS];
    float saved[ROWS * 4 * MAX_UNITS + 1];
    int32_t index[ROWS];
} gates;

static void fill_gates(gates *g) {
    for (size_t i = 0; i < sizeof *g / sizeof(float); i++)
        ((float *)g)[i] = uniform(2);
    g->index[0] = 4;
    g->index[1] = 0;
    g->index[2] = 4;
}

static cpu_gates_forward forward_of(gates *g, int64_t units) {
    return (cpu_gates_forward){.rows = ROWS,
                               .units = units,
                               .projected = g->projected[0],
                               .projected_ld = GATES_LD,
                               .index = g->index,
                               .index_next = g->index,
                               .recurrent = g->recurrent[0],
                               .recurrent_ld = GATES_LD,
                               .h_before = g->before[0],
                               .h = g->h[0],
                               .h_ld = STATE_LD,
                               .saved = g->saved};
}

static unit unit_of(const gates *g, int64_t units, int i, int64_t j) {
    const float *p = g->projected[g->index[i]], *c = g->recurrent[i];
    return (unit){p[j],         p[units + j],     p[2 * units + j], c[j],
                  c[units + j], c[2 * units + j], g->before[i][j]};
}

static void near(double got, double want, const char *what, const char *level, int64_t units) {
    cr_assert(fabs(got - want) <= 3e-6 * fmax(1, fabs(want)), "%s, %s, %d units: %.9g is not %.9g",
              what, level, (int)units, got, want);
}

/* d f / d *x by central differences. */
static double slope(double (*f)(const unit *), unit *u, double *x) {
    const double at = *x, step = 1e-5;
    *x = at + step;
    const double up = f(u);
    *x = at - step;
    const double down = f(u);
    *x = at;
    return (up - down) / (2 * step);
}

static void check_after(const cpu_kernels *kernels, int64_t u, bool with_dy) {
    gates g;
    fill_gates(&g);
    const float guard = g.saved[ROWS * 4 * u];
    const cpu_gates_forward f = forward_of(&g, u);
    kernels->after_forward(&f);
    for (int i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < u; j++) {
            const unit x = unit_of(&g, u, i, j);
            near(g.h[i][j], unit_after(&x), "h", kernels->name, u);
        }
    gates first = g;
    const cpu_gates_backward b = {.rows = ROWS,
                                  .units = u,
                                  .dy = with_dy ? g.dy[0] : NULL,
                                  .dy_ld = MAX_UNITS,
                                  .h_before = g.before[0],
                                  .dh = g.dh[0],
                                  .h_ld = STATE_LD,
                                  .saved = g.saved};
    kernels->after_backward(&b);
    for (int i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < u; j++) {
            unit x = unit_of(&first, u, i, j);
            const double d = (double)first.dh[i][j] + (with_dy ? (double)first.dy[i][j] : 0.0);
            const float *a = g.saved + i * 4 * u + j;
            near(a[0], d * slope(unit_after, &x, &x.xn), "dn", kernels->name, u);
            near(a[u], d * slope(unit_after, &x, &x.xr), "dr", kernels->name, u);
            near(a[2 * u], d * slope(unit_after, &x, &x.xz), "dz", kernels->name, u);
            near(a[3 * u], d * slope(unit_after, &x, &x.hn), "dq", kernels->name, u);
            near(g.dh[i][j], d * slope(unit_after, &x, &x.h), "dh", kernels->name, u);
        }
    cr_assert(g.saved[ROWS * 4 * u] == guard, "%s wrote beyond", kernels->name);
    for (int i = 0; i < ROWS; i++)
        cr_assert(memcmp(&g.dh[i][u], &first.dh[i][u], (size_t)(STATE_LD - u) * 4) == 0);
}

Test(cpu_kernels, gates_and_their_slopes) {
    EACH_LEVEL(kernels)
    for (int64_t u = 1; u <= MAX_UNITS; u++) {
        check_after(kernels, u, false);
        check_after(kernels, u, true);
    }
}

/* ---- Optimisers ------------------------------------------------------------------------------ */

static const engine_optimizer optimizers[] = {
    {.kind = ENGINE_SGD, .lr = 0.1},
    {.kind = ENGINE_SGD, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
    {.kind = ENGINE_ADAM, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
    {.kind = ENGINE_ADAM,
     .lr = 0.01,
     .beta1 = 0.8,
     .beta2 = 0.99,
     .epsilon = 1e-3,
     .weight_decay = 0.1},
};
enum { N_OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

/* By engine/optimizer.h, word for word. */
static void naive_step(const engine_optimizer *o, uint64_t step, double g, double *w, double *m,
                       double *v) {
    g += o->weight_decay * *w;
    if (o->kind == ENGINE_SGD) {
        *m = o->momentum * *m - o->lr * g;
        *w += *m;
        return;
    }
    const double t = (double)step + 1;
    *m = o->beta1 * *m + (1 - o->beta1) * g;
    *v = o->beta2 * *v + (1 - o->beta2) * g * g;
    *w -=
        o->lr * sqrt(1 - pow(o->beta2, t)) / (1 - pow(o->beta1, t)) * *m / (sqrt(*v) + o->epsilon);
}

static void check_optimizer(const cpu_kernels *kernels, const engine_optimizer *o, int64_t n,
                            uint32_t threads) {
    const int moments = iter__optimizer_n_moments(o);
    float *w = random_floats(n, 1), *m = calloc((size_t)n + 1, 4), *v = calloc((size_t)n + 1, 4);
    double *x = calloc((size_t)n * 3, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[3 * i] = w[i];
    for (uint64_t step = 0; step < 20; step++) {
        float *g = random_floats(n, step % 2 ? 1e-6f : 1.0f);
        const cpu_update update = iter__cpu_update(o, step, o->lr, false);
        iter__cpu_update_run(kernels, &update, n, w, g, moments > 0 ? m : NULL,
                             moments > 1 ? v : NULL, threads);
        for (int64_t i = 0; i < n; i++)
            naive_step(o, step, g[i], &x[3 * i], &x[3 * i + 1], &x[3 * i + 2]);
        free(g);
    }
    for (int64_t i = 0; i < n; i++)
        cr_assert(fabs((double)w[i] - x[3 * i]) <= 2e-6, "%s: w[%d] = %.9g, not %.9g",
                  kernels->name, (int)i, (double)w[i], x[3 * i]);
    cr_assert(w[n] == 0 && m[n] == 0 && v[n] == 0, "%s wrote beyond", kernels->name);
    free(w);
    free(m);
    free(v);
    free(x);
}

Test(cpu_kernels, optimizers_follow_their_formulas) {
    EACH_LEVEL(kernels)
    for (int k = 0; k < N_OPTIMIZERS; k++) {
        for (int64_t n = 1; n < 70; n += 3)
            check_optimizer(kernels, &optimizers[k], n, 1);
        check_optimizer(kernels, &optimizers[k], 50001, 3);
    }
}

/* Rows that are updated later get the same bits as if all rows were updated at every step. */
static void check_rows(const cpu_kernels *kernels, const engine_optimizer *o, int64_t units,
                       uint32_t threads) {
    enum { R = 150, STEPS = 300 };
    const int64_t n = R * units;
    const int moments = iter__optimizer_n_moments(o);
    float *w = random_floats(n, 1), *w2 = copy_floats(w, n), *g = random_floats(n, 1);
    float *m = calloc((size_t)n + 1, 4), *v = calloc((size_t)n + 1, 4);
    float *m2 = calloc((size_t)n + 1, 4), *v2 = calloc((size_t)n + 1, 4);
    float *dense = calloc((size_t)n + 1, 4);
    cpu_rows rows;
    iter_error err;
    cr_assert(iter__cpu_rows_start(&rows, kernels, R, units, w, moments > 0 ? m : NULL,
                                   moments > 1 ? v : NULL, threads, &err) == ITER_OK);
    for (uint64_t step = 0; step < STEPS; step++) {
        int32_t ids[R], n_ids = 0;
        memset(dense, 0, (size_t)n * 4);
        for (int32_t id = 0; id < R; id++)
            if (fabsf(uniform(1)) * 40 < (id == 7 ? 40 : id < 100 ? 1.0f : 0.05f)) {
                memcpy(dense + id * units, g + n_ids * units, (size_t)units * 4);
                ids[n_ids++] = id;
            }
        const cpu_update update = iter__cpu_update(o, step, o->lr / (1 + (double)step), false);
        iter__cpu_rows_fetch(&rows, ids, n_ids);
        for (int32_t i = 0; i < n_ids; i++)
            cr_assert(memcmp(w + ids[i] * units, w2 + ids[i] * units, (size_t)units * 4) == 0,
                      "%s: row %d at step %d", kernels->name, ids[i], (int)step);
        iter__cpu_rows_step(&rows, &update, ids, n_ids, g, units);
        iter__cpu_update_run(kernels, &update, n, w2, dense, moments > 0 ? m2 : NULL,
                             moments > 1 ? v2 : NULL, 1);
    }
    iter__cpu_rows_settle(&rows);
    cr_assert(memcmp(w, w2, (size_t)n * 4) == 0, "%s: weights", kernels->name);
    cr_assert(memcmp(m, m2, (size_t)n * 4) == 0, "%s: first moments", kernels->name);
    cr_assert(memcmp(v, v2, (size_t)n * 4) == 0, "%s: second moments", kernels->name);
    iter__cpu_rows_stop(&rows);
    float *const all[] = {w, w2, g, m, v, m2, v2, dense};
    for (int i = 0; i < 8; i++)
        free(all[i]);
}

Test(cpu_kernels, rows_that_wait_have_the_bits_of_rows_that_do_not) {
    EACH_LEVEL(kernels)
    for (int k = 0; k < N_OPTIMIZERS; k++) {
        check_rows(kernels, &optimizers[k], 125, 1);
        check_rows(kernels, &optimizers[k], 7, 3);
        check_rows(kernels, &optimizers[k], 64, 2);
    }
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static void check_tokens(const cpu_kernels *kernels, uint32_t threads, bool wide, bool time_first,
                         int64_t n_rows) {
    enum { R = 40, UNITS = 19, BATCH = 6, STEPS = 11, TOKENS = BATCH * STEPS };
    int64_t ids64[TOKENS];
    int32_t ids32[TOKENS], want[TOKENS];
    for (int k = 0; k < TOKENS; k++) {
        const int id = uniform(1) < 0 ? 3 : (int)(fabsf(uniform(1)) * (float)R) % R;
        ids64[k] = ids32[k] = id;
    }
    const int64_t row_stride = time_first ? 1 : STEPS, step_stride = time_first ? BATCH : 1;
    iter_tensor ids = {.desc = {.dtype = wide ? ITER_I64 : ITER_I32, .n_dims = 2},
                       .data = wide ? (void *)ids64 : (void *)ids32};
    ids.desc.dims[time_first] = n_rows;
    ids.desc.dims[!time_first] = STEPS;
    ids.strides[time_first] = row_stride;
    ids.strides[!time_first] = step_stride;
    for (int t = 0; t < STEPS; t++)
        for (int i = 0; i < BATCH; i++)
            want[t * BATCH + i] = i < n_rows ? ids32[i * row_stride + t * step_stride] : 0;

    iter_error err;
    cpu_embedding *e;
    cr_assert(iter__cpu_embedding_create(kernels, R, UNITS, BATCH, STEPS, threads, &e, &err) ==
              ITER_OK);
    float *weights = random_floats(R * UNITS, 1), *dy = random_floats(TOKENS * UNITS, 1);
    for (int twice = 0; twice < 2; twice++) {
        const cpu_tokens *tokens = iter__cpu_embedding_index(e, &ids, time_first, n_rows);
        cr_assert(tokens->n_tokens == TOKENS);
        for (int k = 0; k < TOKENS; k++)
            cr_assert(tokens->ids[tokens->index[k]] == want[k]);
        for (int64_t i = 1; i < tokens->n_different; i++)
            cr_assert(tokens->ids[i] > tokens->ids[i - 1]);
        float y[TOKENS * UNITS], rows[TOKENS * 32], sums[TOKENS * UNITS];
        iter__cpu_embedding_forward(e, weights, y);
        iter__cpu_embedding_gather(e, weights, rows, 32);
        iter__cpu_embedding_backward(e, dy, sums);
        for (int k = 0; k < TOKENS; k++)
            cr_assert(memcmp(y + k * UNITS, weights + want[k] * UNITS, UNITS * 4) == 0);
        for (int64_t i = 0; i < tokens->n_different; i++) {
            cr_assert(memcmp(rows + i * 32, weights + tokens->ids[i] * UNITS, UNITS * 4) == 0);
            cr_assert(rows[i * 32 + UNITS] == 1 && rows[i * 32 + UNITS + 1] == 0 &&
                      rows[i * 32 + 31] == 0);
            for (int j = 0; j < UNITS; j++) {
                double sum = 0;
                for (int k = 0; k < TOKENS; k++)
                    if (want[k] == tokens->ids[i]) sum += (double)dy[k * UNITS + j];
                cr_assert(fabs(sum - (double)sums[i * UNITS + j]) < 1e-5);
            }
        }
    }
    free(weights);
    free(dy);
    iter__cpu_embedding_destroy(e);
}

Test(cpu_kernels, tokens_of_a_batch) {
    EACH_LEVEL(kernels)
    for (uint32_t threads = 1; threads <= 9; threads += 2)
        for (int k = 0; k < 8; k++)
            check_tokens(kernels, threads, k & 1, k & 2, k & 4 ? 6 : 4);
}

/* ---- The unit -------------------------------------------------------------------------------- */

enum { N = 3, T = 4, F = 5, U = 6 };

/* The inputs of the unit: all parameters, input, and the weights of the outputs in a sum. */
typedef struct problem {
    double input[3 * U * F], recurrent[3 * U * U], input_bias[3 * U], recurrent_bias[3 * U];
    double x[T * N * F], dy[T * N * U];
} problem;
enum { N_PROBLEM = sizeof(problem) / sizeof(double) };

static double dot_of(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The sum of dy * y, by iter_gru_options and engine.h. */
static double naive_gru(const problem *p, bool before, bool last) {
    double total = 0;
    for (int i = 0; i < N; i++) {
        double h[U] = {0};
        for (int t = 0; t < T; t++) {
            double a[3 * U], c[3 * U], r[U], rh[U], next[U];
            for (int k = 0; k < 3 * U; k++) {
                a[k] = p->input_bias[k] + dot_of(p->input + k * F, p->x + (t * N + i) * F, F);
                c[k] = p->recurrent_bias[k] + dot_of(p->recurrent + k * U, h, U);
            }
            for (int j = 0; j < U; j++) {
                r[j] = sigmoid(a[j] + c[j]);
                rh[j] = r[j] * h[j];
            }
            for (int j = 0; j < U; j++) {
                const double z = sigmoid(a[U + j] + c[U + j]);
                const int k = 2 * U + j;
                const double reset =
                    before ? p->recurrent_bias[k] + dot_of(p->recurrent + k * U, rh, U)
                           : r[j] * c[k];
                next[j] = (1 - z) * tanh(a[k] + reset) + z * h[j];
            }
            memcpy(h, next, sizeof h);
            if (!last || t == T - 1) total += dot_of(p->dy + ((last ? 0 : t * N) + i) * U, h, U);
        }
    }
    return total;
}

/* Where in the problem a gradient's numbers are, and how many. */
static void check_slopes(problem *p, bool before, bool last, const double *at, const float *got,
                         int n, const char *what) {
    double *x = (double *)p + (at - (const double *)p);
    for (int i = 0; i < n; i++) {
        const double value = x[i], step = 1e-5;
        x[i] = value + step;
        const double up = naive_gru(p, before, last);
        x[i] = value - step;
        const double down = naive_gru(p, before, last);
        x[i] = value;
        const double want = (up - down) / (2 * step);
        cr_assert(fabs((double)got[i] - want) <= 2e-5, "%s[%d]: %.9g is not %.9g", what, i,
                  (double)got[i], want);
    }
}

static void check_gru(const cpu_kernels *kernels, bool before, bool last, uint32_t threads) {
    problem p;
    float f[N_PROBLEM], d[N_PROBLEM], y[T * N * U];
    for (int i = 0; i < (int)N_PROBLEM; i++)
        ((double *)&p)[i] = f[i] = uniform(0.7f);
#define AT(base, field) ((base) + offsetof(problem, field) / sizeof(double))
    const cpu_gru_params weights = {AT(f, input), AT(f, recurrent), AT(f, input_bias),
                                    AT(f, recurrent_bias)};
    const cpu_gru_params gradients = {AT(d, input), AT(d, recurrent), AT(d, input_bias),
                                      AT(d, recurrent_bias)};
    const cpu_gru_config config = {.kernels = kernels,
                                   .batch = N,
                                   .steps = T,
                                   .features = F,
                                   .units = U,
                                   .reset_before = before,
                                   .only_last = last,
                                   .input_gradient = true,
                                   .threads = threads};
    cpu_gru *gru;
    iter_error err;
    cr_assert(iter__cpu_gru_create(&config, &gru, &err) == ITER_OK);
    for (int twice = 0; twice < 2; twice++) {
        memset(d, 1, sizeof d);
        const cpu_tokens *tokens = iter__cpu_gru_fill(gru, AT(f, x));
        cr_assert(iter__cpu_gru_forward(gru, &weights, tokens, y, &err) == ITER_OK);
        cr_assert(iter__cpu_gru_backward(gru, tokens, AT(f, dy), &gradients, &err) == ITER_OK);
        iter__cpu_gru_unfill(gru, AT(d, x));
    }
    double total = 0;
    for (int i = 0; i < (last ? 1 : T) * N * U; i++)
        total += p.dy[i] * (double)y[i];
    cr_assert(fabs(total - naive_gru(&p, before, last)) < 1e-5);
    check_slopes(&p, before, last, p.input, AT(d, input), 3 * U * F, "input");
    check_slopes(&p, before, last, p.recurrent, AT(d, recurrent), 3 * U * U, "recurrent");
    check_slopes(&p, before, last, p.input_bias, AT(d, input_bias), 3 * U, "input bias");
    check_slopes(&p, before, last, p.recurrent_bias, AT(d, recurrent_bias), 3 * U,
                 "recurrent bias");
    check_slopes(&p, before, last, p.x, AT(d, x), T * N * F, "x");
#undef AT
    iter__cpu_gru_destroy(gru);
}

Test(cpu_kernels, gru_against_central_differences) {
    EACH_LEVEL(kernels)
    for (int k = 0; k < 4; k++)
        for (uint32_t threads = 1; threads <= 4; threads += 3)
            check_gru(kernels, k & 1, k & 2, threads);
}

/* ---- Limits, and out of memory --------------------------------------------------------------- */

/* Tokens are numbered in 32 bits. */
Test(cpu_kernels, batches_of_too_many_tokens_are_refused) {
    const cpu_kernels *kernels = iter__cpu_kernels("generic");
    const cpu_gru_config config = {.kernels = kernels,
                                   .batch = 1 << 20,
                                   .steps = 2048,
                                   .features = 1,
                                   .units = 1,
                                   .threads = 1};
    cpu_gru *gru;
    cpu_embedding *e;
    iter_error err;
    cr_assert(iter__cpu_gru_create(&config, &gru, &err) == ITER_EUNSUPPORTED && gru == NULL);
    cr_assert(strstr(err.message, "too large"), "%s", err.message);
    cr_assert(iter__cpu_embedding_create(kernels, 9, 1, 1 << 20, 2048, 1, &e, &err) ==
                  ITER_EUNSUPPORTED &&
              e == NULL);
    cr_assert(strstr(err.message, "too large"), "%s", err.message);
}

Test(cpu_kernels, every_allocation_may_fail) {
    const cpu_kernels *kernels = iter__cpu_kernels("generic");
    const long live = iter__engine_live();
    const cpu_gru_config config = {
        .kernels = kernels, .batch = 2, .steps = 3, .features = 4, .units = 5, .threads = 2};
    iter_error err;
    int failures = 0;
    for (long k = 0;; k++) {
        cpu_gru *gru;
        iter__engine_fail_after = k;
        const iter_status status = iter__cpu_gru_create(&config, &gru, &err);
        iter__engine_fail_after = -1;
        if (status == ITER_OK) {
            iter__cpu_gru_destroy(gru);
            break;
        }
        cr_assert(status == ITER_ENOMEM && gru == NULL && iter__engine_live() == live);
        failures++;
    }
    for (long k = 0;; k++) {
        cpu_embedding *e;
        iter__engine_fail_after = k;
        const iter_status status = iter__cpu_embedding_create(kernels, 9, 4, 2, 3, 2, &e, &err);
        iter__engine_fail_after = -1;
        if (status == ITER_OK) {
            iter__cpu_embedding_destroy(e);
            break;
        }
        cr_assert(status == ITER_ENOMEM && e == NULL && iter__engine_live() == live);
        failures++;
    }
    cr_assert(failures > 20 && iter__engine_live() == live);
}

#else

Test(cpu_kernels, none) {
    cr_skip("built without oneDNN");
}

#endif
