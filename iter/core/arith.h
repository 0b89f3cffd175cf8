/*
 * arith.h - minimum, maximum, and rounding to a multiple; for each integer type that needs it.
 *
 *     iter__min_u32(a, b)  iter__max_i64(a, b)      i32, i64, u32, u64, size
 *     iter__align_up_size(n, 64)                    u64, size; the multiple must be a power of two
 *
 * align_up wraps around if n + multiple - 1 does not fit the type: the caller must bound n first.
 */
#ifndef ITER_CORE_ARITH_H
#define ITER_CORE_ARITH_H

#include <stddef.h>
#include <stdint.h>

#define ITER_ARITH_MIN_MAX(type, name)                    \
    static inline type iter__min_##name(type a, type b) { \
        return a < b ? a : b;                             \
    }                                                     \
    static inline type iter__max_##name(type a, type b) { \
        return a > b ? a : b;                             \
    }

#define ITER_ARITH_ALIGN(type, name)                                    \
    static inline type iter__align_down_##name(type n, type multiple) { \
        return n & ~(multiple - 1);                                     \
    }                                                                   \
    static inline type iter__align_up_##name(type n, type multiple) {   \
        return (n + multiple - 1) & ~(multiple - 1);                    \
    }

ITER_ARITH_MIN_MAX(int32_t, i32)
ITER_ARITH_MIN_MAX(int64_t, i64)
ITER_ARITH_MIN_MAX(uint32_t, u32)
ITER_ARITH_MIN_MAX(uint64_t, u64)
ITER_ARITH_MIN_MAX(size_t, size)
ITER_ARITH_ALIGN(uint64_t, u64)
ITER_ARITH_ALIGN(size_t, size)

#undef ITER_ARITH_MIN_MAX
#undef ITER_ARITH_ALIGN

#endif
