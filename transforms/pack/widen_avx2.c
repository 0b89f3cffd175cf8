/* widen_avx2.c - widens integers with AVX2. Called only on processors that have it. */
#include "transforms/pack/widen.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define LEVEL avx2
#include "transforms/pack/widen_template.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
