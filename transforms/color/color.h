/*
 * color.h - colours of u8 pixels of three interleaved channels. The results equal Pillow's
 * ImageEnhance, convert("L") and convert("HSV") bit for bit.
 *
 * These are plain loops that the compiler vectorises, compiled once for each level. Every level
 * gives the same bits: the operations are on integers, or round every floating point result.
 */
#ifndef ITER_TRANSFORMS_COLOR_COLOR_H
#define ITER_TRANSFORMS_COLOR_COLOR_H

#include <stddef.h>
#include <stdint.h>

#include "iter/core/cpu.h"

/* n counts pixels, except in blend(). out may be in. */
typedef struct color_kernels {
    /* n bytes: base + factor * (x - base), clamped to 0 .. 255 and rounded down. */
    void (*blend)(uint8_t *out, const uint8_t *in, size_t n, float base, float factor);
    /* The same with each pixel's gray as base. */
    void (*saturate)(uint8_t *out, const uint8_t *in, size_t n, float factor);
    /* All three channels become gray. */
    void (*gray)(uint8_t *out, const uint8_t *in, size_t n);
    /* Returns the sum of the grays. */
    uint64_t (*gray_sum)(const uint8_t *in, size_t n);
    /* Turns the hue by `shift` of 256 steps. */
    void (*hue)(uint8_t *out, const uint8_t *in, size_t n, uint8_t shift);
} color_kernels;

extern const color_kernels iter__color_generic;
extern const color_kernels iter__color_avx2;
extern const color_kernels iter__color_avx512;

/* The kernels of a level. */
const color_kernels *iter__color_kernels(iter__cpu level);

#endif
