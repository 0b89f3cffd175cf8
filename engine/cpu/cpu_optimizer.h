/*
 * cpu_optimizer.h - weights follow gradients, in one pass over memory.
 *
 * A table of rows of which a batch touches few (an embedding) gets the same bits at a fraction of the
 * traffic: cpu_rows.
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

/* n weights; m, v NULL where the optimiser keeps none. Threads take equal parts. */
void iter__cpu_update_run(const cpu_kernels *kernels, const cpu_update *update, int64_t n, float *w,
                          const float *g, float *m, float *v, uint32_t threads);

/*
 * Rows whose steps are taken when somebody looks. A row without a gradient still decays its moments
 * and moves at every step; those steps depend on nothing but the row and the step's constants, so
 * they may be taken later, all at once, in registers, with the same bits. A row waits for at most
 * CPU_ROWS_WAIT steps: at every step a share of the table is brought up to date.
 *
 * For 30000 x 125 and Adam this is a matter of 90 MB a step against 13.
 */
#define CPU_ROWS_WAIT 64

typedef struct cpu_rows {
    const cpu_kernels *kernels;
    uint32_t threads;
    int64_t n_rows, units;
    float *w, *m, *v;  /* [n_rows, units], borrowed; NULL where the optimiser keeps none */
    uint64_t n_steps;  /* taken by those rows that are up to date */
    uint32_t *n_taken; /* [n_rows] by each row, modulo 2^32 */
    cpu_update history[2 * CPU_ROWS_WAIT]; /* of the last steps, twice, so that any run of them is
                                            * in one piece */
} cpu_rows;

/* Errors: ENOMEM. */
iter_status iter__cpu_rows_start(cpu_rows *rows, const cpu_kernels *kernels, int64_t n_rows,
                                 int64_t units, float *w, float *m, float *v, uint32_t threads,
                                 iter_error *err);
void iter__cpu_rows_stop(cpu_rows *rows);
uint64_t iter__cpu_rows_bytes(const cpu_rows *rows); /* of its own */

/* Brings the rows of `ids` [n] up to date. Before every reading of them. */
void iter__cpu_rows_fetch(cpu_rows *rows, const int32_t *ids, int64_t n);

/* One step: row ids[i] has gradient g[i * ld], all others 0. The rows have been fetched; ids are
 * different, ascending. */
void iter__cpu_rows_step(cpu_rows *rows, const cpu_update *update, const int32_t *ids, int64_t n,
                         const float *g, int64_t ld);

/* Brings all rows up to date. Before weights or moments are read, or written from outside. */
void iter__cpu_rows_settle(cpu_rows *rows);

#endif
