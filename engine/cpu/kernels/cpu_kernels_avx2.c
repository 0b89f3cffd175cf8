/*
 * cpu_kernels_avx2.c - the kernels with AVX2 and FMA. Only called if the processor has both.
 */
#include "engine/cpu/kernels/cpu_kernels.h"

#if defined(__x86_64__)

#include "engine/cpu/kernels/cpu_vec_avx2.h"

typedef int32_t ints __attribute__((vector_size(32)));

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

#include "engine/cpu/kernels/cpu_math_body.h"

#include "engine/cpu/kernels/cpu_gates_body.h"
#include "engine/cpu/kernels/cpu_update_body.h"

#include "engine/cpu/kernels/cpu_table_body.h"

#endif
