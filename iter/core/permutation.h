/*
 * permutation.h - a keyed permutation of 0..n-1, evaluated anywhere without a table.
 *
 * n > 4096: a Feistel network on ceil(log2 n) bits, in halves as equal as possible, with cycle
 * walking, 64 positions at a time. n <= 4096: Fisher-Yates from the counter RNG into a table,
 * because small Feistel networks are biased. permutation.c describes the computation exactly enough
 * to write it again elsewhere.
 */
#ifndef ITER_CORE_PERMUTATION_H
#define ITER_CORE_PERMUTATION_H

#include <iter/status.h>
#include <stdint.h>

#define ITER_PERMUTATION_TABLE  4096
#define ITER_PERMUTATION_ROUNDS 8

/* Read-only after init; any number of threads may use it. All members are private. */
typedef struct iter__permutation {
    uint64_t n, offset; /* offset: added to a position, modulo 2^bits, before the rounds */
    uint64_t multiply[ITER_PERMUTATION_ROUNDS], add[ITER_PERMUTATION_ROUNDS];
    uint16_t high[ITER_PERMUTATION_ROUNDS], low[ITER_PERMUTATION_ROUNDS]; /* halves of multiply */
    uint8_t bits, right_bits;
    uint16_t *table; /* the caller's, [n] if n <= ITER_PERMUTATION_TABLE, else NULL */
} iter__permutation;

/* The permutation of (key, epoch); n < 2^63. table: [n] if n <= ITER_PERMUTATION_TABLE, filled here
 * and borrowed, else not used. */
void iter__permutation_init(iter__permutation *p, uint64_t key, uint32_t epoch, uint64_t n,
                            uint16_t *table);

/* out[i] = image of position + i, i < count; position + count <= n. */
void iter__permutation_run(const iter__permutation *p, uint64_t position, uint32_t count,
                           uint64_t *out);

/* The same for scattered positions, each < n. out may be positions. */
void iter__permutation_map(const iter__permutation *p, const uint64_t *positions, uint32_t count,
                           uint64_t *out);

/* The position whose image is `value` < n. It takes one value a call, and searches a table: for use
 * once an epoch. */
uint64_t iter__permutation_find(const iter__permutation *p, uint64_t value);

#endif
