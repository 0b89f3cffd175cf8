/* row_copies.h - for numbers.c: rows of an array as they are, by a loader and by a loop. */
#ifndef BENCH_STUDIES_ROW_COPIES_H
#define BENCH_STUDIES_ROW_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct row_copies row_copies;

/* An array of n rows of `bytes` bytes on huge pages, as numpy has them, and NDArrayIter over it
 * without a worker. Ends the program on an error. */
row_copies *row_copies_open(size_t bytes, uint64_t n, uint32_t batch, bool shuffled, bool views);
/* Makes n_batches and reads a byte of each cache line if `touches`; returns the rows. */
uint64_t row_copies_load(row_copies *s, uint64_t n_batches, bool touches);
/* The same by one memcpy() a row into one buffer, in an order that was drawn before. */
uint64_t row_copies_loop(row_copies *s, uint64_t n_batches, bool touches);

#endif
