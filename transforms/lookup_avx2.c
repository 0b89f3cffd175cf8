/*
 * lookup_avx2.c - bytes through a table with AVX2. Only called where the processor has it.
 *
 * A shuffle looks up 16 entries, and answers 0 for an index with its highest bit set. The lower 128 entries are 8 rows of 16. The first row is looked
 * up as it is, each further row as its exclusive or with the row before, after 16 was subtracted from the index: an index below 16 k is then negative
 * and adds nothing, one above picks up all rows to its own, whose sum is the entry (every index is seen modulo 16 only). Saturation keeps what is
 * negative negative. The upper 128 entries go the same way, with the index's highest bit turned.
 */
#include "transforms/lookup.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#include <immintrin.h>

#define ROWS 8 /* of a half */

/* Rows of 16 entries from `table` on, each but the first as its difference to the one before. */
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
    if (n >= 64) { /* below, the rows take longer than they save */
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
