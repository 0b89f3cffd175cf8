/*
 * test_rng.c - random numbers against the published answers, and the rules by which draws are made
 * of words.
 *
 * Keys are FNV-1a-64 by ten lines of Python, which gives the published af63dc4c8601ec8c for "a" and
 * 85944171f73967e8 for "foobar".
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <iter/rng.h>

#include "tests/golden/philox4x32_10.h"

TestSuite(rng, .timeout = 30);

#define N_OF(list) (sizeof(list) / sizeof(list[0]))

Test(rng, philox_known_answers) {
    for (size_t i = 0; i < N_OF(philox_rows); i++) {
        uint32_t out[4], in_place[4];
        iter_philox4x32(philox_rows[i].counter, philox_rows[i].key, out);
        cr_expect_arr_eq(out, philox_rows[i].out, sizeof(out), "row %zu", i);
        memcpy(in_place, philox_rows[i].counter, sizeof(in_place));
        iter_philox4x32(in_place, philox_rows[i].key, in_place);
        cr_expect_arr_eq(in_place, philox_rows[i].out, sizeof(out), "row %zu, in place", i);
    }
}

Test(rng, key_of_a_stage) {
    cr_expect_eq(iter_rng_key(0, "", 0), UINT64_C(0x07c8fe07b4919c66));
    cr_expect_eq(iter_rng_key(0, "a", 0), UINT64_C(0xe649f919048c3037));
    cr_expect_eq(iter_rng_key(0, "random-crop", 12), UINT64_C(0x93893873c0a29497));
    cr_expect_eq(iter_rng_key(0, "shuffle", UINT32_MAX), UINT64_C(0x2b4b594a8dfb6a54));
    cr_expect_eq(iter_rng_key(0x123456789abcdef0, "a", 0),
                 UINT64_C(0xe649f919048c3037) ^ 0x123456789abcdef0);
}

/* Row 4 of the published answers as a stream: counter 7, 0, 3, 0 is draw 7 of position 3 << 32 in
 * epoch 0. */
Test(rng, words_of_the_counter) {
    const uint64_t key = (uint64_t)0x00001a85 << 32 | 0x00003039;
    iter_rng rng = iter_rng_at(key, 0, UINT64_C(3) << 32);
    for (int i = 0; i < 4 * 7; i++)
        iter_rng_u32(&rng);
    const uint32_t expected[] = {0x3254abfb, 0x2ae637db, 0x8e81e181, 0xccad636e};
    for (int i = 0; i < 4; i++)
        cr_expect_eq(iter_rng_u32(&rng), expected[i], "word %d", i);

    const uint32_t counter[4] = {0, 0x89abcdef, 0x01234567, 77}, words[2] = {5, 9};
    uint32_t block[4];
    iter_philox4x32(counter, words, block);
    rng = iter_rng_at(UINT64_C(9) << 32 | 5, 77, 0x0123456789abcdef);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(iter_rng_u32(&rng), block[i]);
}

Test(rng, draws_are_made_of_words_in_order) {
    iter_rng words = iter_rng_at(1, 2, 3), rng = words;
    uint32_t w[16];
    for (int i = 0; i < 16; i++)
        w[i] = iter_rng_u32(&words);
    cr_expect_eq(iter_rng_u32(&rng), w[0]);
    cr_expect_eq(iter_rng_u64(&rng), (uint64_t)w[2] << 32 | w[1]);
    cr_expect_eq(iter_rng_u64(&rng), (uint64_t)w[4] << 32 | w[3]); /* across blocks */
    cr_expect_eq(iter_rng_uniform(&rng), (float)(w[5] >> 8) / 16777216.0f);
    cr_expect_eq(iter_rng_chance(&rng, 0.5), w[6] < 0x80000000u);
    cr_expect_eq(iter_rng_below(&rng, 1), 0);
    cr_expect_eq(iter_rng_below(&rng, 256), w[8] >> 24); /* a power of two never draws again */
    cr_expect_eq(iter_rng_below(&rng, UINT64_C(1) << 63), ((uint64_t)w[10] << 32 | w[9]) >> 1);
    cr_expect_eq(iter_rng_u32(&rng), w[11]);
}

/* Against obvious rejection: numbers from the largest multiple of n on are drawn again, which
 * product's low half tells. */
Test(rng, below_rejects_what_would_be_uneven) {
    const uint32_t n = 3000000000u; /* rejects 30 % of all words */
    uint64_t n_rejected = 0;
    for (uint32_t position = 0; position < 2000; position++) {
        iter_rng words = iter_rng_at(4, 0, position), rng = words;
        uint64_t product;
        do {
            product = (uint64_t)iter_rng_u32(&words) * n;
            n_rejected++;
        } while (product % (UINT64_C(1) << 32) < (UINT64_C(1) << 32) % n);
        n_rejected--;
        cr_assert_eq(iter_rng_below(&rng, n), product >> 32);
        cr_assert_eq(iter_rng_u32(&rng), iter_rng_u32(&words), "as many words were used");
    }
    cr_expect(n_rejected > 700 && n_rejected < 1020, "%lu", n_rejected); /* 864 expected */
}

/* Chi-square of 99 degrees of freedom: outside 45..185 for one seed in a million. */
Test(rng, below_is_uniform) {
    static const uint64_t some[] = {100, 3000000000u, UINT64_C(5000000000),
                                    UINT64_C(13835058055282163712)};
    for (size_t s = 0; s < N_OF(some); s++) {
        uint32_t bins[100] = {0};
        iter_rng rng = iter_rng_at(11, 0, s);
        for (int i = 0; i < 100000; i++) {
            const uint64_t value = iter_rng_below(&rng, some[s]);
            cr_assert(value < some[s]);
            bins[value / (some[s] / 100 + (some[s] % 100 != 0))]++;
        }
        double chi_square = 0;
        for (int i = 0; i < 100; i++)
            chi_square += pow(bins[i] - 1000.0, 2) / 1000;
        cr_expect(chi_square > 45 && chi_square < 185, "n = %lu: %.1f", some[s], chi_square);
    }
}

Test(rng, uniform_and_chance_keep_their_bounds) {
    iter_rng rng = iter_rng_at(12, 0, 0);
    int n_true = 0;
    for (int i = 0; i < 100000; i++) {
        const float u = iter_rng_uniform(&rng);
        cr_assert(u >= 0.0f && u < 1.0f);
        cr_assert(!iter_rng_chance(&rng, 0));
        cr_assert(iter_rng_chance(&rng, 1));
        n_true += iter_rng_chance(&rng, 0.3);
    }
    cr_expect(abs(n_true - 30000) < 725, "%d", n_true); /* 5 standard deviations */
}
