/* cpu_kernels.c - chooses the kernels. */
#include "engine/cpu/kernels/cpu_kernels.h"

#include <string.h>

const cpu_kernels *iter__cpu_kernels(const char *level) {
#if defined(__x86_64__)
    if (strcmp(level, "avx512") == 0) return &iter__cpu_kernels_avx512;
    /* The level avx2 does not imply FMA. */
    if (strcmp(level, "avx2") == 0 && __builtin_cpu_supports("fma")) return &iter__cpu_kernels_avx2;
#else
    (void)level;
#endif
    return &iter__cpu_kernels_generic;
}
