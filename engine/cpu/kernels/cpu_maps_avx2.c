/* cpu_maps_avx2.c - the maps with AVX2. Only called if the processor has it. */
#include "engine/cpu/kernels/cpu_maps.h"

#if defined(__x86_64__)

#include "engine/cpu/kernels/cpu_vec_avx2.h"

typedef __m256i word;

typedef struct product {
    word low, high;
} product;

/* max returns the second operand if one is NaN. */
static inline vec rectified(vec x) {
    return _mm256_max_ps(_mm256_setzero_ps(), x);
}

static inline vec where_positive(vec y, vec v) {
    return _mm256_and_ps(_mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_GT_OQ), v);
}

static inline vec where_bits(const uint8_t *bits, vec v, int64_t n) {
    const word each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const word set = _mm256_and_si256(_mm256_set1_epi32(bits[0]), each);
    (void)n;
    return _mm256_and_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(set, each)), v);
}

static inline word all_words(uint32_t x) {
    return _mm256_set1_epi32((int)x);
}

static inline word exor(word a, word b) {
    return _mm256_xor_si256(a, b);
}

static inline product multiply(word a, word b) {
    const word even = _mm256_mul_epu32(a, b);
    const word odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    return (product){
        .low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa),
        .high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa),
    };
}

/* Orders the counters so that store_bits() gets consecutive blocks side by side. */
static inline word load_counters(const uint32_t *blocks) {
    const word order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    return _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(const void *)blocks),
                                       order);
}

/* Puts the words of a block side by side, two blocks in each of `two`; then a bit per half word. */
static inline void store_bits(const word words[4], uint32_t threshold, uint8_t *bits) {
    const word a = _mm256_unpacklo_epi32(words[0], words[1]);
    const word b = _mm256_unpackhi_epi32(words[0], words[1]);
    const word c = _mm256_unpacklo_epi32(words[2], words[3]);
    const word d = _mm256_unpackhi_epi32(words[2], words[3]);
    const word two[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                         _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
    const word limit = _mm256_set1_epi16((short)threshold);
    for (int i = 0; i < 4; i++) {
        const word kept = _mm256_cmpeq_epi16(_mm256_max_epu16(two[i], limit), two[i]);
        const uint32_t mask = (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(kept, kept));
        bits[2 * i] = (uint8_t)mask;
        bits[2 * i + 1] = (uint8_t)(mask >> 16);
    }
}

#include "engine/cpu/kernels/cpu_maps_body.h"

#endif
