/* cold.h - samples in random order from files that are not cached, against a bare ring. */
#ifndef BENCH_COLD_H
#define BENCH_COLD_H

#include <stdint.h>

/**
 * `pairs` times: one epoch of a loader that only reads, in random order, `prefetch` batches ahead,
 * and a ring with `depth` reads in flight over the same bytes in another order. If each sample is a
 * file, the ring opens, reads and closes it; else records have one size and are read with O_DIRECT.
 * Before each of them the files are dropped from the page cache, and it is checked that they are
 * gone.
 *
 * Returns 0, or 1 with a line on stderr.
 */
int cold_rows(const char *spec, const char *chain, int workers, uint32_t depth, uint32_t pairs,
              uint32_t prefetch);

#endif
