/* color_avx512.c - the colour kernels with AVX-512 F, BW, DQ and VL. Called only on processors that
 * have them. */
#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,avx512f,avx512bw,avx512dq,avx512vl")
#endif

#define LEVEL avx512
#include "transforms/color/color_template.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
