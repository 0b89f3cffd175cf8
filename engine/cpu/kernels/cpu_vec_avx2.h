/* cpu_vec_avx2.h - a vector of eight floats, for files that are compiled for AVX2 and FMA. */
#ifndef ENGINE_CPU_VEC_AVX2_H
#define ENGINE_CPU_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define LANES      8
#define LEVEL      avx2
#define LEVEL_NAME "avx2"

typedef __m256 vec;

static inline vec all(float x) {
    return _mm256_set1_ps(x);
}

static inline vec load(const float *p) {
    return _mm256_loadu_ps(p);
}

static inline void store(float *p, vec v) {
    _mm256_storeu_ps(p, v);
}

static inline __m256i first(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vec load_some(const float *p, int64_t n) {
    return _mm256_maskload_ps(p, first(n));
}

static inline void store_some(float *p, vec v, int64_t n) {
    _mm256_maskstore_ps(p, first(n), v);
}

#endif
