/*
 * test_label_samplers.c - `balanced` and `repeat`: how often each class and each sample comes, the
 * same answer for any sequence of calls, refusals with their reason.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "tests/support/builtin_tables.h"
#include <iter/sampler.h>

TestSuite(label_samplers, .timeout = 120);

#define N_OF(list) (sizeof(list) / sizeof(list[0]))
#define MAX_N      60000

/* ---- Sets of labels -------------------------------------------------------------------------- */

typedef struct set {
    const char *name;
    uint64_t n;
    uint32_t n_classes;
    int64_t (*label)(uint64_t i);
} set;

static int64_t one_class(uint64_t i) {
    (void)i;
    return -4;
}
static int64_t each_its_own(uint64_t i) {
    return (int64_t)(i * 7919 % 5000) - 2500;
}
static int64_t skewed(uint64_t i) { /* 10 in 20000 are of class 900, a tenth of class 17 */
    return i % 2000 == 3 ? 900 : i % 10 == 1 ? 17 : INT64_MIN;
}
static int64_t digits(uint64_t i) {
    return (int64_t)(i * i % 10);
}
static int64_t last_alone(uint64_t i) {
    return i == 8191 ? 1 : 0;
}

static const set sets[] = {
    {"one class", 1, 1, one_class},
    {"one class", 5000, 1, one_class},
    {"5000 classes", 5000, 5000, each_its_own},
    {"skewed", 20000, 3, skewed},
    {"squares", 999, 6, digits},
    {"one alone", 8192, 2, last_alone},
};

static iter_status give_labels(const void *user, const char *field, uint64_t first, uint64_t n,
                               int64_t *out, iter_error *err) {
    const set *it = user;
    if (field && strcmp(field, "label") != 0)
        return iter__fail(err, ITER_EINVAL, "there is no field '%s'", field);
    for (uint64_t i = 0; i < n; i++)
        out[i] = it->label(first + i);
    return ITER_OK;
}

typedef struct sampler {
    const iter_sampler_ops *ops;
    void *state;
    uint64_t n;
} sampler;

static iter_status try_open(sampler *s, const iter_sampler_ops *ops, const void *options,
                            const set *of, iter_error *err) {
    const iter_sampler_context context = {.n_samples = of->n,
                                          .seed = 11,
                                          .batch_size = 32,
                                          .ranks = 1,
                                          .labels = give_labels,
                                          .labels_user = of};
    s->ops = ops;
    s->state = iter__alloc(1, ops->base.state_size);
    if (!s->state) return iter__fail(err, ITER_ENOMEM, "out of memory");
    const iter_status status = ops->open(s->state, options, &context, err);
    if (status == ITER_OK) s->n = ops->length(s->state);
    if (status < 0) iter__free(s->state);
    return status;
}

static sampler open_sampler(const iter_sampler_ops *ops, const void *options, const set *of) {
    iter_error err = {0};
    sampler s;
    cr_assert_eq(try_open(&s, ops, options, of, &err), ITER_OK, "%s: %s", of->name, err.message);
    return s;
}

static void close_sampler(sampler *s) {
    s->ops->close(s->state);
    iter__free(s->state);
}

/* Positions in any order, pieces of any length, epochs back and forth: what one call gives. */
static void expect_pure(const iter_sampler_ops *ops, const void *options, const set *of) {
    static uint64_t want[3][MAX_N], got[MAX_N];
    sampler s = open_sampler(ops, options, of);
    cr_assert_leq(s.n, MAX_N);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        sampler fresh = open_sampler(ops, options, of);
        ops->index(fresh.state, epoch, 0, (uint32_t)fresh.n, want[epoch]);
        close_sampler(&fresh);
    }
    for (uint32_t epoch = 0; epoch < 3; epoch++)
        for (uint32_t piece = 1; piece < 2000; piece = piece * 5 + 2) {
            for (uint64_t at = 0; at < s.n; at += piece) {
                const uint64_t left = s.n - at;
                ops->index(s.state, epoch, at, left < piece ? (uint32_t)left : piece, got + at);
            }
            cr_assert_arr_eq(got, want[epoch], s.n * sizeof(*got), "%s: pieces of %u", of->name,
                             piece);
        }
    iter_rng rng = iter_rng_at(1, 2, 3);
    for (int turn = 0; turn < 300; turn++) {
        const uint32_t epoch = (uint32_t)iter_rng_below(&rng, 3);
        const uint64_t at = iter_rng_below(&rng, s.n);
        const uint32_t n = (uint32_t)iter_rng_below(&rng, (s.n - at < 700 ? s.n - at : 700) + 1);
        ops->index(s.state, epoch, at, n, got);
        cr_assert_arr_eq(got, want[epoch] + at, n * sizeof(*got), "%s", of->name);
    }
    close_sampler(&s);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* ---- Balanced -------------------------------------------------------------------------------- */

/* Samples per label, in the order in which the labels are met. */
typedef struct tally {
    uint32_t n;
    int64_t labels[6000];
    uint64_t draws[6000];
} tally;

static uint32_t class_in(tally *t, int64_t label) {
    uint32_t c = 0;
    while (c < t->n && t->labels[c] != label)
        c++;
    if (c == t->n) {
        t->labels[c] = label;
        t->draws[t->n++] = 0;
    }
    return c;
}

/* Every round has each class once. At any place a class's samples have come equally often but for
 * one time, so no sample comes again before all others of its class. */
static void expect_balanced(const set *of, int64_t samples, uint32_t epochs) {
    static uint64_t order[MAX_N];
    static uint32_t times[MAX_N], class_of[MAX_N], size[6000];
    static tally t;
    const iter_balanced_options options = {samples, 0, NULL};
    sampler s = open_sampler(&iter__sampler_balanced, &options, of);
    cr_assert_eq(s.n, samples ? (uint64_t)samples : of->n - of->n % of->n_classes);
    t.n = 0;
    memset(times, 0, sizeof(times));
    memset(size, 0, sizeof(size));
    for (uint64_t i = 0; i < of->n; i++)
        size[class_of[i] = class_in(&t, of->label(i))]++;
    cr_assert_eq(t.n, of->n_classes, "%s: %u classes", of->name, t.n);
    uint64_t draw = 0;
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        s.ops->index(s.state, epoch, 0, (uint32_t)s.n, order);
        for (uint64_t i = 0; i < s.n; i++, draw++) {
            cr_assert_lt(order[i], of->n);
            const uint32_t c = class_of[order[i]];
            const uint64_t round = draw / t.n;
            cr_assert_eq(t.draws[c]++, round, "%s: draw %lu of class %u in round %lu", of->name,
                         draw, c, round);
            cr_assert_eq(times[order[i]]++, round / size[c], "%s: sample %lu in pass %lu", of->name,
                         order[i], round / size[c]);
        }
    }
    close_sampler(&s);
}

Test(label_samplers, balanced_counts) {
    for (size_t i = 0; i < N_OF(sets); i++) {
        expect_balanced(&sets[i], 0, 5);
        expect_balanced(&sets[i], 777, 7); /* epochs that end inside a round */
        expect_balanced(&sets[i], 1, 40);
    }
}

Test(label_samplers, balanced_is_pure) {
    const iter_balanced_options options = {777, 0, "label"};
    for (size_t i = 0; i < N_OF(sets); i++) {
        expect_pure(&iter__sampler_balanced, NULL, &sets[i]);
        expect_pure(&iter__sampler_balanced, &options, &sets[i]);
    }
}

/* Neither the classes of a round nor the samples of a pass come in an order that repeats. */
Test(label_samplers, balanced_is_random) {
    enum { ROUNDS = 3000, C = 6 };
    static uint64_t order[ROUNDS * C];
    const iter_balanced_options options = {ROUNDS * C, 0, NULL};
    const set *of = &sets[4];
    uint32_t firsts[10] = {0}, same = 0;
    sampler s = open_sampler(&iter__sampler_balanced, &options, of);
    s.ops->index(s.state, 0, 0, ROUNDS * C, order);
    for (int r = 0; r < ROUNDS; r++)
        firsts[of->label(order[r * C])]++;
    for (int64_t label = 0; label < 10; label++) { /* 500 of 3000, 6 standard deviations: 122 */
        const bool has =
            label == 0 || label == 1 || label == 4 || label == 5 || label == 6 || label == 9;
        cr_expect(has ? firsts[label] > 378 && firsts[label] < 622 : firsts[label] == 0,
                  "label %ld is first %u times", label, firsts[label]);
    }
    /* the class of label 5 has 100 samples (those that end in 5): pass 0 against pass 1 */
    uint64_t passes[2][100];
    uint32_t n = 0;
    for (int i = 0; i < ROUNDS * C && n < 200; i++)
        if (of->label(order[i]) == 5) passes[n / 100][n % 100] = order[i], n++;
    cr_assert_eq(n, 200);
    for (int i = 0; i < 100; i++)
        same += passes[0][i] == passes[1][i];
    cr_expect_lt(same, 12); /* 1 on average */
    close_sampler(&s);
}

/* ---- Repeat ---------------------------------------------------------------------------------- */

static void expect_times(const set *of, const char *counts, int64_t others,
                         uint64_t (*times_of)(int64_t label)) {
    static uint64_t order[MAX_N], before[MAX_N];
    static uint32_t times[MAX_N];
    const iter_repeat_options options = {counts, others, NULL};
    sampler s = open_sampler(&iter__sampler_repeat, &options, of);
    uint64_t total = 0;
    for (uint64_t i = 0; i < of->n; i++)
        total += times_of(of->label(i));
    cr_assert_eq(s.n, total, "%s: %lu draws, expected %lu", of->name, s.n, total);
    cr_assert_leq(total, MAX_N);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        s.ops->index(s.state, epoch, 0, (uint32_t)s.n, order);
        memset(times, 0, sizeof(times));
        for (uint64_t i = 0; i < s.n; i++) {
            cr_assert_lt(order[i], of->n);
            times[order[i]]++;
        }
        for (uint64_t i = 0; i < of->n; i++)
            cr_assert_eq(times[i], times_of(of->label(i)), "%s: sample %lu comes %u times",
                         of->name, i, times[i]);
        if (epoch > 0 && total > 100) cr_assert(memcmp(order, before, s.n * sizeof(*order)) != 0);
        memcpy(before, order, s.n * sizeof(*order));
    }
    close_sampler(&s);
}

static uint64_t once(int64_t label) {
    (void)label;
    return 1;
}
static uint64_t of_digits(int64_t label) {
    return label == 4 ? 10 : label == 9 ? 0 : label == 0 ? 3 : 1;
}
static uint64_t of_skewed(int64_t label) {
    return label == 900 ? 1000 : label == 17 ? 2 : 0;
}
static uint64_t of_one(int64_t label) {
    return label == -4 ? 7 : 0;
}

Test(label_samplers, repeat_counts) {
    for (size_t i = 0; i < N_OF(sets); i++)
        expect_times(&sets[i], NULL, 1, once);
    expect_times(&sets[4], "4=10 9=0,0=3", 1, of_digits);
    expect_times(&sets[4], " 4=10;9=0 ; 0=3;1=1;5=1;6=1 ", 99, of_digits);
    expect_times(&sets[3], "900=1000 17=2", 0, of_skewed);
    expect_times(&sets[1], "-4=7", 1, of_one);
}

Test(label_samplers, repeat_is_pure) {
    const iter_repeat_options digits_so = {"4=10 9=0 0=3", 1, NULL},
                              skewed_so = {"900=1000 17=2", 0, "label"};
    for (size_t i = 0; i < N_OF(sets); i++)
        expect_pure(&iter__sampler_repeat, NULL, &sets[i]);
    expect_pure(&iter__sampler_repeat, &digits_so, &sets[4]);
    expect_pure(&iter__sampler_repeat, &skewed_so, &sets[3]);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void expect_refusal(const iter_sampler_ops *ops, const void *options, const set *of,
                           const char *says) {
    iter_error err = {0};
    sampler s;
    cr_assert_eq(try_open(&s, ops, options, of, &err), ITER_EINVAL, "%s", says);
    cr_assert(strstr(err.message, says), "no '%s' in '%s'", says, err.message);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(label_samplers, refusals) {
    static const struct {
        iter_repeat_options options;
        const char *says;
    } repeats[] = {
        {{"3=1", 1, NULL}, "'3=1': no sample has label 3; there are 6 labels, 0 to 9"},
        {{"4=-1", 1, NULL}, "'4=-1': a count is a whole number from 0 to 1000000000"},
        {{"4=1.5", 1, NULL}, "'4=1.5': a count is a whole number"},
        {{"4=2000000000", 1, NULL}, "a count is a whole number"},
        {{"4=", 1, NULL}, "a count is a whole number"},
        {{"4", 1, NULL}, "'4': expected LABEL=COUNT"},
        {{"cat=4", 1, NULL}, "'cat=4': expected LABEL=COUNT, with an integer as label"},
        {{"4=1 4=2", 1, NULL}, "'4=2': label 4 has a count already"},
        {{NULL, 0, NULL}, "every label has a count of 0"},
        {{NULL, -1, NULL}, "others is -1; expected 0 to 1000000000"},
        {{NULL, 1, "coarse"}, "there is no field 'coarse'"},
    };
    static const struct {
        iter_balanced_options options;
        const char *says;
    } balances[] = {
        {{0, 10, NULL}, "classes is 10, but class 2 has no samples; 6 labels have some, 0 to 9"},
        {{0, 2, NULL}, "classes is 2, but there are samples of label 9"},
        {{0, 0, "coarse"}, "there is no field 'coarse'"},
    };
    const set none = {"none", 0, 0, digits}, stream = {"stream", ITER_UNKNOWN, 0, digits};
    for (size_t i = 0; i < N_OF(repeats); i++)
        expect_refusal(&iter__sampler_repeat, &repeats[i].options, &sets[4], repeats[i].says);
    for (size_t i = 0; i < N_OF(balances); i++)
        expect_refusal(&iter__sampler_balanced, &balances[i].options, &sets[4], balances[i].says);
    expect_refusal(&iter__sampler_balanced, NULL, &none, "there are no samples");
    expect_refusal(&iter__sampler_balanced, NULL, &stream, "a stream has sequential order alone");
    expect_refusal(&iter__sampler_repeat, NULL, &stream, "a stream has sequential order alone");
}

/* Each allocation fails in turn, with so many classes that tables grow: an error, and nothing
 * leaks. With few classes test_samplers.c does so. */
Test(label_samplers, without_memory) {
    for (int k = 0; k < 2; k++) {
        const iter_sampler_ops *ops = k ? &iter__sampler_repeat : &iter__sampler_balanced;
        const iter_repeat_options counts = {"7=2", 1, NULL};
        bool all_allocated = false;
        for (long n = 0; !all_allocated; n++) {
            iter_error err = {0};
            sampler s;
            iter__alloc_fail_after = n;
            const iter_status status = try_open(&s, ops, k ? &counts : NULL, &sets[2], &err);
            all_allocated = iter__alloc_fail_after >= 0;
            iter__alloc_fail_after = -1;
            cr_assert_eq(status, all_allocated ? ITER_OK : ITER_ENOMEM, "%ld: %s", n, err.message);
            if (status == ITER_OK) close_sampler(&s);
            cr_assert_eq(iter__alloc_live(), 0, "allocation %ld", n);
        }
    }
}
