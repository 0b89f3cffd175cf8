/* pack_kernels.c - which kernels to use. */
#include "transforms/pack/pack_kernels.h"

static int kernel_type(iter_dtype dtype) {
    switch ((int)dtype) {
    case ITER_U8: return ITER__TYPE_U8;
    case ITER_F16: return ITER__TYPE_F16;
    case ITER_BF16: return ITER__TYPE_BF16;
    case ITER_F32: return ITER__TYPE_F32;
    default: return -1;
    }
}

const iter__kernels *iter__kernels_get(iter__cpu level, iter_dtype in, iter_dtype out) {
    const int row = kernel_type(in), column = kernel_type(out);
    if (row < 0 || column < 0) return NULL;
    switch (level) {
#if defined(__x86_64__)
    case ITER_CPU_AVX512: return &iter__kernels_avx512[row][column];
    case ITER_CPU_AVX2: return &iter__kernels_avx2[row][column];
#endif
#if defined(__aarch64__)
    case ITER_CPU_NEON: return &iter__kernels_neon[row][column];
#endif
    default: return &iter__kernels_generic[row][column];
    }
}
