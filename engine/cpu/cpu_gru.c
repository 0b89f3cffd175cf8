/*
 * cpu_gru.c - see cpu_gru.h. The equations are in cpu_gates_body.h.
 *
 * Memory: each thread has a block of rows of the batch, and its steps are contiguous: [steps + 1,
 * rows of the block, .] states, and [steps, rows, 4 units] for the way back. So a run of steps is
 * one matrix. Gradients of the recurrent weights are summed over runs that fit the cache, by
 * products that are deep enough to be fast.
 *
 * Biases are an extra row of the weights, and states and table rows have a 1 for it; so the same
 * products compute the biases' gradients. Widths are padded to 16 floats, because oneDNN is faster
 * then; padding is always zero.
 */
#include "engine/cpu/cpu_gru.h"

#include <stdatomic.h>
#include <string.h>

#include "engine/cpu/cpu_parallel.h"
#include "engine/cpu/onednn.h"
#include "engine/engine_error.h"
#include "engine/engine_memory.h"

/* Rows times steps of one product for the recurrent weights' gradient: 2 KB each, so they stay in
 * the L2 cache. */
#define RUN_ROWS 256

/* The rows of the batch that one thread computes, and its memory. */
typedef struct block {
    int64_t first, rows;
    float *states;   /* [steps + 1, rows, state_ld] */
    float *saved;    /* [steps, rows, 4 units] */
    float *products; /* [rows, gates_ld] of one step */
    float *dh;       /* [rows, state_ld] */
    float *gradient; /* [state_ld, gates_ld] of the recurrent weights, for these rows */
} block;

struct cpu_gru {
    cpu_gru_config config;
    int64_t table_ld; /* features + 1, padded; so are the next two */
    int64_t state_ld; /* units + 1 */
    int64_t gates_ld; /* 3 units */
    /* Weights in the form that the products need, rebuilt by every forward(). */
    float *w_forward;  /* [table_ld, gates_ld] input weights transposed, then a row of biases */
    float *w_backward; /* [gates_ld, table_ld] */
    float *r_forward;  /* [state_ld, gates_ld] recurrent weights transposed, then biases */
    float *r_backward; /* [3 units, state_ld] */
    float *gradient;   /* [max(table_ld, state_ld), gates_ld] transposed, biases last */
    float *table;      /* [steps * batch, table_ld] */
    float *projected;  /* [steps * batch, gates_ld]; on the way back gradients summed by token */
    float *states, *saved, *products, *dh, *partial; /* of all blocks */
    float *heads;                                    /* [threads, gates_ld] */
    int32_t *place_of;                               /* [steps * batch] row of `saved` of a token */
    int32_t *places;  /* [steps * batch] the same in the order of sums */
    uint8_t *begins;  /* [steps, batch] 1 = the state before this step is zeros; else NULL */
    int32_t *numbers; /* [steps * batch + 1] 0, 1, 2, ..: tokens of a table without repetition */
    block *blocks;    /* [threads] */
    cpu_tokens all_different;
    uint64_t n_bytes; /* of all these */
};

/* ---- Memory ---------------------------------------------------------------------------------- */

static int64_t padded(int64_t n) {
    return (n + 15) / 16 * 16;
}

/* Zeroed, counted memory that destroy() frees; NULL = out of memory. */
static void *take(cpu_gru *g, int64_t n, size_t size) {
    void *memory = iter__engine_alloc((size_t)n, size);
    if (memory) g->n_bytes += (uint64_t)n * size;
    return memory;
}

static float *floats(cpu_gru *g, int64_t rows, int64_t columns) {
    return take(g, rows * columns, sizeof(float));
}

static bool allocate(cpu_gru *g) {
    const cpu_gru_config *c = &g->config;
    const int64_t tokens = c->batch * c->steps, u = c->units;
    const int64_t tall = g->table_ld > g->state_ld ? g->table_ld : g->state_ld;
    return (g->w_forward = floats(g, g->table_ld, g->gates_ld)) &&
           (g->w_backward = floats(g, g->gates_ld, g->table_ld)) &&
           (g->r_forward = floats(g, g->state_ld, g->gates_ld)) &&
           (g->r_backward = floats(g, 3 * u, g->state_ld)) &&
           (g->gradient = floats(g, tall, g->gates_ld)) &&
           (g->table = floats(g, tokens, g->table_ld)) &&
           (g->projected = floats(g, tokens, g->gates_ld)) &&
           (g->states = floats(g, tokens + c->batch, g->state_ld)) &&
           (g->saved = floats(g, tokens, 4 * u)) &&
           (g->products = floats(g, c->batch, g->gates_ld)) &&
           (g->dh = floats(g, c->batch, g->state_ld)) &&
           (g->partial = floats(g, c->threads * g->state_ld, g->gates_ld)) &&
           (g->heads = floats(g, c->threads, g->gates_ld)) &&
           (g->place_of = take(g, tokens, sizeof *g->place_of)) &&
           (g->places = take(g, tokens, sizeof *g->places)) &&
           (g->numbers = take(g, tokens + 1, sizeof *g->numbers)) &&
           (!c->segments || (g->begins = take(g, tokens, 1))) &&
           (g->blocks = take(g, c->threads, sizeof *g->blocks));
}

static void divide(cpu_gru *g) {
    const int64_t batch = g->config.batch, steps = g->config.steps, u = g->config.units;
    for (uint32_t t = 0; t < g->config.threads; t++) {
        const int64_t first = iter__cpu_part(batch, t, g->config.threads);
        const int64_t end = iter__cpu_part(batch, t + 1, g->config.threads);
        g->blocks[t] = (block){.first = first,
                               .rows = end - first,
                               .states = g->states + first * (steps + 1) * g->state_ld,
                               .saved = g->saved + first * steps * 4 * u,
                               .products = g->products + first * g->gates_ld,
                               .dh = g->dh + first * g->state_ld,
                               .gradient = g->partial + t * g->state_ld * g->gates_ld};
        for (int64_t step = 0; step < steps; step++)
            for (int64_t i = first; i < end; i++)
                g->place_of[step * batch + i] =
                    (int32_t)(first * steps + step * (end - first) + i - first);
    }
}

iter_status iter__cpu_gru_create(const cpu_gru_config *config, cpu_gru **out, iter_error *err) {
    *out = NULL;
    if (config->batch > INT32_MAX / config->steps)
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "gru: batches of %lld x %lld steps are too large",
                                 (long long)config->batch, (long long)config->steps);
    cpu_gru *g = iter__engine_alloc(1, sizeof *g);
    if (g) {
        g->config = *config;
        g->n_bytes = sizeof *g;
        g->table_ld = padded(config->features + 1);
        g->state_ld = padded(config->units + 1);
        g->gates_ld = padded(3 * config->units);
    }
    if (!g || !allocate(g)) {
        iter__cpu_gru_destroy(g);
        return iter__engine_fail(err, ITER_ENOMEM,
                                 "gru: no memory for batches of %lld x %lld steps",
                                 (long long)config->batch, (long long)config->steps);
    }
    divide(g);
    const int64_t tokens = config->batch * config->steps;
    for (int64_t i = 0; i < tokens + config->batch; i++)
        g->states[i * g->state_ld + config->units] = 1.0f;
    for (int64_t i = 0; i <= tokens; i++)
        g->numbers[i] = (int32_t)i;
    g->all_different = (cpu_tokens){tokens, tokens, g->numbers, g->numbers, g->numbers, g->numbers};
    *out = g;
    return ITER_OK;
}

void iter__cpu_gru_destroy(cpu_gru *g) {
    if (!g) return;
    void *const all[] = {g->w_forward, g->w_backward, g->r_forward, g->r_backward, g->gradient,
                         g->table,     g->projected,  g->states,    g->saved,      g->products,
                         g->dh,        g->partial,    g->heads,     g->place_of,   g->places,
                         g->numbers,   g->blocks,     g->begins};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        iter__engine_free(all[i]);
    iter__engine_free(g);
}

uint64_t iter__cpu_gru_bytes(const cpu_gru *g) {
    return g->n_bytes;
}

/* ---- The table ------------------------------------------------------------------------------- */

float *iter__cpu_gru_table(cpu_gru *g, int64_t *ld) {
    *ld = g->table_ld;
    return g->table;
}

const cpu_tokens *iter__cpu_gru_fill(cpu_gru *g, const float *x) {
    const int64_t f = g->config.features;
    for (int64_t k = 0; k < g->all_different.n_tokens; k++) {
        float *row = g->table + k * g->table_ld;
        memcpy(row, x + k * f, (size_t)f * sizeof *row);
        row[f] = 1.0f;
        memset(row + f + 1, 0, (size_t)(g->table_ld - f - 1) * sizeof *row);
    }
    return &g->all_different;
}

void iter__cpu_gru_unfill(const cpu_gru *g, float *dx) {
    const int64_t f = g->config.features;
    for (int64_t k = 0; k < g->all_different.n_tokens; k++)
        memcpy(dx + k * f, g->table + k * g->table_ld, (size_t)f * sizeof *dx);
}

/* ---- Segments -------------------------------------------------------------------------------- */

void iter__cpu_gru_segments(cpu_gru *g, const iter_tensor *segments, int64_t n_rows) {
    const int64_t batch = g->config.batch, *strides = segments->strides;
    memset(g->begins, 0, (size_t)(batch * g->config.steps));
    for (int64_t i = 0; i < n_rows; i++) {
        const int32_t *row = (const int32_t *)segments->data + i * strides[0];
        for (int64_t t = 1; t < g->config.steps; t++)
            g->begins[t * batch + i] = row[t * strides[1]] != row[(t - 1) * strides[1]];
    }
}

/* Zeroes `n` floats in those of the block's rows whose state before this step is zeros. */
static void zero_begins(const cpu_gru *g, const block *b, int64_t step, int64_t n, float *rows) {
    const uint8_t *begins = g->begins ? g->begins + step * g->config.batch + b->first : NULL;
    for (int64_t i = 0; begins && i < b->rows; i++)
        if (begins[i]) memset(rows + i * g->state_ld, 0, (size_t)n * sizeof *rows);
}

/* ---- Weights in, gradients out --------------------------------------------------------------- */

/* Dense [rows, columns] into out[column * ld + row]. */
static void transpose(const float *in, int64_t rows, int64_t columns, float *out, int64_t ld) {
    for (int64_t i = 0; i < rows; i += 16)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t k = i; k < rows && k < i + 16; k++)
                out[j * ld + k] = in[k * columns + j];
}

/* From in[column * ld + row] to out, dense [rows, columns]. */
static void transpose_back(const float *in, int64_t ld, int64_t rows, int64_t columns, float *out) {
    for (int64_t i = 0; i < rows; i += 16)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t k = i; k < rows && k < i + 16; k++)
                out[k * columns + j] = in[j * ld + k];
}

static void pack(cpu_gru *g, const cpu_gru_params *weights) {
    const int64_t f = g->config.features, u = g->config.units, rows = 3 * u;
    transpose(weights->input, rows, f, g->w_forward, g->gates_ld);
    transpose(weights->recurrent, rows, u, g->r_forward, g->gates_ld);
    float *wb = g->w_forward + f * g->gates_ld, *rb = g->r_forward + u * g->gates_ld;
    memcpy(wb, weights->input_bias, (size_t)rows * sizeof *wb);
    memcpy(rb, weights->recurrent_bias, (size_t)rows * sizeof *rb);
    if (g->config.reset_before) /* r h has no 1 next to it: both biases of n are added with x */
        g->config.kernels->add(u, rb + 2 * u, wb + 2 * u);
    for (int64_t i = 0; i < rows; i++) {
        memcpy(g->w_backward + i * g->table_ld, weights->input + i * f, (size_t)f * sizeof *wb);
        memcpy(g->r_backward + i * g->state_ld, weights->recurrent + i * u, (size_t)u * sizeof *wb);
    }
}

/* A product over the table, divided by us: every thread multiplies alone, as in the recurrence. */
typedef struct wide_product {
    bool transpose_a; /* if true, threads divide the columns of C, else its rows */
    int64_t m, n, k;
    const float *a;
    int64_t lda;
    const float *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
} wide_product;

/* Shared by all threads. */
typedef struct sweep {
    cpu_gru *gru;
    const cpu_tokens *tokens;
    float *y;
    const float *dy;
    const wide_product *product;
    atomic_bool failed; /* relaxed, because the end of a parallel region orders it */
} sweep;

static void fail_part(sweep *x) {
    atomic_store_explicit(&x->failed, true, memory_order_relaxed);
}

static void wide_part(void *user, uint32_t t, uint32_t threads) {
    sweep *x = user;
    const wide_product *p = x->product;
    const int64_t all = p->transpose_a ? p->n : p->m, lines = (all + 15) / 16;
    const int64_t from = 16 * iter__cpu_part(lines, t, threads);
    int64_t n = 16 * iter__cpu_part(lines, t + 1, threads) - from;
    if (n > all - from) n = all - from;
    if (n <= 0) return;
    const bool good = p->transpose_a
                          ? iter__dnn_sgemm(true, false, p->m, n, p->k, p->a, p->lda, p->b + from,
                                            p->ldb, 0, p->c + from, p->ldc)
                          : iter__dnn_sgemm(false, false, n, p->n, p->k, p->a + from * p->lda,
                                            p->lda, p->b, p->ldb, 0, p->c + from * p->ldc, p->ldc);
    if (!good) fail_part(x);
}

static iter_status run_parts(sweep *x, void (*part)(void *, uint32_t, uint32_t), iter_error *err) {
    iter__cpu_parallel(x->gru->config.threads, part, x);
    if (!atomic_load_explicit(&x->failed, memory_order_relaxed)) return ITER_OK;
    return iter__engine_fail(err, ITER_ENOMEM, "oneDNN has no memory for a product of matrices");
}

static iter_status multiply(sweep *x, const wide_product *product, iter_error *err) {
    x->product = product;
    return run_parts(x, wide_part, err);
}

/* ---- Forward --------------------------------------------------------------------------------- */

static bool step_forward(const cpu_gru *g, const block *b, const cpu_gates_forward *s) {
    const int64_t u = s->units, ld = g->gates_ld;
    if (!g->config.reset_before) {
        if (!iter__dnn_sgemm(false, false, b->rows, ld, u + 1, s->h_before, s->h_ld, g->r_forward,
                             ld, 0, b->products, ld))
            return false;
        g->config.kernels->after_forward(s);
        return true;
    }
    if (!iter__dnn_sgemm(false, false, b->rows, 2 * u, u + 1, s->h_before, s->h_ld, g->r_forward,
                         ld, 0, b->products, ld))
        return false;
    g->config.kernels->before_forward_reset(s);
    if (!iter__dnn_sgemm(false, false, b->rows, u, u, s->saved + 3 * u, 4 * u, g->r_forward + 2 * u,
                         ld, 0, b->products, ld))
        return false;
    g->config.kernels->before_forward_state(s);
    return true;
}

static void forward_part(void *user, uint32_t thread, uint32_t n_threads) {
    (void)n_threads;
    sweep *x = user;
    const cpu_gru *g = x->gru;
    const block *b = &g->blocks[thread];
    const int64_t u = g->config.units, steps = g->config.steps, batch = g->config.batch;
    if (b->rows == 0) return;
    for (int64_t i = 0; i < b->rows; i++)
        memset(b->states + i * g->state_ld, 0, (size_t)u * sizeof(float));
    for (int64_t step = 0; step < steps; step++) {
        const int32_t *index = x->tokens->index + step * batch + b->first;
        float *h = b->states + (step + 1) * b->rows * g->state_ld;
        const cpu_gates_forward s = {.rows = b->rows,
                                     .units = u,
                                     .projected = g->projected,
                                     .projected_ld = g->gates_ld,
                                     .index = index,
                                     .index_next = step + 1 < steps ? index + batch : NULL,
                                     .recurrent = b->products,
                                     .recurrent_ld = g->gates_ld,
                                     .h_before = h - b->rows * g->state_ld,
                                     .h = h,
                                     .h_ld = g->state_ld,
                                     .saved = b->saved + step * b->rows * 4 * u};
        zero_begins(g, b, step, u, h - b->rows * g->state_ld); /* its output was copied to y */
        if (!step_forward(g, b, &s)) {
            fail_part(x);
            return;
        }
        if (g->config.only_last && step + 1 < steps) continue;
        float *y = x->y + ((g->config.only_last ? 0 : step * batch) + b->first) * u;
        for (int64_t i = 0; i < b->rows; i++)
            memcpy(y + i * u, h + i * g->state_ld, (size_t)u * sizeof(float));
    }
}

iter_status iter__cpu_gru_forward(cpu_gru *g, const cpu_gru_params *weights,
                                  const cpu_tokens *tokens, float *y, iter_error *err) {
    pack(g, weights);
    sweep x = {.gru = g, .tokens = tokens, .y = y};
    const wide_product projection = {
        false,       tokens->n_different, g->gates_ld, g->config.features + 1, g->table,
        g->table_ld, g->w_forward,        g->gates_ld, g->projected,           g->gates_ld};
    ENGINE_TRY(multiply(&x, &projection, err));
    return run_parts(&x, forward_part, err);
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* Adds what n contiguous rows of consecutive steps contribute to the recurrent weights. */
static bool add_recurrent(const cpu_gru *g, const block *b, int64_t n, const float *states,
                          const float *saved, float beta) {
    const int64_t u = g->config.units, ld = g->gates_ld;
    if (!g->config.reset_before)
        return iter__dnn_sgemm(true, false, g->state_ld, 3 * u, n, states, g->state_ld, saved + u,
                               4 * u, beta, b->gradient, ld);
    return iter__dnn_sgemm(true, false, g->state_ld, 2 * u, n, states, g->state_ld, saved + u,
                           4 * u, beta, b->gradient, ld) &&
           iter__dnn_sgemm(true, false, u, u, n, saved + 3 * u, 4 * u, saved, 4 * u, beta,
                           b->gradient + 2 * u, ld);
}

/* dh <- gradient of the state before this step. */
static bool step_backward(const cpu_gru *g, const block *b, const cpu_gates_backward *s) {
    const int64_t u = s->units, ld = g->state_ld;
    if (!g->config.reset_before) {
        g->config.kernels->after_backward(s);
        return iter__dnn_sgemm(false, false, b->rows, ld, 3 * u, s->saved + u, 4 * u, g->r_backward,
                               ld, 1, s->dh, ld);
    }
    g->config.kernels->before_backward_state(s);
    if (!iter__dnn_sgemm(false, false, b->rows, ld, u, s->saved, 4 * u, g->r_backward + 2 * u * ld,
                         ld, 0, b->products, ld))
        return false;
    g->config.kernels->before_backward_reset(s);
    return iter__dnn_sgemm(false, false, b->rows, ld, 2 * u, s->saved + u, 4 * u, g->r_backward, ld,
                           1, s->dh, ld);
}

static void backward_part(void *user, uint32_t thread, uint32_t n_threads) {
    (void)n_threads;
    sweep *x = user;
    const cpu_gru *g = x->gru;
    const block *b = &g->blocks[thread];
    const int64_t u = g->config.units, steps = g->config.steps, batch = g->config.batch;
    if (b->rows == 0) return;
    memset(b->dh, 0, (size_t)(b->rows * g->state_ld) * sizeof(float));
    const int64_t run = b->rows < RUN_ROWS ? RUN_ROWS / b->rows : 1;
    int64_t run_end = steps;
    for (int64_t step = steps - 1; step >= 0; step--) {
        cpu_gates_backward s = {.rows = b->rows,
                                .units = u,
                                .h_before = b->states + step * b->rows * g->state_ld,
                                .dh = b->dh,
                                .h_ld = g->state_ld,
                                .product = b->products,
                                .saved = b->saved + step * b->rows * 4 * u,
                                .dy_ld = u};
        if (!g->config.only_last)
            s.dy = x->dy + (step * batch + b->first) * u;
        else if (step == steps - 1)
            s.dy = x->dy + b->first * u;
        bool good = step_backward(g, b, &s);
        zero_begins(g, b, step, g->state_ld, b->dh);
        if (good && (run_end - step == run || step == 0)) {
            good = add_recurrent(g, b, (run_end - step) * b->rows, s.h_before, s.saved,
                                 run_end == steps ? 0.0f : 1.0f);
            run_end = step;
        }
        if (!good) {
            fail_part(x);
            return;
        }
    }
}

static void finish_recurrent(cpu_gru *g, const cpu_gru_params *gradients) {
    const int64_t u = g->config.units, size = g->state_ld * g->gates_ld;
    memset(g->gradient, 0, (size_t)size * sizeof(float));
    for (uint32_t t = 0; t < g->config.threads; t++)
        if (g->blocks[t].rows > 0) g->config.kernels->add(size, g->blocks[t].gradient, g->gradient);
    transpose_back(g->gradient, g->gates_ld, 3 * u, u, gradients->recurrent);
    memcpy(gradients->recurrent_bias, g->gradient + u * g->gates_ld,
           (size_t)(3 * u) * sizeof(float));
}

/* projected <- gradients of the sums before the activations, r, z, n, by row of the table. */
static void sum_by_token(cpu_gru *g, const cpu_tokens *tokens) {
    const int64_t u = g->config.units;
    for (int64_t j = 0; j < tokens->n_tokens; j++)
        g->places[j] = g->place_of[tokens->order[j]];
    const cpu_token_sums sums = {.kernels = g->config.kernels,
                                 .tokens = tokens,
                                 .places = g->places,
                                 .x = g->saved,
                                 .x_ld = 4 * u,
                                 .runs = {{u, 0, 2 * u}, {0, 2 * u, u}},
                                 .out = g->projected,
                                 .ld = g->gates_ld,
                                 .heads = g->heads,
                                 .threads = g->config.threads};
    iter__cpu_token_sums(&sums);
}

iter_status iter__cpu_gru_backward(cpu_gru *g, const cpu_tokens *tokens, const float *dy,
                                   const cpu_gru_params *gradients, iter_error *err) {
    const int64_t u = g->config.units, f = g->config.features, n = tokens->n_different;
    sweep x = {.gru = g, .tokens = tokens, .dy = dy};
    ENGINE_TRY(run_parts(&x, backward_part, err));
    finish_recurrent(g, gradients);

    sum_by_token(g, tokens);
    const wide_product weights = {true,        g->table_ld,  g->gates_ld, n,           g->table,
                                  g->table_ld, g->projected, g->gates_ld, g->gradient, g->gates_ld};
    ENGINE_TRY(multiply(&x, &weights, err));
    transpose_back(g->gradient, g->gates_ld, 3 * u, f, gradients->input);
    memcpy(gradients->input_bias, g->gradient + f * g->gates_ld, (size_t)(3 * u) * sizeof(float));
    if (g->config.reset_before)
        memcpy(gradients->recurrent_bias + 2 * u, gradients->input_bias + 2 * u,
               (size_t)u * sizeof(float));
    const wide_product back = {false,        n,           g->table_ld,   g->gates_ld,
                               g->projected, g->gates_ld, g->w_backward, g->table_ld,
                               g->table,     g->table_ld};
    return g->config.input_gradient ? multiply(&x, &back, err) : ITER_OK;
}
