/* color_avx2.c - the colour kernels with AVX2. Called only on processors that have it. */
#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define LEVEL avx2
#include "transforms/color/color_template.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
