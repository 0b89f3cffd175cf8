/*
 * test_permutation.c - the keyed permutation: the same numbers as an independent implementation,
 * one to one, and as good as random.
 *
 * Statistical tests have fixed keys, so they always give the same answer. Their bounds are 5
 * standard deviations: for a truly random permutation each would fail for 1 choice of keys in 1.7
 * million. A chi-square X of k degrees of freedom is made normal by Wilson and Hilferty: z = ((X /
 * k)^(1/3) - (1 - 2 / 9k)) / sqrt(2 / 9k). Bounds are two-sided, since too even is as wrong as too
 * uneven.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/permutation.h"

#include "tests/golden/permutation_vectors.h"

TestSuite(permutation, .timeout = 240);

#define N_ROWS     (sizeof(permutation_rows) / sizeof(permutation_rows[0]))
#define N_SIZES    (sizeof(sizes) / sizeof(sizes[0]))
#define MAX_SIZE   65537
#define MAX_BINS   32
#define BOUND      5.0
#define N_OF(list) (sizeof(list) / sizeof(list[0]))

/* Sizes just above the table, powers of two and just above them, and a real set's size. */
static const uint32_t sizes[] = {4096, 4097, 5000, 8192, 8193, 50000, 65536, 65537};

static uint16_t table[ITER_PERMUTATION_TABLE];

static void all_images(uint64_t key, uint32_t epoch, uint32_t n, uint64_t *out) {
    iter__permutation p;
    iter__permutation_init(&p, key, epoch, n, table);
    iter__permutation_run(&p, 0, n, out);
}

static double normal_of(double chi_square, double freedom) {
    const double v = 2 / (9 * freedom);
    return (cbrt(chi_square / freedom) - (1 - v)) / sqrt(v);
}

/* A table of counts, rows x columns. */
typedef struct counts {
    uint32_t n_bins;
    double cells[MAX_BINS][MAX_BINS];
    double chi_square, freedom; /* summed over the tables that were closed */
} counts;

/* Adds this table's chi-square, by its own margins, to the sum, and clears the table. */
static void close_table(counts *c) {
    double rows[MAX_BINS] = {0}, columns[MAX_BINS] = {0}, total = 0;
    for (uint32_t i = 0; i < c->n_bins; i++)
        for (uint32_t j = 0; j < c->n_bins; j++) {
            rows[i] += c->cells[i][j];
            columns[j] += c->cells[i][j];
            total += c->cells[i][j];
        }
    for (uint32_t i = 0; i < c->n_bins; i++)
        for (uint32_t j = 0; j < c->n_bins; j++) {
            const double expected = rows[i] * columns[j] / total;
            c->chi_square += pow(c->cells[i][j] - expected, 2) / expected * (total - 1) / total;
        }
    c->freedom += (c->n_bins - 1.0) * (c->n_bins - 1.0);
    memset(c->cells, 0, sizeof(c->cells));
}

static void expect_normal(double z, const char *what, uint64_t n) {
    cr_log_info("%s, n = %lu: z = %.2f", what, (unsigned long)n, z);
    cr_expect(fabs(z) < BOUND, "%s, n = %lu: z = %.2f", what, (unsigned long)n, z);
}

static uint32_t bin_of(uint64_t value, uint64_t n, uint32_t n_bins) {
    return (uint32_t)(value * n_bins / n);
}

/* Checks bins that bin_of() filled with equally likely values from `first` (0 or 1) to n - 1. */
static void expect_even(const uint32_t *bins, uint32_t n_bins, const char *what, uint64_t first,
                        uint64_t n) {
    double total = 0, chi_square = 0;
    for (uint32_t i = 0; i < n_bins; i++)
        total += bins[i];
    for (uint32_t i = 0; i < n_bins; i++) {
        const uint64_t from = i ? (i * n + n_bins - 1) / n_bins : first;
        const uint64_t to = ((i + 1) * n + n_bins - 1) / n_bins;
        const double expected = total * (double)(to - from) / (double)(n - first);
        chi_square += pow(bins[i] - expected, 2) / expected;
    }
    expect_normal(normal_of(chi_square, n_bins - 1.0), what, n);
}

/* ---- The numbers ----------------------------------------------------------------------------- */

Test(permutation, same_numbers_as_the_python_implementation) {
    for (size_t i = 0; i < N_ROWS; i++) {
        const uint64_t n = permutation_rows[i].n, at = permutation_rows[i].position;
        const uint32_t count = n - at < 8 ? (uint32_t)(n - at) : 8;
        iter__permutation p;
        uint64_t out[8];
        iter__permutation_init(&p, permutation_rows[i].key, permutation_rows[i].epoch, n, table);
        iter__permutation_run(&p, at, count, out);
        for (uint32_t j = 0; j < count; j++)
            cr_expect_eq(out[j], permutation_rows[i].out[j], "row %zu, n = %lu, position %lu: %lu",
                         i, n, at + j, out[j]);
    }
}

Test(permutation, is_one_to_one_and_find_inverts_it) {
    static const uint32_t some[] = {0,    1,     2,     3,     5,       100,
                                    4095, 4096,  4097,  4098,  8191,    8192,
                                    8193, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1};
    uint64_t *images = iter__alloc((1 << 20) + 1, sizeof(*images));
    uint8_t *seen = iter__alloc((1 << 20) + 1, 1);
    for (size_t i = 0; i < N_OF(some); i++)
        for (uint64_t key = 0; key < 3; key++) {
            const uint32_t n = some[i];
            iter__permutation p;
            iter__permutation_init(&p, key, (uint32_t)key, n, table);
            iter__permutation_run(&p, 0, n, images);
            memset(seen, 0, n);
            for (uint32_t at = 0; at < n; at++) {
                cr_assert(images[at] < n);
                cr_assert_eq(seen[images[at]]++, 0, "n = %u: %lu comes twice", n, images[at]);
            }
            for (uint32_t at = 0; at < n; at += 1 + n / 1000)
                cr_assert_eq(iter__permutation_find(&p, images[at]), at);
        }
    iter__free(images);
    iter__free(seen);
}

Test(permutation, of_more_than_32_bits) {
    static const uint64_t some[] = {(UINT64_C(1) << 32) - 1, UINT64_C(1) << 32,
                                    (UINT64_C(1) << 32) + 1, UINT64_C(1000000000000),
                                    (UINT64_C(1) << 63) - 1};
    for (size_t i = 0; i < N_OF(some); i++) {
        iter__permutation p;
        uint64_t out[256];
        uint32_t bins[64] = {0};
        iter__permutation_init(&p, 3, 4, some[i], NULL);
        for (uint64_t at = 0; at < 65536; at += 256) {
            iter__permutation_run(&p, some[i] - 65536 + at, 256, out);
            for (uint32_t j = 0; j < 256; j++) {
                cr_assert(out[j] < some[i]);
                cr_assert_eq(iter__permutation_find(&p, out[j]), some[i] - 65536 + at + j);
                bins[out[j] / (some[i] / 64 + 1)]++;
            }
        }
        expect_even(bins, 64, "values", 0, UINT64_C(1) << 32); /* n / 64 in each */
    }
}

Test(permutation, run_and_map_agree_for_every_cut) {
    enum { N = 5000 };
    static uint64_t whole[N], cut[N], scattered[N];
    all_images(9, 9, N, whole);
    iter__permutation p;
    iter__permutation_init(&p, 9, 9, N, NULL);
    for (uint32_t size = 1; size <= 200; size++) {
        for (uint32_t at = 0; at < N; at += size)
            iter__permutation_run(&p, at, size < N - at ? size : N - at, cut + at);
        cr_assert_arr_eq(cut, whole, sizeof(whole), "pieces of %u", size);
    }
    for (uint32_t i = 0; i < N; i++)
        scattered[i] = (i * 1237) % N;
    iter__permutation_map(&p, scattered, N, cut);
    for (uint32_t i = 0; i < N; i++)
        cr_assert_eq(cut[i], whole[scattered[i]]);
    iter__permutation_map(&p, scattered, N, scattered); /* in place */
    cr_assert_arr_eq(cut, scattered, sizeof(cut));
}

/* ---- As good as random ----------------------------------------------------------------------- */

/* All permutations of up to 5 elements come equally often. */
Test(permutation, small_n_exhaustively) {
    for (uint32_t n = 2; n <= 5; n++) {
        uint32_t bins[120] = {0}, factorial = 1;
        for (uint32_t i = 2; i <= n; i++)
            factorial *= i;
        for (uint32_t key = 0; key < 60000; key++) {
            uint64_t out[5];
            uint32_t rank = 0;
            all_images(key, key % 3, n, out);
            for (uint32_t i = 0; i < n; i++) { /* Lehmer code */
                uint32_t smaller = 0;
                for (uint32_t j = i + 1; j < n; j++)
                    smaller += out[j] < out[i];
                rank = rank * (n - i) + smaller;
            }
            bins[rank]++;
        }
        expect_even(bins, factorial, "permutations", 0, factorial);
    }
}

/* Where a position lands is uniform over keys, and over epochs of one key. */
Test(permutation, position_by_value_over_keys) {
    enum { KEYS = 5000 };
    for (size_t s = 1; s < N_SIZES; s++) {
        const uint32_t n = sizes[s];
        const uint64_t positions[] = {0, 1, 64, n / 2, n - 1};
        uint32_t by_key[N_OF(positions)][64] = {0}, by_epoch[N_OF(positions)][64] = {0};
        for (uint32_t k = 0; k < KEYS; k++)
            for (int which = 0; which < 2; which++) {
                iter__permutation p;
                uint64_t out[N_OF(positions)];
                iter__permutation_init(&p, which ? 1 : k, which ? k : 1, n, NULL);
                iter__permutation_map(&p, positions, N_OF(positions), out);
                for (size_t i = 0; i < N_OF(positions); i++)
                    (which ? by_epoch : by_key)[i][bin_of(out[i], n, 64)]++;
            }
        for (size_t i = 0; i < N_OF(positions); i++) {
            expect_even(by_key[i], 64, "one position's values over keys", 0, n);
            expect_even(by_epoch[i], 64, "one position's values over epochs", 0, n);
        }
    }
}

typedef enum relation {
    POSITION_VALUE,
    LOW_BITS,
    NEIGHBOURS,
    NEXT_EPOCH,
    NEXT_KEY,
    N_RELATIONS
} relation;

static const char *const relation_text[N_RELATIONS] = {
    "position by value", "low bits of position by low bits of value", "neighbours",
    "epoch by next epoch", "key by a key of one other bit"};

static void count_relation(relation r, uint64_t key, uint32_t n, counts *c) {
    static uint64_t images[MAX_SIZE], others[MAX_SIZE];
    all_images(key, 0, n, images);
    if (r == NEXT_EPOCH) all_images(key, 1, n, others);
    if (r == NEXT_KEY) all_images(key ^ UINT64_C(1) << (key % 64), 0, n, others);
    for (uint32_t i = 0; i + (r == NEIGHBOURS) < n; i++) {
        const uint64_t other = r == NEIGHBOURS ? images[i + 1] : r >= NEXT_EPOCH ? others[i] : i;
        if (r == LOW_BITS)
            c->cells[i % c->n_bins][images[i] % c->n_bins]++;
        else
            c->cells[bin_of(other, n, c->n_bins)][bin_of(images[i], n, c->n_bins)]++;
    }
}

/* Two-way tables of each permutation, and of all keys together. */
Test(permutation, two_way_tables) {
    enum { KEYS = 12 };
    for (relation r = 0; r < N_RELATIONS; r++)
        for (size_t s = 0; s < N_SIZES; s++) {
            counts each = {.n_bins = r == LOW_BITS ? 16 : 32}, together = each;
            for (uint64_t key = 0; key < KEYS; key++) {
                count_relation(r, key + 1000, sizes[s], &each);
                for (uint32_t i = 0; i < each.n_bins; i++)
                    for (uint32_t j = 0; j < each.n_bins; j++)
                        together.cells[i][j] += each.cells[i][j];
                close_table(&each);
            }
            close_table(&together);
            cr_log_info("%s", relation_text[r]);
            expect_normal(normal_of(each.chi_square, each.freedom), relation_text[r], sizes[s]);
            expect_normal(normal_of(together.chi_square, together.freedom), relation_text[r],
                          sizes[s]);
        }
}

/* Steps between neighbours' images, modulo n, are uniform. */
Test(permutation, adjacent_pairs) {
    static uint64_t images[MAX_SIZE];
    for (size_t s = 0; s < N_SIZES; s++) {
        const uint32_t n = sizes[s];
        uint32_t steps[256] = {0};
        for (uint64_t key = 0; key < 25; key++) {
            all_images(key, 7, n, images);
            for (uint32_t i = 0; i + 1 < n; i++)
                steps[bin_of((images[i + 1] + n - images[i]) % n, n, 256)]++;
        }
        expect_even(steps, 256, "steps", 1, n);
    }
}

/* Positions that differ in one bit enter the network in one place. The difference of their images
 * must be uniform. */
Test(permutation, differences) {
    static const unsigned all_bits[] = {13, 14, 16};
    static uint64_t images[MAX_SIZE];
    for (size_t s = 0; s < N_OF(all_bits); s++) {
        const unsigned bits = all_bits[s];
        const uint32_t n = 1u << bits;
        uint32_t high[16][256] = {0}, low[16][256] = {0};
        for (uint64_t key = 0; key < 12; key++) {
            all_images(key, 3, n, images);
            for (uint32_t i = 0; i < n; i++)
                for (unsigned bit = 0; bit < bits; bit++) {
                    const uint64_t difference = images[i] ^ images[i ^ 1u << bit];
                    if (i >> bit & 1) continue; /* each pair once */
                    high[bit][difference >> (bits - 8)]++;
                    low[bit][difference & 255]++;
                }
        }
        for (unsigned bit = 0; bit < bits; bit++) {
            expect_even(high[bit], 256, "high bits of differences", 1, n);
            expect_even(low[bit], 256, "low bits of differences", 1, n);
        }
    }
}

/* Even and odd permutations come equally often. */
Test(permutation, parity) {
    enum { KEYS = 80 };
    static uint64_t images[MAX_SIZE];
    static uint8_t seen[MAX_SIZE];
    for (size_t s = 0; s < N_SIZES; s++) {
        const uint32_t n = sizes[s];
        uint32_t n_odd = 0;
        for (uint64_t key = 0; key < KEYS; key++) {
            all_images(key, 0, n, images);
            memset(seen, 0, n);
            uint32_t n_cycles = 0;
            for (uint32_t i = 0; i < n; i++) {
                n_cycles += !seen[i];
                for (uint64_t at = i; !seen[at]; at = images[at])
                    seen[at] = 1;
            }
            n_odd += (n - n_cycles) % 2;
        }
        expect_normal((n_odd - (double)KEYS / 2) / sqrt((double)KEYS / 4), "odd permutations", n);
    }
}

/* Fixed points, neighbours that stay neighbours, and positions with the same image in two epochs:
 * each 1 or 2 on average, by Poisson. */
Test(permutation, rare_events) {
    enum { KEYS = 100 };
    static uint64_t images[MAX_SIZE], others[MAX_SIZE];
    for (size_t s = 0; s < N_SIZES; s++) {
        const uint32_t n = sizes[s];
        double n_fixed = 0, n_together = 0, n_repeated = 0;
        all_images(5, 0, n, others);
        for (uint32_t epoch = 0; epoch < KEYS; epoch++) {
            memcpy(images, others, n * sizeof(*images));
            all_images(5, epoch + 1, n, others);
            for (uint32_t i = 0; i < n; i++) {
                n_fixed += images[i] == i;
                n_repeated += images[i] == others[i];
                if (i > 0) n_together += images[i] - images[i - 1] + 1 <= 2; /* by -1 or by 1 */
            }
        }
        expect_normal((n_fixed - (double)KEYS) / sqrt((double)KEYS), "fixed points", n);
        expect_normal((n_repeated - (double)KEYS) / sqrt((double)KEYS), "same image in two epochs",
                      n);
        expect_normal((n_together - 2 * (double)KEYS) / sqrt(2 * (double)KEYS),
                      "neighbours together", n);
    }
}
