/*
 * cpu_maps_avx512.c - the maps with AVX-512 F, BW and VL. Only called if the processor has them.
 */
#include "engine/cpu/kernels/cpu_maps.h"

#if defined(__x86_64__)

#include "engine/cpu/kernels/cpu_vec_avx512.h"

typedef __m512i word;

typedef struct product {
    word low, high;
} product;

/* max returns the second operand if one is NaN. */
static inline vec rectified(vec x) {
    return _mm512_max_ps(_mm512_setzero_ps(), x);
}

static inline vec where_positive(vec y, vec v) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_GT_OQ), v);
}

static inline vec where_bits(const uint8_t *bits, vec v, int64_t n) {
    const unsigned mask = bits[0] | (n > 8 ? (unsigned)bits[1] << 8 : 0);
    return _mm512_maskz_mov_ps((__mmask16)mask, v);
}

static inline word all_words(uint32_t x) {
    return _mm512_set1_epi32((int)x);
}

static inline word exor(word a, word b) {
    return _mm512_xor_si512(a, b);
}

static inline product multiply(word a, word b) {
    const word even = _mm512_mul_epu32(a, b);
    const word odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    return (product){
        .low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32)),
        .high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd),
    };
}

/* Orders the counters so that store_bits() gets consecutive blocks side by side. */
static inline word load_counters(const uint32_t *blocks) {
    const word order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, _mm512_loadu_si512(blocks));
}

/* Puts the words of a block side by side, four blocks in each of `four`; then a bit per half
 * word. */
static inline void store_bits(const word words[4], uint32_t threshold, uint8_t *bits) {
    const word a = _mm512_unpacklo_epi32(words[0], words[1]);
    const word b = _mm512_unpackhi_epi32(words[0], words[1]);
    const word c = _mm512_unpacklo_epi32(words[2], words[3]);
    const word d = _mm512_unpackhi_epi32(words[2], words[3]);
    const word four[4] = {_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c),
                          _mm512_unpacklo_epi64(b, d), _mm512_unpackhi_epi64(b, d)};
    const word limit = _mm512_set1_epi16((short)threshold);
    for (int i = 0; i < 4; i++) {
        const uint32_t kept = _mm512_cmpge_epu16_mask(four[i], limit);
        __builtin_memcpy(bits + 4 * i, &kept, sizeof(kept));
    }
}

#include "engine/cpu/kernels/cpu_maps_body.h"

#endif
