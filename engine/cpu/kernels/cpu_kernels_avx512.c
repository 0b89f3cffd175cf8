/*
 * cpu_kernels_avx512.c - the kernels with AVX-512 F and DQ. Only called if the processor has them.
 */
#include "engine/cpu/kernels/cpu_kernels.h"

#if defined(__x86_64__)

#include "engine/cpu/kernels/cpu_vec_avx512.h"

typedef int32_t ints __attribute__((vector_size(64)));

static inline vec fma_of(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}

/* 14 bits from a table, doubled by one Newton step. x must not be close to 0 or to infinity. */
static inline vec reciprocal(vec x) {
    const vec y = _mm512_rcp14_ps(x);
    return _mm512_fmadd_ps(y, _mm512_fnmadd_ps(x, y, _mm512_set1_ps(1.0f)), y);
}

/* Another Newton step, for the quotient itself: nearly always within half a unit in the last
 * place. */
static inline vec quotient(vec a, vec b) {
    const vec y = reciprocal(b), q = _mm512_mul_ps(a, y);
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(q, b, a), y, q);
}

/* m / (sqrt(v) + epsilon), within two roundings of exact. Each part takes 14 bits and one Newton
 * step, half the time of the processor's own root and quotient. v is at least 0. */
static inline vec over_root(vec m, vec v, vec epsilon) {
    v = _mm512_min_ps(v, _mm512_set1_ps(0x1.fffffep127f)); /* an infinite v would give NaN */
    const __mmask16 some = _mm512_cmp_ps_mask(v, _mm512_set1_ps(0x1p-126f), _CMP_GE_OQ);
    const vec y = _mm512_maskz_rsqrt14_ps(some, v);
    const vec s = _mm512_mul_ps(v, y), half = _mm512_mul_ps(y, _mm512_set1_ps(0.5f));
    const vec root = _mm512_fmadd_ps(_mm512_fnmadd_ps(s, s, v), half, s);
    return _mm512_mul_ps(m, reciprocal(_mm512_add_ps(root, epsilon)));
}

static inline vec pick(ints mask, vec yes, vec no) {
    return _mm512_mask_mov_ps(no, _mm512_movepi32_mask((__m512i)mask), yes);
}

#include "engine/cpu/kernels/cpu_math_body.h"

#include "engine/cpu/kernels/cpu_gates_body.h"
#include "engine/cpu/kernels/cpu_update_body.h"

#include "engine/cpu/kernels/cpu_table_body.h"

#endif
