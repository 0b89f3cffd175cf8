/*
 * color.h - colours of u8 pixels, three channels side by side, as Pillow's ImageEnhance, convert("L") and convert("HSV") make them, bit for bit.
 *
 * Plain loops that compilers turn into SIMD, compiled once for each level. No operation depends on the level: integers, and floating point numbers
 * one by one, each rounded.
 */
#ifndef ITER_TRANSFORMS_COLOR_H
#define ITER_TRANSFORMS_COLOR_H

#include <stddef.h>
#include <stdint.h>

#include "iter/core/cpu.h"

/* n pixels, or bytes where said; out may be in. */
typedef struct color_kernels {
    /* n bytes: base + factor * (x - base), cut to 0 .. 255 and rounded down. */
    void (*blend)(uint8_t *out, const uint8_t *in, size_t n, float base, float factor);
    /* The same with each pixel's gray as its base. */
    void (*saturate)(uint8_t *out, const uint8_t *in, size_t n, float factor);
    /* All three become gray. */
    void (*gray)(uint8_t *out, const uint8_t *in, size_t n);
    /* Sum of the grays. */
    uint64_t (*gray_sum)(const uint8_t *in, size_t n);
    /* The hue, of 256 steps, goes on by `shift` of them. */
    void (*hue)(uint8_t *out, const uint8_t *in, size_t n, uint8_t shift);
} color_kernels;

extern const color_kernels iter__color_generic;
extern const color_kernels iter__color_avx2;
extern const color_kernels iter__color_avx512;

/* The kernels of a level. */
const color_kernels *iter__color_kernels(iter__cpu level);

#endif
