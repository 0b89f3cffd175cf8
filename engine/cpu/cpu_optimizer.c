/*
 * cpu_optimizer.c - see cpu_optimizer.h.
 *
 * Adam reads and writes three arrays, 24 bytes per weight, so memory bandwidth limits a dense pass.
 * Rows are dealt to threads a few at a time, not in halves: rows with large ids are rare words,
 * which have waited longest.
 */
#include "engine/cpu/cpu_optimizer.h"

#include <math.h>

#include "engine/cpu/cpu_parallel.h"
#include "engine/cpu/kernels/cpu_kernels.h"
#include "engine/engine_error.h"
#include "engine/engine_memory.h"

cpu_update iter__cpu_update(const engine_optimizer *optimizer, uint64_t step, double lr,
                            bool bias) {
    const double t = (double)step + 1;
    const double b1 = optimizer->beta1, b2 = optimizer->beta2;
    const bool adam = optimizer->kind == ENGINE_ADAM;
    const double rate = adam ? lr * sqrt(1 - pow(b2, t)) / (1 - pow(b1, t)) : lr;
    return (cpu_update){.rate = (float)rate,
                        .momentum = (float)optimizer->momentum,
                        .beta1 = (float)b1,
                        .beta1_rest = (float)(1 - b1),
                        .beta2 = (float)b2,
                        .beta2_rest = (float)(1 - b2),
                        .epsilon = (float)optimizer->epsilon,
                        .weight_decay = bias ? 0.0f : (float)optimizer->weight_decay};
}

typedef struct dense_work {
    const cpu_kernels *kernels;
    const cpu_update *update;
    int64_t n;
    float *w;
    const float *g;
    float *m, *v;
} dense_work;

static void dense_part(void *user, uint32_t t, uint32_t threads) {
    const dense_work *x = user;
    const int64_t lines = (x->n + 15) / 16; /* parts begin at cache lines */
    const int64_t from = 16 * iter__cpu_part(lines, t, threads);
    int64_t to = 16 * iter__cpu_part(lines, t + 1, threads);
    if (to > x->n) to = x->n;
    if (from >= to) return;
    x->kernels->update(x->update, to - from, x->w + from, x->g + from, x->m ? x->m + from : NULL,
                       x->v ? x->v + from : NULL);
}

void iter__cpu_update_run(const cpu_kernels *kernels, const cpu_update *update, int64_t n, float *w,
                          const float *g, float *m, float *v, uint32_t threads) {
    dense_work work = {kernels, update, n, w, g, m, v};
    iter__cpu_parallel(iter__cpu_worth(n, threads), dense_part, &work);
}

iter_status iter__cpu_rows_start(cpu_rows *rows, const cpu_kernels *kernels, int64_t n_rows,
                                 int64_t units, float *w, float *m, float *v, uint32_t threads,
                                 iter_error *err) {
    *rows = (cpu_rows){.kernels = kernels,
                       .threads = threads,
                       .n_rows = n_rows,
                       .units = units,
                       .w = w,
                       .m = m,
                       .v = v};
    rows->n_taken = iter__engine_alloc((size_t)n_rows, sizeof *rows->n_taken);
    if (!rows->n_taken) return iter__engine_fail(err, ITER_ENOMEM, "embedding: no memory");
    return ITER_OK;
}

void iter__cpu_rows_stop(cpu_rows *rows) {
    iter__engine_free(rows->n_taken);
    rows->n_taken = NULL;
}

uint64_t iter__cpu_rows_bytes(const cpu_rows *rows) {
    return (uint64_t)rows->n_rows * sizeof *rows->n_taken;
}

static void bring_up_to_date(cpu_rows *rows, int64_t row) {
    const uint32_t n = (uint32_t)rows->n_steps - rows->n_taken[row];
    if (n == 0) return;
    const int64_t at = row * rows->units;
    const uint64_t first = (rows->n_steps - n) % CPU_ROWS_WAIT;
    rows->kernels->replay(rows->history + first, n, rows->units, rows->w + at,
                          rows->m ? rows->m + at : NULL, rows->v ? rows->v + at : NULL);
    rows->n_taken[row] = (uint32_t)rows->n_steps;
}

typedef struct rows_work {
    cpu_rows *rows;
    const int32_t *ids; /* NULL: the rows from .. to themselves */
    int64_t from, to;   /* indices into ids, or rows */
    const cpu_update *update;
    const float *g;
    int64_t ld;
} rows_work;

#define TURN 8 /* rows */

/* Prefetches a row while the previous one is worked on: rows are scattered over tables that no
 * cache holds. */
static void ask_for(const cpu_rows *rows, int64_t row) {
    const float *const tables[] = {rows->w, rows->m, rows->v};
    for (int k = 0; k < 3; k++)
        for (int64_t j = 0; tables[k] && j < rows->units + 15; j += 16)
            __builtin_prefetch(tables[k] + row * rows->units + j, 1);
}

static void fetch_part(void *user, uint32_t t, uint32_t threads) {
    const rows_work *x = user;
    for (int64_t i = x->from + TURN * (int64_t)t; i < x->to; i += TURN * (int64_t)threads)
        for (int64_t k = i; k < i + TURN && k < x->to; k++) {
            if (x->ids && k + 1 < x->to) ask_for(x->rows, x->ids[k + 1]);
            bring_up_to_date(x->rows, x->ids ? x->ids[k] : k);
        }
}

static void step_part(void *user, uint32_t t, uint32_t threads) {
    const rows_work *x = user;
    cpu_rows *rows = x->rows;
    const int64_t from = iter__cpu_part(x->to, t, threads);
    const int64_t to = iter__cpu_part(x->to, t + 1, threads);
    for (int64_t i = from; i < to; i++) {
        const int64_t at = x->ids[i] * rows->units;
        if (i + 1 < to) ask_for(rows, x->ids[i + 1]);
        rows->kernels->update(x->update, rows->units, rows->w + at, x->g + i * x->ld,
                              rows->m ? rows->m + at : NULL, rows->v ? rows->v + at : NULL);
        rows->n_taken[x->ids[i]] = (uint32_t)rows->n_steps;
    }
}

void iter__cpu_rows_fetch(cpu_rows *rows, const int32_t *ids, int64_t n) {
    rows_work work = {.rows = rows, .ids = ids, .to = n};
    iter__cpu_parallel(rows->threads, fetch_part, &work);
}

void iter__cpu_rows_step(cpu_rows *rows, const cpu_update *update, const int32_t *ids, int64_t n,
                         const float *g, int64_t ld) {
    const uint64_t place = rows->n_steps % CPU_ROWS_WAIT;
    rows->history[place] = rows->history[place + CPU_ROWS_WAIT] = *update;
    rows->n_steps++;
    rows_work work = {.rows = rows, .ids = ids, .to = n, .update = update, .g = g, .ld = ld};
    iter__cpu_parallel(rows->threads, step_part, &work);

    rows_work share = {.rows = rows,
                       .from = iter__cpu_part(rows->n_rows, (uint32_t)place, CPU_ROWS_WAIT),
                       .to = iter__cpu_part(rows->n_rows, (uint32_t)place + 1, CPU_ROWS_WAIT)};
    iter__cpu_parallel(rows->threads, fetch_part, &share);
}

void iter__cpu_rows_settle(cpu_rows *rows) {
    rows_work work = {.rows = rows, .to = rows->n_rows};
    iter__cpu_parallel(rows->threads, fetch_part, &work);
}
