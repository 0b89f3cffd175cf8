/* pack_kernels_generic.c - the kernels in plain C, for processors without another level. Every
 * other level must give the same bits. */
#include "transforms/pack/half.h"
#include "transforms/pack/pack_kernels.h"

#include <string.h>

typedef struct vec {
    float f[16];
} vec;

/* Adding 1.5 * 2^23 leaves the nearest even integer in the low mantissa bits. !(x > 0) also catches
 * NaN. */
static inline uint8_t u8_from_f32(float x) {
    if (!(x > 0)) return 0;
    if (x > 255) return 255;
    return (uint8_t)f32_bits(x + 0x1.8p23f);
}

static inline vec load16(const int type, const char *p) {
    vec v;
    uint16_t half[16];
    if (type == ITER__TYPE_U8) {
        for (int i = 0; i < 16; i++)
            v.f[i] = (float)(uint8_t)p[i];
    } else if (type == ITER__TYPE_F32) {
        memcpy(v.f, p, sizeof(v.f));
    } else {
        memcpy(half, p, sizeof(half));
        for (int i = 0; i < 16; i++)
            v.f[i] = type == ITER__TYPE_F16 ? f32_from_f16(half[i]) : f32_from_bf16(half[i]);
    }
    return v;
}

static inline void store16(const int type, char *p, vec v) {
    uint16_t half[16];
    if (type == ITER__TYPE_U8) {
        for (int i = 0; i < 16; i++)
            p[i] = (char)u8_from_f32(v.f[i]);
    } else if (type == ITER__TYPE_F32) {
        memcpy(p, v.f, sizeof(v.f));
    } else {
        for (int i = 0; i < 16; i++)
            half[i] = type == ITER__TYPE_F16 ? f16_from_f32(v.f[i]) : bf16_from_f32(v.f[i]);
        memcpy(p, half, sizeof(half));
    }
}

static inline vec set16(float x) {
    vec v;
    for (int i = 0; i < 16; i++)
        v.f[i] = x;
    return v;
}

static inline vec table16(const float *p) {
    vec v;
    memcpy(v.f, p, sizeof(v.f));
    return v;
}

static inline vec affine16(vec v, vec a, vec b) {
    for (int i = 0; i < 16; i++)
        v.f[i] = v.f[i] * a.f[i] + b.f[i];
    return v;
}

static inline void split16(const vec *in, vec *out) {
    for (int i = 0; i < 48; i++)
        out[i % 3].f[i / 3] = in[i / 16].f[i % 16];
}

static inline void split16_mirrored(const vec *in, vec *out) {
    for (int i = 0; i < 48; i++)
        out[i % 3].f[15 - i / 3] = in[i / 16].f[i % 16];
}

static inline void join16(const vec *in, vec *out) {
    for (int i = 0; i < 48; i++)
        out[i / 16].f[i % 16] = in[i % 3].f[i / 3];
}

#define LEVEL generic
#include "transforms/pack/pack_kernels_template.h"
