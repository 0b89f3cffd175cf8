/*
 * cpu_maps.h - operations on single numbers: relu, dropout and their backward passes, one table per
 * SIMD level. tanh and the logistic function are in cpu_kernels.h.
 *
 * Bodies: cpu_maps_generic.c, cpu_maps_avx2.c, cpu_maps_avx512.c. Results are equal at all levels.
 * All of them may work in place.
 */
#ifndef ENGINE_CPU_MAPS_H
#define ENGINE_CPU_MAPS_H

#include <stdbool.h>
#include <stdint.h>

/* The key and counter of a dropout's random numbers; see net.h. */
typedef struct cpu_draw {
    uint32_t key[2];
    uint32_t row;
    uint32_t step[2];
    uint32_t threshold; /* an element is kept if its number is at least this; at most 65535 */
} cpu_draw;

typedef struct cpu_maps {
    const char *name;
    /* True if no value is NaN or infinite. */
    bool (*finite)(int64_t n, const float *x);
    /* y = max(x, 0); NaN stays NaN. */
    void (*relu)(int64_t n, const float *x, float *y);
    /* dx = y > 0 ? dy * scale : 0 */
    void (*relu_back)(int64_t n, const float *y, const float *dy, float scale, float *dx);
    void (*tanh_back)(int64_t n, const float *y, const float *dy, float *dx);    /* dy (1 - y^2) */
    void (*sigmoid_back)(int64_t n, const float *y, const float *dy, float *dx); /* dy y (1 - y) */
    /* bits[i] = which of the 8 elements of block blocks[i] are kept, lowest bit first. Both arrays
     * must have room for n rounded up to CPU_DRAW_BLOCKS. */
    void (*draw)(const cpu_draw *draw, int64_t n, const uint32_t *blocks, uint8_t *bits);
    /* y = bit ? x * scale : 0; if relu, of max(x, 0). bits [(n + 7) / 8] */
    void (*drop)(int64_t n, const float *x, const uint8_t *bits, float scale, bool relu, float *y);
} cpu_maps;

#define CPU_DRAW_BLOCKS 16

extern const cpu_maps iter__cpu_maps_generic, iter__cpu_maps_avx2, iter__cpu_maps_avx512;

/* The table for a name of iter_cpu_level(); generic if there is no table for that level. */
const cpu_maps *iter__cpu_maps(const char *level);

#endif
