/*
 * widen.h - integers to wider ones that have all their values, one function for each SIMD level and
 * pair of widths.
 *
 * Every level gives the same numbers: nothing is rounded or cut. There is none for AVX-512: over
 * 16,384 elements of u16 it had 1.02 of AVX2's rate to i32 and to i64.
 */
#ifndef ITER_TRANSFORMS_PACK_WIDEN_H
#define ITER_TRANSFORMS_PACK_WIDEN_H

#include <stddef.h>

#include <iter/tensor.h>

#include "iter/core/cpu.h"

/* n elements. Any alignment; the two must not overlap, and nothing outside them is touched. `next`
 * has the bytes that the next call will read, as many as this one reads; a line of it is prefetched
 * for each line that is read. Never NULL: `in` if there is nothing to prefetch. */
typedef void iter__widen(void *restrict out, const void *restrict in, size_t n, const void *next);

/* The function of a level, or NULL if `out` lacks values of `in`, or if either is no integer. bool
 * counts as one: 0 stays 0, all else becomes 1. */
iter__widen *iter__widen_get(iter__cpu level, iter_dtype in, iter_dtype out);

/* How the bits above are filled. */
enum { ITER__WIDEN_ZERO, ITER__WIDEN_SIGN, ITER__WIDEN_BOOL, ITER__WIDEN_FILLS };

/* By fill, and by the logarithms of both widths. NULL where the output is not wider; from bool also
 * to one byte. */
typedef iter__widen *const iter__widen_table[ITER__WIDEN_FILLS][4][4];
extern iter__widen_table iter__widen_generic;
extern iter__widen_table iter__widen_avx2;

#endif
