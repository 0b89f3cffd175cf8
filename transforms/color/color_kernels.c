/* color_kernels.c - which colour kernels to use. */
#include "transforms/color/color.h"

const color_kernels *iter__color_kernels(iter__cpu level) {
#if defined(__x86_64__)
    if (level == ITER_CPU_AVX512) return &iter__color_avx512;
    if (level == ITER_CPU_AVX2) return &iter__color_avx2;
#endif
    (void)level;
    return &iter__color_generic;
}
