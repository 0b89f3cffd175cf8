/*
 * cpu_maps.h - what is done to every number by itself: relu, dropout and their ways back, one table a
 * SIMD level. tanh and the logistic function are in cpu_kernels.h.
 *
 * Bodies: cpu_maps_generic.c, cpu_maps_avx2.c, cpu_maps_avx512.c. Results are equal on all levels. In
 * place is legal everywhere.
 */
#ifndef ENGINE_CPU_MAPS_H
#define ENGINE_CPU_MAPS_H

#include <stdbool.h>
#include <stdint.h>

/* Whose numbers a dropout draws; see net.h. */
typedef struct cpu_draw {
    uint32_t key[2];
    uint32_t row;
    uint32_t step[2];
    uint32_t threshold; /* kept where a number is at least that; at most 65535 */
} cpu_draw;

typedef struct cpu_maps {
    const char *name;
    /* True where no value is NaN or infinite. */
    bool (*finite)(int64_t n, const float *x);
    /* y = max(x, 0); NaN stays. */
    void (*relu)(int64_t n, const float *x, float *y);
    /* dx = y > 0 ? dy * scale : 0 */
    void (*relu_back)(int64_t n, const float *y, const float *dy, float scale, float *dx);
    void (*tanh_back)(int64_t n, const float *y, const float *dy, float *dx);    /* dy (1 - y^2) */
    void (*sigmoid_back)(int64_t n, const float *y, const float *dy, float *dx); /* dy y (1 - y) */
    /* bits[i] = which of the 8 elements of block blocks[i] are kept, the first one lowest. Both
     * arrays have room for n rounded up to CPU_DRAW_BLOCKS. */
    void (*draw)(const cpu_draw *draw, int64_t n, const uint32_t *blocks, uint8_t *bits);
    /* y = bit ? x * scale : 0; with relu of max(x, 0). bits [(n + 7) / 8] */
    void (*drop)(int64_t n, const float *x, const uint8_t *bits, float scale, bool relu, float *y);
} cpu_maps;

#define CPU_DRAW_BLOCKS 16

extern const cpu_maps iter__cpu_maps_generic, iter__cpu_maps_avx2, iter__cpu_maps_avx512;

/* The table for a name of iter_cpu_level(); generic for one that is not here. */
const cpu_maps *iter__cpu_maps(const char *level);

#endif
