/* resample_kernels_avx2.c - the resampling kernels with AVX2. Called only on processors that have
 * it. */
#include "transforms/resample/resample.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#include <immintrin.h>
#include <string.h>

typedef __m256i vec;
#define LANES             2
#define zero()            _mm256_setzero_si256()
#define set32(x)          _mm256_set1_epi32(x)
#define repeat(p)         _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(p)))
#define load(p)           _mm256_loadu_si256((const __m256i *)(p))
#define shuffle(v, order) _mm256_shuffle_epi8(v, order)
#define dot(sum, v, w)    _mm256_add_epi32(sum, _mm256_madd_epi16(v, w))
#define add32(a, b)       _mm256_add_epi32(a, b)
#define shift_left(v, n)  _mm256_slli_epi32(v, n)
#define shift_right(v, n) _mm256_srai_epi32(v, n)
#define pack32(a, b)      _mm256_packs_epi32(a, b)
#define pack16(a, b)      _mm256_packus_epi16(a, b)
#define low8(a, b)        _mm256_unpacklo_epi8(a, b)
#define high8(a, b)       _mm256_unpackhi_epi8(a, b)

/* Vectors 0 and 2, and 1 and 3, keep the upper words of their sums in one vector. That saves shifts
 * and shuffles: a horizontal kernel has many of them, and processors have the fewest ports for
 * them. */
#define START zero()

/* gcc 13 and 14 cannot tell that held[0] and held[1] are written before they are read. */
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

static inline void hold(vec *held, int k, vec sum) {
    if (k < 2)
        held[k] = _mm256_srli_epi32(sum, 16);
    else
        held[k - 2] = _mm256_blend_epi16(held[k - 2], sum, 0xaa);
}

/* Number i of vector k is byte 4 i + k. */
static inline vec top_bytes(const vec *held) {
    const vec half = _mm256_set1_epi16(0x80), upper = _mm256_set1_epi16(-0x100);
    return _mm256_or_si256(_mm256_srli_epi16(_mm256_add_epi16(held[0], half), 8),
                           _mm256_and_si256(_mm256_add_epi16(held[1], half), upper));
}

#define TURNED          repeat(((const uint8_t[16]){0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}))
#define in_order(v)     shuffle(v, TURNED)
#define order_of(order) shuffle(TURNED, order)

static inline vec gather(const uint8_t *const *rows, ptrdiff_t at) {
    const vec low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(rows[0] + at)));
    return _mm256_blend_epi32(low, repeat(rows[1] + at), 0xf0);
}

static inline void scatter(uint8_t *out, ptrdiff_t step, vec v) {
    _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(v));
    _mm_storeu_si128((__m128i *)(out + step), _mm256_extracti128_si256(v, 1));
}

static inline vec load_some(const uint8_t *p, size_t n) {
    uint8_t bytes[sizeof(vec)] = {0};
    memcpy(bytes, p, n);
    return load(bytes);
}

static inline void store_some(uint8_t *p, vec v, size_t n) {
    if (n == sizeof(vec)) {
        _mm256_storeu_si256((__m256i *)p, v);
    } else {
        uint8_t bytes[sizeof(vec)];
        memcpy(bytes, &v, sizeof(vec));
        memcpy(p, bytes, n);
    }
}

#define LEVEL avx2
#include "transforms/resample/resample_kernels_template.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
