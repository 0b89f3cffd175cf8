/* cpu_vec_avx512.h - a vector of sixteen floats, for files that are compiled for AVX-512 F, BW, DQ
 * and VL. */
#ifndef ENGINE_CPU_VEC_AVX512_H
#define ENGINE_CPU_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define LANES      16
#define LEVEL      avx512
#define LEVEL_NAME "avx512"

typedef __m512 vec;

static inline vec all(float x) {
    return _mm512_set1_ps(x);
}

static inline vec load(const float *p) {
    return _mm512_loadu_ps(p);
}

static inline void store(float *p, vec v) {
    _mm512_storeu_ps(p, v);
}

static inline __mmask16 first(int64_t n) {
    return (__mmask16)((1u << n) - 1u);
}

static inline vec load_some(const float *p, int64_t n) {
    return _mm512_maskz_loadu_ps(first(n), p);
}

static inline void store_some(float *p, vec v, int64_t n) {
    _mm512_mask_storeu_ps(p, first(n), v);
}

#endif
