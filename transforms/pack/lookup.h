/* lookup.h - bytes through a table of 256, one function for each SIMD level. */
#ifndef ITER_TRANSFORMS_PACK_LOOKUP_H
#define ITER_TRANSFORMS_PACK_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#include "iter/core/cpu.h"

/* out[i] = table[in[i]], i < n. out may be in; otherwise they must not overlap. Any alignment;
 * nothing outside the n bytes is touched. */
typedef void iter__lookup(uint8_t *out, const uint8_t *in, size_t n, const uint8_t *table);

/* The fastest function of a level on this processor. */
iter__lookup *iter__lookup_get(iter__cpu level);

extern iter__lookup iter__lookup_generic;
extern iter__lookup iter__lookup_avx2;
extern iter__lookup iter__lookup_avx512;
extern iter__lookup iter__lookup_vbmi; /* AVX-512 with its permutations of bytes */

#endif
