/* narrow_floats.h - f16 and bf16 as float, exactly. */
#ifndef ENGINE_NARROW_FLOATS_H
#define ENGINE_NARROW_FLOATS_H

#include <stdint.h>
#include <string.h>

static inline float engine_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float engine_from_bf16(uint16_t bits) {
    return engine_float_of_bits((uint32_t)bits << 16);
}

static inline float engine_from_f16(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u,
                   fraction = bits & 0x3ffu;
    if (exponent == 0) { /* zero and subnormals: in steps of 2^-24 */
        const float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    return engine_float_of_bits(sign | (exponent == 31 ? 255u : exponent + 112) << 23 |
                                fraction << 13);
}

#endif
