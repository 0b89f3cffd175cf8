/*
 * rng.h - counter-based random numbers.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
 * A number is a function of (seed, stage, epoch, position, draw) alone, so the same sample gets the
 * same numbers whatever thread works on it, and in whatever order.
 */
#ifndef ITER_RNG_H
#define ITER_RNG_H

#include <stdbool.h>
#include <stdint.h>

#include <iter/export.h>

ITER_BEGIN_DECLS

/** One block: counter[4] and key[2] to out[4], words in the published order. out may be counter. */
ITER_API void iter_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/** The key of a stage: seed XOR FNV-1a-64(name '#' occurrence), occurrence in decimal, counted from
 * 0. */
ITER_API uint64_t iter_rng_key(uint64_t seed, const char *stage, uint32_t occurrence);

/** A stream for one sample in one stage. Fields are private; copy it freely. */
typedef struct iter_rng {
    uint32_t key[2];
    uint32_t counter[4]; /* draw, position low, position high, epoch */
    uint32_t block[4];
    uint32_t used; /* words of block given out; 4 = all */
} iter_rng;

/** The stream of (key, epoch, position), at draw 0. */
ITER_API iter_rng iter_rng_at(uint64_t key, uint32_t epoch, uint64_t position);

/** The next 32 bits. */
ITER_API uint32_t iter_rng_u32(iter_rng *rng);

/** The next 64 bits (two words, low first). */
ITER_API uint64_t iter_rng_u64(iter_rng *rng);

/** Uniform in 0..n-1 without bias (Lemire 2019, with rejection); n >= 1. A draw takes 32 bits
 * if n < 2^32, else 64. */
ITER_API uint64_t iter_rng_below(iter_rng *rng, uint64_t n);

/** Uniform in [0, 1): the top 24 bits of one word. */
ITER_API float iter_rng_uniform(iter_rng *rng);

/** True with probability p (in [0, 1]); one word. */
ITER_API bool iter_rng_chance(iter_rng *rng, double p);

ITER_END_DECLS

#endif
