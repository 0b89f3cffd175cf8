/* cold.h - samples in random order from files that are in no cache, against a bare ring. */
#ifndef BENCH_COLD_H
#define BENCH_COLD_H

#include <stdint.h>

/**
 * `pairs` times: a loader that only reads, one epoch in random order, `prefetch` batches ahead, and a ring with `depth` reads
 * in flight over the same bytes in another: of a set with a file a sample open, read and close;
 * else records of one size, by O_DIRECT. Before each of them the files are dropped from the page
 * cache, and it is looked at whether they are gone. 0, or 1 with a line on stderr.
 */
int cold_rows(const char *spec, const char *chain, int workers, uint32_t depth, uint32_t pairs,
              uint32_t prefetch);

#endif
