/*
 * cpu_kernels.h - the loops that are neither convolution nor matrix product, one table a SIMD level.
 *
 * Bodies are written once, over a vector type and a dozen operations (cpu_math_body.h,
 * cpu_gates_body.h, cpu_update_body.h), and included by cpu_kernels_generic.c, _avx2.c, _avx512.c.
 * Results are the same for a level whatever the number of threads, and may differ in the last bits
 * between levels.
 *
 * Where a text says ld, it is the floats from one row to the next.
 */
#ifndef ENGINE_CPU_KERNELS_H
#define ENGINE_CPU_KERNELS_H

#include <stdint.h>

#include "engine/cpu/cpu_optimizer.h"

/*
 * Gates of one step, rows of one thread, units u. What a step must keep for the way back stands in
 * `saved` [rows, 4 u]: n, r, z, and a fourth that the variants use as they need.
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
    const int32_t *index_next; /* of the next step, to fetch its rows early; NULL = none */
    const float *recurrent;
    int64_t recurrent_ld;
    const float *h_before;
    float *h;
    int64_t h_ld;
    float *saved;
} cpu_gates_forward;

/*
 * The same step on its way back. `saved` becomes the gradients before the activations: n, r, z and
 * what the fourth holds; dh [rows, >= u] comes in as the gradient of h and goes out as z dh, to which
 * the caller adds the products with R.
 */
typedef struct cpu_gates_backward {
    int64_t rows, units;
    const float *dy; /* [rows, ...] joins dh; NULL = nothing uses this step's output */
    int64_t dy_ld;
    const float *h_before;
    float *dh;
    int64_t h_ld;
    const float *product; /* second phase of "before": [rows, >= u] = dn Rn */
    float *saved;
} cpu_gates_backward;

typedef struct cpu_kernels {
    const char *name;
    /* In place is legal. Within 3 units of the last place of the exact value over the whole range
     * (2.5 was measured; rounded perfectly it would be 0.5); NaN passes; what is below the smallest
     * normal number may be 0. */
    void (*tanh)(int64_t n, const float *x, float *y);
    void (*sigmoid)(int64_t n, const float *x, float *y);

    /* Reset after: saved = n, r, z, q = Rn h + cn;  back: dn, dr, dz, dq = r dn. */
    void (*after_forward)(const cpu_gates_forward *step);
    void (*after_backward)(const cpu_gates_backward *step);
    /* Reset before: first r, z and the fourth = r h; then n and h. Back: first dn, dz; then dr; the
     * fourth stays r h. */
    void (*before_forward_reset)(const cpu_gates_forward *step);
    void (*before_forward_state)(const cpu_gates_forward *step);
    void (*before_backward_state)(const cpu_gates_backward *step);
    void (*before_backward_reset)(const cpu_gates_backward *step);

    /* sums[i] += x[i] */
    void (*add)(int64_t n, const float *x, float *sums);
    /* out[j] = sum over i < n of x[rows[i] * ld + j], j < columns; n at least 1. */
    void (*sum_rows)(int64_t n, const int32_t *rows, const float *x, int64_t ld, int64_t columns,
                     float *out);

    /* One step of the optimiser over n weights; g NULL = a gradient of zero. m, v NULL where the
     * optimiser keeps none. */
    void (*update)(const cpu_update *update, int64_t n, float *w, const float *g, float *m,
                   float *v);
    /* The same bits as n_steps times update() with g NULL, but each number is read and written
     * once. */
    void (*replay)(const cpu_update *updates, int64_t n_steps, int64_t n, float *w, float *m,
                   float *v);
} cpu_kernels;

extern const cpu_kernels iter__cpu_kernels_generic, iter__cpu_kernels_avx2,
    iter__cpu_kernels_avx512;

/* The table for a name of iter_cpu_level(); generic for one that is not here. */
const cpu_kernels *iter__cpu_kernels(const char *level);

#endif
