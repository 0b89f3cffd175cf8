/*
 * cpu_kernels_avx2.c - the kernels with AVX2 and FMA. Only called where the processor has both.
 */
#include "engine/cpu/cpu_kernels.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#include <immintrin.h>

#define LANES      8
#define LEVEL      avx2
#define LEVEL_NAME "avx2"

typedef __m256 vec;
typedef int32_t ints __attribute__((vector_size(32)));

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

static inline vec fma_of(vec a, vec b, vec c) {
    return _mm256_fmadd_ps(a, b, c);
}

static inline vec quotient(vec a, vec b) {
    return a / b;
}

/* m / (sqrt(v) + epsilon) */
static inline vec over_root(vec m, vec v, vec epsilon) {
    return m / (_mm256_sqrt_ps(v) + epsilon);
}

static inline vec pick(ints mask, vec yes, vec no) {
    return _mm256_blendv_ps(no, yes, (vec)mask);
}

#include "engine/cpu/cpu_math_body.h"

#include "engine/cpu/cpu_gates_body.h"
#include "engine/cpu/cpu_update_body.h"

#include "engine/cpu/cpu_table_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
