/* resample_kernels.c - the choice of the resampling kernels, and their shuffles. */
#include "transforms/resample/resample.h"

#define NO 0x80

/* clang-format off */
const uint8_t iter__resample_orders[RESAMPLE_MAX_CHANNELS][4][16] = {
    {{0, NO, 1, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
     {2, NO, 3, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
     {4, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
     {0, 4, 8, 12, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO}},
    {{0, NO, 2, NO, 1, NO, 3, NO, NO, NO, NO, NO, NO, NO, NO, NO},
     {4, NO, 6, NO, 5, NO, 7, NO, NO, NO, NO, NO, NO, NO, NO, NO},
     {8, NO, NO, NO, 9, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
     {0, 1, 4, 5, 8, 9, 12, 13, NO, NO, NO, NO, NO, NO, NO, NO}},
    {{0, NO, 3, NO, 1, NO, 4, NO, 2, NO, 5, NO, NO, NO, NO, NO},
     {6, NO, 9, NO, 7, NO, 10, NO, 8, NO, 11, NO, NO, NO, NO, NO},
     {12, NO, NO, NO, 13, NO, NO, NO, 14, NO, NO, NO, NO, NO, NO, NO},
     {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, NO, NO, NO, NO}},
    {{0, NO, 4, NO, 1, NO, 5, NO, 2, NO, 6, NO, 3, NO, 7, NO},
     {8, NO, 12, NO, 9, NO, 13, NO, 10, NO, 14, NO, 11, NO, 15, NO},
     {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
     {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
};
/* clang-format on */

const resample_kernels *iter__resample_kernels(iter__cpu level) {
#if defined(__x86_64__)
    if (level == ITER_CPU_AVX512)
        return __builtin_cpu_supports("avx512vnni") ? &iter__resample_vnni : &iter__resample_avx512;
    if (level == ITER_CPU_AVX2) return &iter__resample_avx2;
#endif
    (void)level;
    return &iter__resample_generic;
}
