/*
 * resample_kernels_avx512.c - the resampling kernels with AVX-512 F, BW, DQ and VL, and again with
 * its dot products of words (VNNI). Called only on processors that have them.
 */
#include "transforms/resample/resample.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,avx512f,avx512bw,avx512dq,avx512vl")
#endif

#include <immintrin.h>

typedef __m512i vec;
#define LANES             4
#define zero()            _mm512_setzero_si512()
#define set32(x)          _mm512_set1_epi32(x)
#define repeat(p)         _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(p)))
#define load(p)           _mm512_loadu_si512(p)
#define shuffle(v, order) _mm512_shuffle_epi8(v, order)
#define add32(a, b)       _mm512_add_epi32(a, b)
#define shift_left(v, n)  _mm512_slli_epi32(v, n)
#define shift_right(v, n) _mm512_srai_epi32(v, n)
#define pack32(a, b)      _mm512_packs_epi32(a, b)
#define pack16(a, b)      _mm512_packus_epi16(a, b)
#define low8(a, b)        _mm512_unpacklo_epi8(a, b)
#define high8(a, b)       _mm512_unpackhi_epi8(a, b)

#define row16(row, at) _mm_loadu_si128((const __m128i *)((row) + (at)))

static inline vec gather(const uint8_t *const *rows, ptrdiff_t at) {
    vec v = _mm512_castsi128_si512(row16(rows[0], at));
    v = _mm512_inserti32x4(v, row16(rows[1], at), 1);
    v = _mm512_inserti32x4(v, row16(rows[2], at), 2);
    return _mm512_inserti32x4(v, row16(rows[3], at), 3);
}

static inline void scatter(uint8_t *out, ptrdiff_t step, vec v) {
    _mm_storeu_si128((__m128i *)out, _mm512_castsi512_si128(v));
    _mm_storeu_si128((__m128i *)(out + step), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((__m128i *)(out + 2 * step), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((__m128i *)(out + 3 * step), _mm512_extracti32x4_epi32(v, 3));
}

#define START set32(1 << (23 - RESAMPLE_LOW_BITS))

static inline void hold(vec *held, int k, vec sum) {
    held[k] = sum;
}

/* Moves each vector's bytes to its quarter of each lane. */
static inline vec top_bytes(const vec *v) {
    const vec order = _mm512_broadcast_i32x4(
        _mm_setr_epi8(3, 7, 11, 15, 3, 7, 11, 15, 3, 7, 11, 15, 3, 7, 11, 15));
    vec all = _mm512_shuffle_epi8(v[0], order);
    all = _mm512_mask_shuffle_epi8(all, UINT64_C(0x00f000f000f000f0), v[1], order);
    all = _mm512_mask_shuffle_epi8(all, UINT64_C(0x0f000f000f000f00), v[2], order);
    return _mm512_mask_shuffle_epi8(all, UINT64_C(0xf000f000f000f000), v[3], order);
}

#define in_order(v)     (v)
#define order_of(order) (order)

static inline vec load_some(const uint8_t *p, size_t n) {
    return _mm512_maskz_loadu_epi8(~UINT64_C(0) >> (64 - n), p);
}

static inline void store_some(uint8_t *p, vec v, size_t n) {
    _mm512_mask_storeu_epi8(p, ~UINT64_C(0) >> (64 - n), v);
}

#define dot(sum, v, w) _mm512_add_epi32(sum, _mm512_madd_epi16(v, w))
#define LEVEL          avx512
#include "transforms/resample/resample_kernels_template.h"

#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(                                                      \
    __attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC target("avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif

#undef dot
#undef LEVEL
#define dot(sum, v, w) _mm512_dpwssd_epi32(sum, v, w)
#define LEVEL          vnni
#include "transforms/resample/resample_kernels_template.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
