/*
 * cpu_kernels.h - the loops that are neither convolution nor matrix product, one table per SIMD
 * level.
 *
 * The bodies are written once, over a vector type and a dozen operations (cpu_math_body.h,
 * cpu_gates_body.h, cpu_update_body.h), and included by cpu_kernels_generic.c, _avx2.c, _avx512.c.
 * At one level, results do not depend on the number of threads. Between levels they may differ in
 * the last bits.
 *
 * ld is the number of floats from one row to the next.
 */
#ifndef ENGINE_CPU_KERNELS_H
#define ENGINE_CPU_KERNELS_H

#include <stdint.h>

#include "engine/cpu/cpu_optimizer.h"

/*
 * Gates of one step, rows of one thread, units u. `saved` [rows, 4 u] holds what a step keeps for
 * the way back: n, r, z, and a fourth that the variants use as they need.
 *
 *   projected     [*, >= 3 u] r, z, n of W x + biases; row i of this step is projected[index[i]]
 *   recurrent     [rows, >= 3 u] r, z, n of R h + biases; of the variant "before" [rows, >= 2 u] in
 *                 the first phase, [rows, >= u] = Rn (r h) in the second
 *   h_before, h   [rows, >= u]
 */
typedef struct cpu_gates_forward {
    int64_t rows, units;
    const float *projected;
    int64_t projected_ld;
    const int32_t *index;      /* [rows] */
    const int32_t *index_next; /* of the next step, to prefetch its rows; NULL = none */
    const float *recurrent;
    int64_t recurrent_ld;
    const float *h_before;
    float *h;
    int64_t h_ld;
    float *saved;
} cpu_gates_forward;

/*
 * The same step on its way back. In `saved`, the gradients before the activations replace n, r, z
 * and the fourth. dh [rows, >= u] is the gradient of h on entry and z dh on return; the caller then
 * adds the products with R.
 */
typedef struct cpu_gates_backward {
    int64_t rows, units;
    const float *dy; /* [rows, ...] added to dh; NULL = this step's output is not used */
    int64_t dy_ld;
    const float *h_before;
    float *dh;
    int64_t h_ld;
    const float *product; /* second phase of "before": [rows, >= u] = dn Rn */
    float *saved;
} cpu_gates_backward;

typedef struct cpu_kernels {
    const char *name;
    /* May work in place. Within 3 units of the last place of the exact value over the whole range
     * (2.5 was measured; perfect rounding has 0.5). NaN passes; results below the smallest normal
     * number may be 0. */
    void (*tanh)(int64_t n, const float *x, float *y);
    void (*sigmoid)(int64_t n, const float *x, float *y);

    /* Reset after: saved = n, r, z, q = Rn h + cn;  back: dn, dr, dz, dq = r dn. */
    void (*after_forward)(const cpu_gates_forward *step);
    void (*after_backward)(const cpu_gates_backward *step);
    /* Reset before: first r, z and the fourth = r h; then n and h. Back: first dn, dz; then dr. The
     * fourth remains r h. */
    void (*before_forward_reset)(const cpu_gates_forward *step);
    void (*before_forward_state)(const cpu_gates_forward *step);
    void (*before_backward_state)(const cpu_gates_backward *step);
    void (*before_backward_reset)(const cpu_gates_backward *step);

    /* x <- exp(x - *out_most), where *out_most is the largest of x, and returns the sum; n at least
     * 1. NaN passes into the sum; what is below exp(-87) becomes 0. */
    double (*exp_sum)(int64_t n, float *x, float *out_most);
    /* sums[i] += x[i] */
    void (*add)(int64_t n, const float *x, float *sums);
    /* out[j] = sum over i < n of x[rows[i] * ld + j], j < columns; n at least 1. */
    void (*sum_rows)(int64_t n, const int32_t *rows, const float *x, int64_t ld, int64_t columns,
                     float *out);

    /* One step of the optimiser over n weights. g NULL = the gradient is zero. m, v are NULL if the
     * optimiser keeps none. */
    void (*update)(const cpu_update *update, int64_t n, float *w, const float *g, float *m,
                   float *v);
    /* Gives the same bits as n_steps calls of update() with g NULL, but reads and writes each
     * number only once. */
    void (*replay)(const cpu_update *updates, int64_t n_steps, int64_t n, float *w, float *m,
                   float *v);
} cpu_kernels;

extern const cpu_kernels iter__cpu_kernels_generic, iter__cpu_kernels_avx2,
    iter__cpu_kernels_avx512;

/* The table for a name of iter_cpu_level(); generic if there is no table for that level. */
const cpu_kernels *iter__cpu_kernels(const char *level);

#endif
