/*
 * lookup_avx512.c - bytes through a table with AVX-512 F, BW, DQ and VL, and again with its
 * permutations of bytes (VBMI). Called only on processors that have them.
 *
 * A permutation picks from two registers. With VBMI these hold 128 bytes, so a lookup takes two
 * permutations, and the index's highest bit chooses. Without VBMI it picks words, and the index's
 * lowest bit chooses the byte.
 */
#include "transforms/pack/lookup.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,avx512f,avx512bw,avx512dq,avx512vl")
#endif

#include <immintrin.h>

void iter__lookup_avx512(uint8_t *out, const uint8_t *in, size_t n, const uint8_t *table) {
    const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64);
    const __m512i t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
    for (size_t i = 0; i < n; i += 32) {
        const __mmask32 some = n - i >= 32 ? ~UINT32_C(0) : ~UINT32_C(0) >> (32 - (n - i));
        const __m512i index = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(some, in + i));
        const __m512i word = _mm512_srli_epi16(index, 1);
        const __m512i low = _mm512_permutex2var_epi16(t0, word, t1);
        const __m512i high = _mm512_permutex2var_epi16(t2, word, t3);
        const __mmask32 is_high = _mm512_test_epi16_mask(index, _mm512_set1_epi16(0x80));
        const __mmask32 is_odd = _mm512_test_epi16_mask(index, _mm512_set1_epi16(1));
        const __m512i both = _mm512_mask_blend_epi16(is_high, low, high);
        const __m512i byte = _mm512_mask_srli_epi16(both, is_odd, both, 8);
        _mm256_mask_storeu_epi8(out + i, some, _mm512_cvtepi16_epi8(byte));
    }
}

#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(                                                      \
    __attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi"))), \
    apply_to = function)
#else
#pragma GCC target("avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")
#endif

void iter__lookup_vbmi(uint8_t *out, const uint8_t *in, size_t n, const uint8_t *table) {
    const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64);
    const __m512i t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
    for (size_t i = 0; i < n; i += 64) {
        const __mmask64 some = n - i >= 64 ? ~UINT64_C(0) : ~UINT64_C(0) >> (64 - (n - i));
        const __m512i index = _mm512_maskz_loadu_epi8(some, in + i);
        const __m512i low = _mm512_permutex2var_epi8(t0, index, t1);
        const __m512i high = _mm512_permutex2var_epi8(t2, index, t3);
        const __mmask64 is_high = _mm512_movepi8_mask(index);
        _mm512_mask_storeu_epi8(out + i, some, _mm512_mask_blend_epi8(is_high, low, high));
    }
}

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
