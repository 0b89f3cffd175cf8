/* mix_draws.h - mixes of sources: how even draws are, what they cost, and what 500 sources cost. */
#ifndef BENCH_MIX_DRAWS_H
#define BENCH_MIX_DRAWS_H

#include <stdint.h>

/**
 * Draws `draws` times from 3, 10, 50 and 500 sources with weights that are random real numbers, and
 * new ones from the middle on. Prints the largest distance of a source's count from its share after
 * any draw (of the weights as given), samples lost or drawn twice in an epoch of their source, and
 * the time of a draw, in sequence and at random places.
 *
 * Returns 0.
 */
int mix_even(uint64_t draws);

/**
 * A loader over one file of tokens, and one over a mix of `n` files with as many tokens together,
 * which it writes into `folder`: threads, open files, memory and time to create; then restores of
 * saved positions at random places.
 *
 * Returns 0, or 1 with a line on stderr.
 */
int mix_sources(const char *folder, uint32_t n);

#endif
