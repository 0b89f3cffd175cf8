/*
 * cpu_optimizer.h - updates weights from gradients in one pass over memory.
 *
 * If a batch touches only few rows of a table (an embedding), cpu_rows gives the same bits with a
 * fraction of the memory traffic.
 */
#ifndef ENGINE_CPU_OPTIMIZER_H
#define ENGINE_CPU_OPTIMIZER_H

#include <iter/status.h>

#include "engine/optimizer.h"

typedef struct cpu_kernels cpu_kernels;

/* The constants of one step, computed in double and rounded once. */
typedef struct cpu_update {
    float rate; /* SGD: lr; Adam: lr sqrt(1 - beta2^t) / (1 - beta1^t) */
    float momentum;
    float beta1, beta1_rest, beta2, beta2_rest; /* rest = 1 - beta */
    float epsilon;
    float weight_decay; /* 0 for a bias */
} cpu_update;

/* step counts from 0; lr is this step's. */
cpu_update iter__cpu_update(const engine_optimizer *optimizer, uint64_t step, double lr, bool bias);

/* Updates n weights; m, v are NULL if the optimiser keeps none. Threads take equal parts. */
void iter__cpu_update_run(const cpu_kernels *kernels, const cpu_update *update, int64_t n, float *w,
                          const float *g, float *m, float *v, uint32_t threads);

/*
 * Rows whose steps are taken only when they are read. Even without a gradient, a row's moments
 * decay and its weights move at every step. These steps depend only on the row and the step's
 * constants. So they may be taken later, all at once, in registers, with the same bits. A row waits
 * for at most CPU_ROWS_WAIT steps: every step brings a share of the table up to date.
 *
 * For 30000 x 125 and Adam, a step moves 13 MB instead of 90 MB.
 */
#define CPU_ROWS_WAIT 64

typedef struct cpu_rows {
    const cpu_kernels *kernels;
    uint32_t threads;
    int64_t n_rows, units;
    float *w, *m, *v;  /* [n_rows, units], borrowed; NULL if the optimiser keeps none */
    uint64_t n_steps;  /* steps taken by the rows that are up to date */
    uint32_t *n_taken; /* [n_rows] steps taken by each row, modulo 2^32 */
    /* The last steps, stored twice so that any run of them is contiguous. */
    cpu_update history[2 * CPU_ROWS_WAIT];
} cpu_rows;

/* Errors: ENOMEM. */
iter_status iter__cpu_rows_start(cpu_rows *rows, const cpu_kernels *kernels, int64_t n_rows,
                                 int64_t units, float *w, float *m, float *v, uint32_t threads,
                                 iter_error *err);
void iter__cpu_rows_stop(cpu_rows *rows);
uint64_t iter__cpu_rows_bytes(const cpu_rows *rows); /* memory of its own */

/* Brings the rows of `ids` [n] up to date. Must be called before they are read. */
void iter__cpu_rows_fetch(cpu_rows *rows, const int32_t *ids, int64_t n);

/* One step: row ids[i] has gradient g[i * ld], all others 0. The rows must have been fetched; ids
 * are ascending and all different. */
void iter__cpu_rows_step(cpu_rows *rows, const cpu_update *update, const int32_t *ids, int64_t n,
                         const float *g, int64_t ld);

/* Brings all rows up to date. Must be called before weights or moments are read or written from
 * outside. */
void iter__cpu_rows_settle(cpu_rows *rows);

#endif
