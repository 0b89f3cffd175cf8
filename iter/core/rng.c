/*
 * rng.c - counter-based random numbers: Philox 4x32-10.
 *
 * Ten rounds of two 32 x 32 -> 64 bit multiplications; the key is bumped by the Weyl constants
 * between rounds. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2,
 * 3", SC11, and its published known answers. Bounded numbers: Lemire, "Fast random integer
 * generation in an interval", ACM TOMACS 29 (2019), algorithm 5.
 */
#include <iter/rng.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/hash.h"

#define PHILOX_ROUNDS 10
#define PHILOX_MUL_0  0xD2511F53u
#define PHILOX_MUL_1  0xCD9E8D57u
#define PHILOX_WEYL_0 0x9E3779B9u /* golden ratio */
#define PHILOX_WEYL_1 0xBB67AE85u /* sqrt(3) - 1 */

__extension__ typedef unsigned __int128 uint128;

void iter_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)PHILOX_MUL_0 * c0;
        const uint64_t p1 = (uint64_t)PHILOX_MUL_1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_WEYL_0;
        k1 += PHILOX_WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t iter_rng_key(uint64_t seed, const char *stage, uint32_t occurrence) {
    char number[16];
    const int n_digits = snprintf(number, sizeof(number), "#%u", (unsigned)occurrence);
    uint64_t hash = iter__fnv1a(ITER_FNV_START, stage, strlen(stage));
    hash = iter__fnv1a(hash, number, (size_t)n_digits);
    return seed ^ hash;
}

iter_rng iter_rng_at(uint64_t key, uint32_t epoch, uint64_t position) {
    const iter_rng rng = {
        .key = {(uint32_t)key, (uint32_t)(key >> 32)},
        .counter = {0, (uint32_t)position, (uint32_t)(position >> 32), epoch},
        .used = 4,
    };
    return rng;
}

uint32_t iter_rng_u32(iter_rng *rng) {
    if (rng->used >= 4) {
        iter_philox4x32(rng->counter, rng->key, rng->block);
        rng->counter[0]++;
        rng->used = 0;
    }
    return rng->block[rng->used++];
}

uint64_t iter_rng_u64(iter_rng *rng) {
    const uint64_t low = iter_rng_u32(rng);
    return low | (uint64_t)iter_rng_u32(rng) << 32;
}

/* A draw x of w bits falls into slot floor(x * n / 2^w). The low half of the product tells whether
 * x is among the first 2^w mod n draws of its slot. Those are drawn again, so that every slot keeps
 * the same number of draws. */
static uint32_t below_32(iter_rng *rng, uint32_t n) {
    uint64_t product = (uint64_t)iter_rng_u32(rng) * n;
    if ((uint32_t)product < n) {
        const uint32_t too_many = (0u - n) % n; /* 2^32 mod n */
        while ((uint32_t)product < too_many)
            product = (uint64_t)iter_rng_u32(rng) * n;
    }
    return (uint32_t)(product >> 32);
}

static uint64_t below_64(iter_rng *rng, uint64_t n) {
    uint128 product = (uint128)iter_rng_u64(rng) * n;
    if ((uint64_t)product < n) {
        const uint64_t too_many = (UINT64_C(0) - n) % n; /* 2^64 mod n */
        while ((uint64_t)product < too_many)
            product = (uint128)iter_rng_u64(rng) * n;
    }
    return (uint64_t)(product >> 64);
}

uint64_t iter_rng_below(iter_rng *rng, uint64_t n) {
    assert(n >= 1);
    return n <= UINT32_MAX ? below_32(rng, (uint32_t)n) : below_64(rng, n);
}

float iter_rng_uniform(iter_rng *rng) {
    return (float)(iter_rng_u32(rng) >> 8) * 0x1p-24f;
}

bool iter_rng_chance(iter_rng *rng, double p) {
    return (double)iter_rng_u32(rng) < p * 0x1p32;
}
