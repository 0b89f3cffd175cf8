/* widen.c - which function widens a pair of types. */
#include "transforms/pack/widen.h"

#include "transforms/pack/elements.h"

static int log_of(size_t bytes) {
    return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
}

/* The values stay the same, so an unsigned number is filled with zeros whether or not the wider
 * type has a sign. */
static int fill_of(iter_dtype in) {
    if (in == ITER_BOOL) return ITER__WIDEN_BOOL;
    return in == ITER_I8 || in == ITER_I16 || in == ITER_I32 ? ITER__WIDEN_SIGN : ITER__WIDEN_ZERO;
}

iter__widen *iter__widen_get(iter__cpu level, iter_dtype in, iter_dtype out) {
    if (in == out || iter__dtype_is_float(in) || iter__dtype_is_float(out) ||
        !iter__cast_is_exact(in, out))
        return NULL;
    const int fill = fill_of(in), from = log_of(iter_dtype_bytes(in)),
              to = log_of(iter_dtype_bytes(out));
#if defined(__x86_64__)
    if (level == ITER_CPU_AVX512 || level == ITER_CPU_AVX2) return iter__widen_avx2[fill][from][to];
#endif
    (void)level;
    return iter__widen_generic[fill][from][to];
}
