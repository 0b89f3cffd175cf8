/*
 * half.h - f16 and bf16 from and to f32 and f64, one element at a time, rounded to nearest even.
 *
 * The same bits as the processors' own instructions (vcvtps2ph, vcvtph2ps), quiet NaN payloads
 * included, so that every SIMD level agrees with plain C.
 */
#ifndef ITER_TRANSFORMS_PACK_HALF_H
#define ITER_TRANSFORMS_PACK_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float f32_from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint16_t f16_from_f32(float x) {
    const uint32_t bits = f32_bits(x);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (size >> 13 & 0x3ffu));
    if (size >= 0x47800000u) return (uint16_t)(sign | 0x7c00u); /* 2^16 and above */
    if (size < 0x38800000u) { /* below 2^-14: 0.5f has the spacing of f16's subnormals, 2^-24 */
        const float shifted = f32_from_bits(size) + 0.5f;
        return (uint16_t)(sign | (f32_bits(shifted) - 0x3f000000u));
    }
    /* Rebiases the exponent by 112. To round, adds one less than half of the last place, or exactly
     * half if the last place is odd. */
    return (uint16_t)(sign | ((size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13));
}

static inline float f32_from_f16(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = half >> 10 & 31u;
    const uint32_t mantissa = half & 0x3ffu;
    if (exponent == 31)
        return f32_from_bits(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0u));
    if (exponent == 0) return f32_from_bits(sign | f32_bits((float)mantissa * 0x1p-24f));
    return f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t bf16_from_f32(float x) {
    const uint32_t bits = f32_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float f32_from_bf16(uint16_t half) {
    return f32_from_bits((uint32_t)half << 16);
}

/* f64 to f32, rounded to odd. A second rounding to fewer digits then gives the same as one rounding
 * (Boldo, Melquiond 2008). */
static inline float f32_odd_from_f64(double x) {
    const float near = (float)x;
    const double back = (double)near;
    uint32_t bits = f32_bits(near);
    if (back == x || x != x || (bits & 1u) || (bits & 0x7fffffffu) >= 0x7f800000u) return near;
    const int too_big = (x < 0) ? back < x : back > x;
    bits = too_big ? bits - 1 : bits + 1;
    return f32_from_bits(bits);
}

static inline uint16_t f16_from_f64(double x) {
    return f16_from_f32(f32_odd_from_f64(x));
}

static inline uint16_t bf16_from_f64(double x) {
    return bf16_from_f32(f32_odd_from_f64(x));
}

#endif
