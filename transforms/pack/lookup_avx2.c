/*
 * lookup_avx2.c - bytes through a table with AVX2. Called only on processors that have it.
 *
 * A shuffle looks up an index modulo 16 in 16 entries, and returns 0 if the index's highest bit is
 * set. The lower 128 entries are 8 rows of 16. The first row is looked up as it is. Row k > 0 is
 * stored as its exclusive or with the row before, and looked up after 16 k was subtracted from the
 * index. If the index is below 16 k, it is then negative and the row adds nothing. So an index
 * picks up all rows up to its own, and their exclusive or is the entry. Saturation keeps negative
 * indexes negative. The upper 128 entries are looked up in the same way, with the index's highest
 * bit inverted.
 */
#include "transforms/pack/lookup.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#include <immintrin.h>

#define ROWS 8 /* of a half */

/* The rows from `table` on, each one except the first XORed with the one before. */
static inline void load_rows(const uint8_t *table, __m256i rows[ROWS]) {
    __m128i before = _mm_setzero_si128();
    for (int k = 0; k < ROWS; k++) {
        const __m128i row = _mm_loadu_si128((const __m128i *)(table + 16 * k));
        rows[k] = _mm256_broadcastsi128_si256(_mm_xor_si128(row, before));
        before = row;
    }
}

static inline __m256i look_up(const __m256i rows[ROWS], __m256i index) {
    __m256i sum = _mm256_shuffle_epi8(rows[0], index);
    for (int k = 1; k < ROWS; k++) {
        index = _mm256_subs_epi8(index, _mm256_set1_epi8(16));
        sum = _mm256_xor_si256(sum, _mm256_shuffle_epi8(rows[k], index));
    }
    return sum;
}

void iter__lookup_avx2(uint8_t *out, const uint8_t *in, size_t n, const uint8_t *table) {
    __m256i low[ROWS], high[ROWS];
    size_t i = 0;
    if (n >= 64) { /* for fewer bytes, loading the rows takes longer than it saves */
        load_rows(table, low);
        load_rows(table + 128, high);
        for (; i + 32 <= n; i += 32) {
            const __m256i index = _mm256_loadu_si256((const __m256i *)(in + i));
            const __m256i turned = _mm256_xor_si256(index, _mm256_set1_epi8(-128));
            _mm256_storeu_si256((__m256i *)(out + i),
                                _mm256_or_si256(look_up(low, index), look_up(high, turned)));
        }
    }
    for (; i < n; i++)
        out[i] = table[in[i]];
}

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
