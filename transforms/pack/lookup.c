/* lookup.c - bytes through a table in plain C, and the choice of the function. */
#include "transforms/pack/lookup.h"

void iter__lookup_generic(uint8_t *out, const uint8_t *in, size_t n, const uint8_t *table) {
    for (size_t i = 0; i < n; i++)
        out[i] = table[in[i]];
}

iter__lookup *iter__lookup_get(iter__cpu level) {
#if defined(__x86_64__)
    if (level == ITER_CPU_AVX512)
        return __builtin_cpu_supports("avx512vbmi") ? iter__lookup_vbmi : iter__lookup_avx512;
    if (level == ITER_CPU_AVX2) return iter__lookup_avx2;
#endif
    (void)level;
    return iter__lookup_generic;
}
