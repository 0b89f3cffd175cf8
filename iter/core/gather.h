/* gather.h - copies rows of one size from anywhere to one after another. */
#ifndef ITER_CORE_GATHER_H
#define ITER_CORE_GATHER_H

#include <stddef.h>
#include <stdint.h>

/* Copies rows index[0..n) of those that lie `stride` bytes apart from `base`, each of `bytes`
 * bytes, to `out`. index[n..n_known), n_known >= n, are rows that are copied next: their beginnings
 * are prefetched. */
void iter__gather(uint8_t *out, const uint8_t *base, size_t stride, size_t bytes,
                  const uint64_t *index, size_t n, size_t n_known);

/* Prefetches the first of those rows, as many as iter__gather() does before it copies. */
void iter__gather_ahead(const uint8_t *base, size_t stride, size_t bytes, const uint64_t *index,
                        size_t n);

#endif
