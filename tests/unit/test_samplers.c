/*
 * test_samplers.c - the built-in samplers: every sample once, the same answer for any sequence of
 * calls, refusals with their reason.
 *
 * Orders are compared with naive ones that keep whole epochs in memory. The permutation under them
 * has its own test.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/permutation.h"
#include "iter/spec/registry.h"
#include "tests/support/make_data.h"
#include "tests/support/open_sampler.h"
#include <iter/iter.h>

TestSuite(samplers, .timeout = 60);

#define N_OF(list) (sizeof(list) / sizeof(list[0]))
#define MAX_N      SAMPLER_MAX_N

static const uint64_t sizes[] = {0, 1, 2, 5, 100, 999, 4096, 4097, 10007};

static void make_weights(const char *folder, const char *name, const char *type, const void *values,
                         size_t n, size_t width) {
    uint8_t bytes[4096];
    char text[128];
    snprintf(text, sizeof(text), "{'descr': '%s', 'fortran_order': False, 'shape': (%zu,), }", type,
             n);
    const size_t head = make_npy_header(bytes, text);
    memcpy(bytes + head, values, n * width);
    make_file(folder, name, bytes, head + n * width);
}

Test(samplers, tables_are_complete) {
    for (int i = 0; iter_builtin_sampler(i); i++) {
        iter_error err = {0};
        cr_expect_eq(iter__sampler_check(iter_builtin_sampler(i), &err), ITER_OK, "%s",
                     err.message);
    }
}

/* ---- All pure samplers ----------------------------------------------------------------------- */

static const iter_block_options small_blocks = {10, 3}, odd_blocks = {7, 1},
                                one_group = {64, 100000};
static const iter_batch_order_options units_of_48 = {48};
static const iter_replacement_options draws_777 = {777};

static const struct {
    const char *name;
    const void *options;
    bool is_permutation;
} pure[] = {
    {"sequential", NULL, true},
    {"shuffle", NULL, true},
    {"once", NULL, true},
    {"block", NULL, true},
    {"block", &small_blocks, true},
    {"block", &odd_blocks, true},
    {"block", &one_group, true},
    {"batch", NULL, true},
    {"batch", &units_of_48, true},
    {"replacement", NULL, false},
    {"replacement", &draws_777, false},
};

Test(samplers, every_sample_once_an_epoch) {
    static uint64_t order[MAX_N];
    for (size_t k = 0; k < N_OF(pure); k++)
        for (size_t i = 0; i < N_OF(sizes); i++) {
            if (!pure[k].is_permutation) continue;
            sampler s = open_sampler(pure[k].name, pure[k].options, sizes[i], 5);
            cr_assert_eq(s.n, sizes[i]);
            for (uint32_t epoch = 0; epoch < 3; epoch++) {
                epoch_of(&s, epoch, 64, order);
                expect_each_once(order, s.n, pure[k].name);
            }
            close_sampler(&s);
        }
}

/* Positions in any order and any pieces, epochs back and forth: always what a fresh sampler
 * answers. */
Test(samplers, answers_depend_on_epoch_and_position_alone) {
    static uint64_t order[3][MAX_N], piece[MAX_N];
    for (size_t k = 0; k < N_OF(pure); k++)
        for (size_t i = 1; i < N_OF(sizes); i++) {
            sampler s = open_sampler(pure[k].name, pure[k].options, sizes[i], 17);
            for (uint32_t epoch = 0; epoch < 3; epoch++) {
                sampler fresh = open_sampler(pure[k].name, pure[k].options, sizes[i], 17);
                epoch_of(&fresh, epoch, (uint32_t)fresh.n, order[epoch]);
                close_sampler(&fresh);
                for (uint32_t size = 1; size <= 700; size = size * 3 + 1) {
                    epoch_of(&s, epoch, size, piece);
                    cr_assert_arr_eq(piece, order[epoch], s.n * sizeof(*piece),
                                     "%s in pieces of %u", pure[k].name, size);
                }
            }
            iter_rng rng = iter_rng_at(1, 2, 3);
            for (int turn = 0; turn < 200; turn++) {
                const uint32_t epoch = (uint32_t)iter_rng_below(&rng, 3);
                const uint64_t at = iter_rng_below(&rng, s.n);
                const uint32_t n = (uint32_t)iter_rng_below(&rng, s.n - at + 1);
                s.ops->index(s.state, epoch, at, n, piece);
                cr_assert_arr_eq(piece, order[epoch] + at, n * sizeof(*piece), "%s", pure[k].name);
            }
            close_sampler(&s);
        }
}

Test(samplers, seeds_and_epochs_change_the_order) {
    static uint64_t a[MAX_N], b[MAX_N];
    for (size_t k = 1; k < N_OF(pure); k++) {
        sampler one = open_sampler(pure[k].name, pure[k].options, 10007, 1);
        sampler two = open_sampler(pure[k].name, pure[k].options, 10007, 2);
        epoch_of(&one, 0, 100, a);
        epoch_of(&two, 0, 100, b);
        cr_expect(memcmp(a, b, one.n * sizeof(*a)) != 0, "%s: seeds", pure[k].name);
        epoch_of(&one, 1, 100, b);
        const bool differs = memcmp(a, b, one.n * sizeof(*a)) != 0;
        cr_expect_eq(differs, strcmp(pure[k].name, "once") != 0, "%s: epochs", pure[k].name);
        close_sampler(&one);
        close_sampler(&two);
    }
}

Test(samplers, only_sequential_takes_streams) {
    const iter_sampler_context stream = {.n_samples = ITER_UNKNOWN, .batch_size = 32, .ranks = 1};
    for (int i = 0; iter_builtin_sampler(i); i++) {
        const char *name = iter_builtin_sampler(i)->base.name;
        iter_error err = {0};
        sampler s = {0};
        const iter_status status = try_open(&s, name, NULL, &stream, &err);
        if (strcmp(name, "sequential") == 0) {
            uint64_t out[3];
            cr_assert_eq(status, ITER_OK);
            cr_expect_eq(s.n, ITER_UNKNOWN);
            s.ops->index(s.state, 0, UINT64_C(1) << 40, 3, out);
            cr_expect_eq(out[2], (UINT64_C(1) << 40) + 2);
            close_sampler(&s);
        } else {
            cr_expect_eq(status, ITER_EINVAL, "%s", name);
            cr_expect(strstr(err.message, "number of samples"), "%s: %s", name, err.message);
        }
    }
}

static iter_status labels_of(const void *user, const char *field, uint64_t first, uint64_t n,
                             int64_t *out, iter_error *err) {
    (void)user, (void)field, (void)err;
    for (uint64_t i = 0; i < n; i++)
        out[i] = (int64_t)((first + i) * 7919 % 100);
    return ITER_OK;
}

Test(samplers, every_failed_allocation_is_an_error_and_no_leak) {
    static const iter_part parts[] = {{"a", 400, 0.7, 0}, {"b", 600, 0.3, 0}};
    const iter_sampler_context context = {.n_samples = 1000,
                                          .batch_size = 32,
                                          .ranks = 1,
                                          .length = length_of,
                                          .parts = parts,
                                          .n_parts = 2,
                                          .labels = labels_of};
    static const uint8_t weights[1000] = {1, 2, 3};
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_weights(folder, "w.npy", "|u1", weights, sizeof(weights), 1);
    const iter_weighted_options weighted = {make_path(path, folder, "w.npy"), 0};
    const iter_token_budget_options budget = {.tokens = 1 << 20, .multiple = 1};
    for (int i = 0; iter_builtin_sampler(i); i++)
        for (long n = 0;; n++) {
            const char *name = iter_builtin_sampler(i)->base.name;
            const void *options = strcmp(name, "weighted") == 0       ? (const void *)&weighted
                                  : strcmp(name, "token-budget") == 0 ? (const void *)&budget
                                                                      : NULL;
            const long live = iter__alloc_live();
            iter_error err = {0};
            sampler s = {0};
            iter__alloc_fail_after = n;
            const iter_status status = try_open(&s, name, options, &context, &err);
            const bool all_allocated = iter__alloc_fail_after >= 0;
            iter__alloc_fail_after = -1;
            if (status >= 0) close_sampler(&s);
            cr_assert_eq(status, all_allocated ? ITER_OK : ITER_ENOMEM);
            cr_assert_eq(iter__alloc_live(), live);
            if (all_allocated) break;
        }
    make_folder_gone(folder);
}

/* ---- One by one ------------------------------------------------------------------------------ */

Test(samplers, shuffle_is_the_permutation_and_once_its_epoch_0) {
    static uint64_t a[MAX_N], b[MAX_N], expected[MAX_N];
    static uint16_t table[ITER_PERMUTATION_TABLE];
    for (uint64_t n = 3000; n < MAX_N; n += 4000) {
        sampler shuffle = open_sampler("shuffle", NULL, n, 99),
                once = open_sampler("once", NULL, n, 99);
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            iter__permutation p;
            iter__permutation_init(&p, iter_rng_key(99, "shuffle", 0), epoch, n, table);
            iter__permutation_run(&p, 0, (uint32_t)n, expected);
            epoch_of(&shuffle, epoch, 64, a);
            cr_expect_arr_eq(a, expected, n * sizeof(*a));
            if (epoch == 0) memcpy(b, a, n * sizeof(*b));
            epoch_of(&once, epoch, 64, a);
            cr_expect_arr_eq(a, b, n * sizeof(*a));
        }
        close_sampler(&shuffle);
        close_sampler(&once);
    }
}

/* From the order of the rows alone: which blocks, in which order, and that a group is finished
 * before the next begins. */
static void check_blocks(const uint64_t *order, uint64_t n, uint64_t block, uint64_t buffer) {
    static uint64_t left[MAX_N]; /* rows of a block that are still missing */
    const uint64_t n_blocks = (n + block - 1) / block;
    for (uint64_t b = 0; b < n_blocks; b++)
        left[b] = b + 1 < n_blocks ? block : n - b * block;
    for (uint64_t at = 0, first = 0; at < n; first += buffer) {
        uint64_t group_rows = 0, n_open = 0;
        const uint64_t group_blocks = n_blocks - first < buffer ? n_blocks - first : buffer;
        const uint64_t start = at;
        do { /* a group ends once `buffer` blocks were begun and all of them are finished */
            const uint64_t b = order[at++] / block;
            const uint64_t whole = b + 1 < n_blocks ? block : n - b * block;
            if (left[b] == whole) n_open++, group_rows += whole;
            cr_assert(left[b]-- > 0);
        } while (n_open < group_blocks || at - start < group_rows);
        cr_assert_eq(n_open, group_blocks);
    }
}

Test(samplers, block_serves_group_after_group) {
    static uint64_t order[MAX_N];
    const iter_block_options cases[] = {{10, 3}, {7, 1}, {256, 16}, {100, 4}, {1, 5}, {5000, 2}};
    for (size_t k = 0; k < N_OF(cases); k++)
        for (size_t i = 1; i < N_OF(sizes); i++)
            for (uint64_t seed = 0; seed < 5; seed++) {
                sampler s = open_sampler("block", &cases[k], sizes[i], seed);
                epoch_of(&s, 3, 32, order);
                check_blocks(order, s.n, (uint64_t)cases[k].block, (uint64_t)cases[k].buffer);
                close_sampler(&s);
            }
}

/* Counts, over epochs, which sample comes at which position, in 30 x 30 cells: 30 x 29 degrees of
 * freedom, a deviation of 41.7. One seed in a million exceeds 5 deviations. */
static double unevenness(const char *name, const void *options) {
    enum { N = 6000, EPOCHS = 18000 };
    sampler s = open_sampler(name, options, N, 1);
    double cells[30][30] = {{0}}, sum = 0;
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        const uint64_t position = epoch * 197 % N; /* each comes 3 times */
        uint64_t sample;
        s.ops->index(s.state, epoch, position, 1, &sample);
        cells[position * 30 / N][sample * 30 / N]++;
    }
    for (int i = 0; i < 30; i++)
        for (int j = 0; j < 30; j++)
            sum += pow(cells[i][j] - 20, 2) / 20;
    close_sampler(&s);
    return (sum - 870) / 41.7;
}

Test(samplers, positions_are_uniform_over_epochs) {
    const iter_block_options blocks = {16, 4};
    const iter_batch_order_options units = {7}; /* and one of 1 */
    cr_expect_lt(fabs(unevenness("shuffle", NULL)), 5);
    cr_expect_lt(fabs(unevenness("block", &blocks)), 5);
    cr_expect_lt(fabs(unevenness("batch", &units)), 5);
    cr_expect_gt(unevenness("once", NULL), 20, "the same 6000 draws three times over: about 40");
}

Test(samplers, block_mixes_rows_and_changes_neighbours) {
    static uint64_t order[MAX_N];
    sampler s = open_sampler("block", NULL, 10007, 4);
    uint64_t n_adjacent = 0, n_in_place = 0;
    for (uint32_t epoch = 0; epoch < 10; epoch++) {
        epoch_of(&s, epoch, 64, order);
        for (uint64_t i = 1; i < s.n; i++) {
            n_adjacent += order[i] == order[i - 1] + 1;
            n_in_place += order[i] == i;
        }
    }
    /* In groups of up to 4096 rows: about 1 a group and 1 an epoch; the bounds are 5 deviations and
     * more. */
    cr_expect(n_adjacent < 70 && n_in_place < 40, "%lu adjacent, %lu in place", n_adjacent,
              n_in_place);
    close_sampler(&s);
}

Test(samplers, batch_keeps_units_whole) {
    static uint64_t order[MAX_N];
    uint32_t n_short_last = 0;
    for (uint32_t epoch = 0; epoch < 200; epoch++) {
        sampler s = open_sampler("batch", NULL, 1000, 8); /* 31 units of 32 and one of 8 */
        epoch_of(&s, epoch, 24, order);
        uint64_t at = 0;
        for (int unit = 0; unit < 32; unit++) {
            const uint64_t first = order[at], n = first == 992 ? 8 : 32;
            cr_assert_eq(first % 32, 0);
            for (uint64_t i = 0; i < n; i++)
                cr_assert_eq(order[at + i], first + i);
            at += n;
        }
        cr_assert_eq(at, 1000);
        n_short_last += order[999] == 999;
        close_sampler(&s);
    }
    cr_expect(n_short_last < 20, "last in %u of 200 epochs, 6 expected", n_short_last);
}

Test(samplers, replacement_draws_independently) {
    enum { N = 100, EPOCHS = 200 };
    uint64_t order[1000];
    uint32_t bins[N] = {0}, n_repeats = 0;
    const iter_replacement_options options = {1000};
    sampler s = open_sampler("replacement", &options, N, 3);
    cr_assert_eq(s.n, 1000);
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        epoch_of(&s, epoch, 64, order);
        for (int i = 0; i < 1000; i++) {
            iter_rng rng = iter_rng_at(iter_rng_key(3, "replacement", 0), epoch, (uint64_t)i);
            cr_assert_eq(order[i], iter_rng_below(&rng, N));
            bins[order[i]]++;
            n_repeats += i > 0 && order[i] == order[i - 1];
        }
    }
    double chi_square = 0;
    for (int i = 0; i < N; i++)
        chi_square += pow(bins[i] - 2000.0, 2) / 2000;
    cr_expect(chi_square > 45 && chi_square < 185, "%.1f", chi_square); /* 99 degrees, 1e-6 */
    cr_expect(abs((int)n_repeats - 1998) < 225, "%u", n_repeats);       /* 5 deviations */
    close_sampler(&s);
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* Ten million draws against the weights: chi-square below the value that it exceeds in one of a
 * million, and no sample of weight 0. Each draw is a function of (seed, epoch, position). */
Test(samplers, weighted_draws_as_often_as_the_weights_say) {
    enum { N = 100, DRAWS = 10000000, PIECE = 1000 };
    static const char *const types[] = {"<f8", "<f4", "<u2", ">i4"};
    static const size_t widths[] = {8, 4, 2, 4};
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    double f64[N], sum = 0;
    float f32[N];
    uint16_t u16[N];
    uint8_t be32[N][4] = {{0}};
    for (int i = 0; i < N; i++) {
        const int weight = i % 7 == 0 ? 0 : i == 50 ? 5000 : 1 + i * i % 97;
        f64[i] = weight;
        f32[i] = (float)weight;
        u16[i] = (uint16_t)weight;
        be32[i][2] = (uint8_t)(weight >> 8);
        be32[i][3] = (uint8_t)weight;
        sum += weight;
    }
    const void *values[] = {f64, f32, u16, be32};
    uint64_t order[PIECE], first[4][PIECE];
    make_folder(folder);
    for (int t = 0; t < 4; t++) {
        make_weights(folder, "w.npy", types[t], values[t], N, widths[t]);
        const iter_weighted_options options = {make_path(path, folder, "w.npy"), DRAWS};
        sampler s = open_sampler("weighted", &options, N, 3);
        cr_assert_eq(s.n, DRAWS);
        s.ops->index(s.state, 5, 777, PIECE, first[t]);
        cr_assert_arr_eq(first[t], first[0], sizeof(first[0]));
        s.ops->index(s.state, 5, 777 + 10, 1, order); /* any piece is the same */
        cr_assert_eq(order[0], first[t][10]);
        uint64_t counts[N] = {0};
        double chi_square = 0;
        for (uint64_t at = 0; t == 0 && at < DRAWS; at += PIECE) {
            s.ops->index(s.state, 0, at, PIECE, order);
            for (int i = 0; i < PIECE; i++)
                counts[order[i]]++;
        }
        for (int i = 0; t == 0 && i < N; i++) {
            const double want = f64[i] / sum * DRAWS;
            if (f64[i] == 0)
                cr_assert_eq(counts[i], 0);
            else
                chi_square += ((double)counts[i] - want) * ((double)counts[i] - want) / want;
        }
        /* 84 degrees: 28 and 164 are exceeded in one of a million */
        if (t == 0) cr_expect(chi_square > 38 && chi_square < 164, "%.1f", chi_square);
        close_sampler(&s);
    }
    make_folder_gone(folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(samplers, weights_that_cannot_be) {
    static const struct {
        double weights[3];
        size_t n;
        iter_status status;
        const char *reason;
    } cases[] = {
        {{1, -1, 1}, 3, ITER_EFORMAT, "the weight of sample 1 is -1"},
        {{1, 1, NAN}, 3, ITER_EFORMAT, "the weight of sample 2 is nan"},
        {{INFINITY, 1, 1}, 3, ITER_EFORMAT, "the weight of sample 0 is inf"},
        {{0, 0, 0}, 3, ITER_EFORMAT, "the weights' sum is 0"},
        {{1e308, 1e308, 1e308}, 3, ITER_EFORMAT, "the weights' sum is inf"},
        {{1, 1}, 2, ITER_EINVAL, "has 2 weights, there are 3 samples"},
    };
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    const iter_sampler_context context = {.n_samples = 3, .batch_size = 32, .ranks = 1};
    sampler s;
    iter_error err = {0};
    make_folder(folder);
    const iter_weighted_options options = {make_path(path, folder, "w.npy"), 0}, none = {0};
    for (size_t i = 0; i < N_OF(cases); i++) {
        make_weights(folder, "w.npy", "<f8", cases[i].weights, cases[i].n, 8);
        cr_expect_eq(try_open(&s, "weighted", &options, &context, &err), cases[i].status);
        cr_expect(strstr(err.message, cases[i].reason), "%s", err.message);
        cr_expect(strstr(err.message, "w.npy"), "%s", err.message);
        cr_assert_eq(iter__alloc_live(), 0);
    }
    cr_expect_eq(try_open(&s, "weighted", &none, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "needs file="), "%s", err.message);
    make_folder_gone(folder);
}

/* The table counts in memory.limit: while it is made, and as long as the loader lives. */
Test(samplers, weights_count_in_the_memory_limit) {
    enum { N = 1000000, HELD = 8 * N, MADE = 20 * N };
    static float weights[N], rows[N];
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 32], head[256];
    iter_error err;
    iter_loader *loader;
    for (int i = 0; i < N; i++)
        weights[i] = 1 + (float)(i % 7);
    make_folder(folder);
    uint8_t *bytes = malloc(sizeof(weights) + 1024);
    cr_assert_not_null(bytes);
    snprintf(head, sizeof(head), "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }", N);
    const size_t n_head = make_npy_header(bytes, head);
    memcpy(bytes + n_head, weights, sizeof(weights));
    make_file(folder, "w.npy", bytes, n_head + sizeof(weights));
    free(bytes);
    snprintf(spec, sizeof(spec), "weighted:\"%s\"", make_path(path, folder, "w.npy"));
    const iter_array array = {
        .desc = {.dtype = ITER_F32, .n_dims = 1, .dims = {N}}, .data = rows, .name = "data"};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.sampler.spec = spec;
    opt.memory.limit = MADE;
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, &opt, &loader, &err), ITER_ENOMEM);
    const char *due = "sampler weighted: memory.limit of 20000000 bytes is too small, ";
    cr_assert_eq(strncmp(err.message, due, strlen(due)), 0, "%s", err.message);
    const unsigned long long would_do = strtoull(err.message + strlen(due), NULL, 10);
    cr_assert_geq(would_do, MADE);
    cr_assert_leq(would_do, MADE + (1 << 20));
    opt.memory.limit = would_do;
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    const char *order = strstr(iter_loader_plan_text(loader), "order 8");
    cr_assert(order && strtoull(order + 6, NULL, 10) >= HELD, "%s", iter_loader_plan_text(loader));
    iter_loader_unref(loader);
    make_folder_gone(folder);
}

/* ---- Every step-th --------------------------------------------------------------------------- */

/* Each epoch has the multiples of `step` above its shift, each once; over the epochs every shift
 * comes, so that no sample is left out for ever. */
Test(samplers, stride_takes_every_step_th) {
    enum { N = 107, STEP = 10, EPOCHS = 200, PIECE = 3 };
    const iter_stride_options options = {STEP};
    uint64_t order[N], again[N];
    uint32_t shifts[STEP] = {0};
    sampler s = open_sampler("stride", &options, N, 3);
    cr_assert_eq(s.n, N / STEP);
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint8_t seen[N] = {0};
        epoch_of(&s, epoch, N, order);
        const uint64_t shift = order[0] % STEP;
        for (uint64_t i = 0; i < s.n; i++) {
            cr_assert(order[i] < N && order[i] % STEP == shift && !seen[order[i]]++);
        }
        shifts[shift]++;
        epoch_of(&s, epoch ^ 1, PIECE, again); /* another epoch in between changes nothing */
        epoch_of(&s, epoch, PIECE, again);
        cr_assert_arr_eq(again, order, s.n * sizeof(order[0]));
    }
    for (int i = 0; i < STEP; i++)
        cr_expect(shifts[i] > 3 && shifts[i] < 45, "shift %d in %u of 200 epochs", i, shifts[i]);
    close_sampler(&s);
}

Test(samplers, options_that_cannot_be) {
    const iter_sampler_context context = {.n_samples = 0, .batch_size = 32, .ranks = 1};
    const iter_replacement_options draws = {5};
    const iter_block_options huge = {2147483647, 1048576};
    iter_error err = {0};
    sampler s;
    cr_expect_eq(try_open(&s, "replacement", &draws, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "without samples"), "%s", err.message);
    cr_expect_eq(try_open(&s, "block", &huge, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "1048576 blocks of 2147483647"), "%s", err.message);
    cr_expect_eq(try_open(&s, "stride", &(iter_stride_options){4}, &context, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "step is 4, there are 0 samples"), "%s", err.message);
}
