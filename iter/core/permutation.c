/*
 * permutation.c - a keyed permutation of 0..n-1 without a table.
 *
 * Numbers come in order from the Philox stream of (key, epoch, position 0), see rng.h.
 *
 * n <= 4096: Fisher-Yates. table = 0..n-1; for i = n-1 down to 1: exchange table[i] and
 * table[iter_rng_below(i + 1)].
 *
 * n > 4096: with b = ceil(log2 n), the network permutes 0..2^b-1. While its image is >= n, the
 * image is put in again ("cycle walking", fewer than 2 evaluations on average). The numbers drawn
 * are offset, then multiply[r] and add[r] of round r = 0..7, 64 bits each. One evaluation of x:
 *
 *     x = (x + offset) mod 2^b;  left = x >> R, right = x mod 2^R, R = ceil(b / 2), L = b - R
 *     even rounds  left  ^= f_r(right) mod 2^L
 *     odd rounds   right ^= f_r(left)  mod 2^R
 *     image = left << R | right
 *
 *     b <= 32: f(h) = low16(m1 * h) + high16(m0 * h) + add
 *              with m0, m1 = bits 0..15, 16..31 of multiply[r]
 *     b  > 32: f(h) = (multiply * h + add) >> 32
 *
 * f is multiply-add-shift hashing with a random multiplier and addend: two different halves give
 * (nearly) independent, uniform values, because the product keeps bits(h) + bits(f) bits and more.
 * The first form is the top of a 16 x 32 bit product, taken in 16-bit lanes: two multiplications
 * that every SIMD level has, so compilers turn the plain C below into vector code. A Feistel
 * network alone gives even permutations only; the offset gives both kinds.
 *
 * Each lane needs a different number of evaluations. To keep all 64 lanes busy, lanes that must
 * walk on move to the front, and new positions fill the rest.
 *
 * Sources: Black, Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002 (cycle walking);
 * Dietzfelbinger, "Universal hashing and k-wise independent random variables via integer arithmetic
 * without primes", STACS 1996.
 */
#include "iter/core/permutation.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include <iter/rng.h>

#define ROUNDS ITER_PERMUTATION_ROUNDS
#define LANES  64 /* one bit each in a word of 64 */
#define FEW    16 /* at most so many lanes use evaluate_few() */

static uint64_t mask_of(unsigned bits) {
    return (UINT64_C(1) << bits) - 1;
}

static void fill_table(iter_rng rng, uint32_t n, uint16_t *table) {
    for (uint32_t i = 0; i < n; i++)
        table[i] = (uint16_t)i;
    for (uint32_t i = n; i-- > 1;) {
        const uint32_t j = (uint32_t)iter_rng_below(&rng, (uint64_t)i + 1);
        const uint16_t moved = table[i];
        table[i] = table[j];
        table[j] = moved;
    }
}

/* f_r of the head comment. In 16 bits throughout, so that compilers use 16-bit lanes. */
static inline uint16_t hash_narrow(const iter__permutation *p, int r, uint16_t half) {
    const uint16_t top = (uint16_t)(((uint32_t)half * p->low[r]) >> 16);
    const uint16_t bottom = (uint16_t)((uint32_t)half * p->high[r]);
    return (uint16_t)(top + bottom + (uint16_t)p->add[r]);
}

static void split(const iter__permutation *p, const uint32_t *x, uint16_t *left, uint16_t *right,
                  uint32_t n) {
    const uint32_t offset = (uint32_t)p->offset, mask = (uint32_t)mask_of(p->bits);
    const unsigned right_bits = p->right_bits;
    const uint16_t right_mask = (uint16_t)mask_of(right_bits);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t from = (x[i] + offset) & mask;
        left[i] = (uint16_t)(from >> right_bits);
        right[i] = (uint16_t)(from & right_mask);
    }
}

/* One evaluation of all lanes, round by round: the multiplications of one lane depend on each
 * other, those of different lanes do not. */
static void evaluate_lanes(const iter__permutation *p, uint32_t *x) {
    const uint16_t right_mask = (uint16_t)mask_of(p->right_bits);
    const uint16_t left_mask = (uint16_t)mask_of((unsigned)p->bits - p->right_bits);
    uint16_t left[LANES], right[LANES];
    split(p, x, left, right, LANES);
    for (int r = 0; r < ROUNDS; r += 2) {
        for (int i = 0; i < LANES; i++)
            left[i] = (uint16_t)(left[i] ^ (hash_narrow(p, r, right[i]) & left_mask));
        for (int i = 0; i < LANES; i++)
            right[i] = (uint16_t)(right[i] ^ (hash_narrow(p, r + 1, left[i]) & right_mask));
    }
    for (int i = 0; i < LANES; i++)
        x[i] = (uint32_t)left[i] << p->right_bits | right[i];
}

/* The same for the first FEW lanes, all rounds of a lane at once: with few lanes, memory traffic
 * costs most. */
static void evaluate_few(const iter__permutation *p, uint32_t *x) {
    const uint16_t right_mask = (uint16_t)mask_of(p->right_bits);
    const uint16_t left_mask = (uint16_t)mask_of((unsigned)p->bits - p->right_bits);
    uint16_t left[FEW], right[FEW];
    split(p, x, left, right, FEW);
    for (int i = 0; i < FEW; i++) {
        uint16_t a = left[i], b = right[i];
        for (int r = 0; r < ROUNDS; r += 2) {
            a = (uint16_t)(a ^ (hash_narrow(p, r, b) & left_mask));
            b = (uint16_t)(b ^ (hash_narrow(p, r + 1, a) & right_mask));
        }
        left[i] = a;
        right[i] = b;
    }
    for (int i = 0; i < FEW; i++)
        x[i] = (uint32_t)left[i] << p->right_bits | right[i];
}

/* Bit i of the result = lane i holds more than `last`. */
static uint64_t find_walkers(const uint32_t *x, uint32_t last) {
    uint8_t flags[LANES];
    for (int i = 0; i < LANES; i++)
        flags[i] = x[i] > last;
    uint64_t bits = 0;
    for (int i = 0; i < LANES; i += 8) {
        uint64_t eight;
        memcpy(&eight, flags + i, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        eight = __builtin_bswap64(eight);
#endif
        bits |= (eight * UINT64_C(0x0102040810204080) >> 56) << i; /* bit 8j of eight to bit j */
    }
    return bits;
}

/* Moves the lanes that must walk on to the front and returns their number; n <= FEW. */
static uint32_t gather_few(uint32_t *x, uint32_t *slot, uint32_t n, uint32_t last) {
    uint32_t n_walking = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t held = x[i], held_slot = slot[i];
        x[n_walking] = held;
        slot[n_walking] = held_slot;
        n_walking += held > last;
    }
    return n_walking;
}

static uint32_t gather_walkers(uint32_t *x, uint32_t *slot, uint32_t n, uint32_t last) {
    uint64_t walkers = find_walkers(x, last) & (~UINT64_C(0) >> (LANES - n));
    uint32_t n_walking = 0;
    for (; walkers; walkers &= walkers - 1) {
        const int i = __builtin_ctzll(walkers);
        x[n_walking] = x[i];
        slot[n_walking++] = slot[i];
    }
    return n_walking;
}

/* positions NULL = position, position + 1, ... */
static void run_narrow(const iter__permutation *p, uint64_t position, const uint64_t *positions,
                       uint32_t count, uint64_t *out) {
    const uint32_t last = (uint32_t)(p->n - 1);
    uint32_t x[LANES] = {0}; /* the value of each lane */
    uint32_t slot[LANES];    /* the index of its result in out[] */
    uint32_t next = 0, n_walking = 0;
    while (next < count || n_walking > 0) {
        const uint32_t room = LANES - n_walking;
        const uint32_t n_new = count - next < room ? count - next : room;
        const uint32_t n = n_walking + n_new;
        for (uint32_t i = n_walking; i < n; i++)
            slot[i] = next++;
        if (positions)
            for (uint32_t i = n_walking; i < n; i++)
                x[i] = (uint32_t)positions[slot[i]];
        else
            for (uint32_t i = n_walking; i < n; i++)
                x[i] = (uint32_t)position + slot[i];
        if (n <= FEW)
            evaluate_few(p, x);
        else
            evaluate_lanes(p, x);
        for (uint32_t i = 0; i < n; i++)
            out[slot[i]] = x[i];
        n_walking = n <= FEW ? gather_few(x, slot, n, last) : gather_walkers(x, slot, n, last);
    }
}

static uint64_t evaluate_wide(const iter__permutation *p, uint64_t x) {
    const unsigned right_bits = p->right_bits;
    const uint64_t left_mask = mask_of(p->bits - right_bits), right_mask = mask_of(right_bits);
    const uint64_t from = (x + p->offset) & mask_of(p->bits);
    uint64_t left = from >> right_bits, right = from & right_mask;
    for (int r = 0; r < ROUNDS; r += 2) {
        left ^= ((p->multiply[r] * right + p->add[r]) >> 32) & left_mask;
        right ^= ((p->multiply[r + 1] * left + p->add[r + 1]) >> 32) & right_mask;
    }
    return left << right_bits | right;
}

static void run_wide(const iter__permutation *p, uint64_t position, const uint64_t *positions,
                     uint32_t count, uint64_t *out) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t x = positions ? positions[i] : position + i;
        do
            x = evaluate_wide(p, x);
        while (x >= p->n);
        out[i] = x;
    }
}

/* The rounds backwards, for either form. */
static uint64_t evaluate_back(const iter__permutation *p, uint64_t x) {
    const unsigned right_bits = p->right_bits;
    const uint64_t left_mask = mask_of(p->bits - right_bits), right_mask = mask_of(right_bits);
    const bool is_wide = p->bits > 32;
    uint64_t left = x >> right_bits, right = x & right_mask;
    for (int r = ROUNDS - 2; r >= 0; r -= 2) {
        right ^= right_mask & (is_wide ? (p->multiply[r + 1] * left + p->add[r + 1]) >> 32
                                       : hash_narrow(p, r + 1, (uint16_t)left));
        left ^= left_mask & (is_wide ? (p->multiply[r] * right + p->add[r]) >> 32
                                     : hash_narrow(p, r, (uint16_t)right));
    }
    return ((left << right_bits | right) - p->offset) & mask_of(p->bits);
}

void iter__permutation_init(iter__permutation *p, uint64_t key, uint32_t epoch, uint64_t n,
                            uint16_t *table) {
    assert(n >> 63 == 0);
    *p = (iter__permutation){.n = n};
    iter_rng rng = iter_rng_at(key, epoch, 0);
    if (n <= ITER_PERMUTATION_TABLE) {
        assert(table || n == 0);
        p->table = table;
        fill_table(rng, (uint32_t)n, table);
        return;
    }
    p->bits = (uint8_t)(64 - __builtin_clzll(n - 1));
    p->right_bits = (uint8_t)((p->bits + 1) / 2);
    p->offset = iter_rng_u64(&rng);
    for (int r = 0; r < ROUNDS; r++) {
        p->multiply[r] = iter_rng_u64(&rng);
        p->low[r] = (uint16_t)p->multiply[r];
        p->high[r] = (uint16_t)(p->multiply[r] >> 16);
        p->add[r] = iter_rng_u64(&rng);
    }
}

void iter__permutation_run(const iter__permutation *p, uint64_t position, uint32_t count,
                           uint64_t *out) {
    assert(position <= p->n && count <= p->n - position);
    if (p->bits == 0)
        for (uint32_t i = 0; i < count; i++)
            out[i] = p->table[position + i];
    else if (p->bits <= 32)
        run_narrow(p, position, 0, count, out);
    else
        run_wide(p, position, 0, count, out);
}

void iter__permutation_map(const iter__permutation *p, const uint64_t *positions, uint32_t count,
                           uint64_t *out) {
    if (p->bits == 0)
        for (uint32_t i = 0; i < count; i++)
            out[i] = p->table[positions[i]];
    else if (p->bits <= 32)
        run_narrow(p, 0, positions, count, out);
    else
        run_wide(p, 0, positions, count, out);
}

uint64_t iter__permutation_find(const iter__permutation *p, uint64_t value) {
    assert(value < p->n);
    uint64_t x = value;
    if (p->bits == 0) {
        for (x = 0; p->table[x] != value;)
            x++;
        return x;
    }
    do
        x = evaluate_back(p, x);
    while (x >= p->n);
    return x;
}
