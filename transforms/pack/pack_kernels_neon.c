/* pack_kernels_neon.c - the kernels with the Advanced SIMD that every AArch64 processor has. */
#include "transforms/pack/pack_kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

typedef struct vec {
    float32x4_t v[4];
} vec;

static inline vec widen_u16(uint16x8_t lo, uint16x8_t hi, int shift) {
    const uint32x4_t w[4] = {vmovl_u16(vget_low_u16(lo)), vmovl_high_u16(lo),
                             vmovl_u16(vget_low_u16(hi)), vmovl_high_u16(hi)};
    vec v;
    for (int i = 0; i < 4; i++)
        v.v[i] = shift ? vreinterpretq_f32_u32(vshlq_n_u32(w[i], 16)) : vcvtq_f32_u32(w[i]);
    return v;
}

static inline vec load16(const int type, const char *p) {
    vec v;
    if (type == ITER__TYPE_U8) {
        const uint8x16_t bytes = vld1q_u8((const uint8_t *)p);
        return widen_u16(vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes), 0);
    }
    if (type == ITER__TYPE_BF16)
        return widen_u16(vreinterpretq_u16_u8(vld1q_u8((const uint8_t *)p)),
                         vreinterpretq_u16_u8(vld1q_u8((const uint8_t *)p + 16)), 1);
    for (int i = 0; i < 4; i++) {
        if (type == ITER__TYPE_F16)
            v.v[i] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8((const uint8_t *)p + 8 * i)));
        else
            v.v[i] = vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p + 16 * i));
    }
    return v;
}

/* If one operand is NaN, vmaxnm returns the other one. */
static inline uint32x4_t cut_u8(float32x4_t v) {
    return vcvtnq_u32_f32(vminnmq_f32(vmaxnmq_f32(v, vdupq_n_f32(0)), vdupq_n_f32(255)));
}

static inline uint32x4_t bf16_of(float32x4_t v) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t near = vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd), 16);
    const uint32x4_t quiet = vorrq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(0x40));
    return vbslq_u32(vceqq_f32(v, v), near, quiet);
}

static inline uint16x8_t narrow(uint32x4_t lo, uint32x4_t hi) {
    return vcombine_u16(vmovn_u32(lo), vmovn_u32(hi));
}

static inline void store16(const int type, char *p, vec v) {
    uint8_t *to = (uint8_t *)p;
    if (type == ITER__TYPE_U8) {
        const uint16x8_t lo = narrow(cut_u8(v.v[0]), cut_u8(v.v[1]));
        const uint16x8_t hi = narrow(cut_u8(v.v[2]), cut_u8(v.v[3]));
        vst1q_u8(to, vcombine_u8(vmovn_u16(lo), vmovn_u16(hi)));
    } else if (type == ITER__TYPE_BF16) {
        vst1q_u8(to, vreinterpretq_u8_u16(narrow(bf16_of(v.v[0]), bf16_of(v.v[1]))));
        vst1q_u8(to + 16, vreinterpretq_u8_u16(narrow(bf16_of(v.v[2]), bf16_of(v.v[3]))));
    } else {
        for (int i = 0; i < 4; i++) {
            if (type == ITER__TYPE_F16)
                vst1_u8(to + 8 * i, vreinterpret_u8_f16(vcvt_f16_f32(v.v[i])));
            else
                vst1q_u8(to + 16 * i, vreinterpretq_u8_f32(v.v[i]));
        }
    }
}

static inline vec set16(float x) {
    const float32x4_t v = vdupq_n_f32(x);
    return (vec){{v, v, v, v}};
}

static inline vec table16(const float *p) {
    return (vec){{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}

static inline vec affine16(vec v, vec a, vec b) {
    for (int i = 0; i < 4; i++)
        v.v[i] = vaddq_f32(vmulq_f32(v.v[i], a.v[i]), b.v[i]);
    return v;
}

/* The processor's own three-way loads and stores, through L1. */
static inline void split16(const vec *in, vec *out) {
    float block[48];
    for (int i = 0; i < 12; i++)
        vst1q_f32(block + 4 * i, in[i / 4].v[i % 4]);
    for (int i = 0; i < 4; i++) {
        const float32x4x3_t three = vld3q_f32(block + 12 * i);
        for (int c = 0; c < 3; c++)
            out[c].v[i] = three.val[c];
    }
}

static inline float32x4_t reversed(float32x4_t v) {
    const float32x4_t pairs = vrev64q_f32(v);
    return vextq_f32(pairs, pairs, 2);
}

static inline void split16_mirrored(const vec *in, vec *out) {
    vec ahead[3];
    split16(in, ahead);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 4; i++)
            out[c].v[i] = reversed(ahead[c].v[3 - i]);
}

static inline void join16(const vec *in, vec *out) {
    float block[48];
    for (int i = 0; i < 4; i++) {
        const float32x4x3_t three = {{in[0].v[i], in[1].v[i], in[2].v[i]}};
        vst3q_f32(block + 12 * i, three);
    }
    for (int i = 0; i < 12; i++)
        out[i / 4].v[i % 4] = vld1q_f32(block + 4 * i);
}

#define LEVEL neon
#include "transforms/pack/pack_kernels_template.h"

#endif
