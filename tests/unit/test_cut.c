/*
 * test_cut.c - where batches begin and end, against a reference that lists every row of every epoch
 * and then deals the rows out.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/plan/cut.h"

TestSuite(cut, .timeout = 120);

__extension__ typedef unsigned __int128 u128;

#define MODES \
    ((const int32_t[]){ITER_LAST_KEEP, ITER_LAST_PAD, ITER_LAST_DISCARD, ITER_LAST_ROLL_OVER})
enum { MAX_BATCHES = 64, MAX_G = 32, EPOCHS = 5 };

/* ---- The reference: rows listed one by one --------------------------------------------------- */

typedef struct row {
    uint32_t epoch;
    uint64_t position;
    bool own; /* belongs to the epoch that delivers it, and is not padding */
} row;

typedef struct global_batch {
    uint32_t n_rows;
    row rows[MAX_G];
} global_batch;

typedef struct epoch_rows {
    uint32_t n_batches;
    global_batch batches[MAX_BATCHES];
    uint64_t first_row; /* roll_over: t of its first row */
} epoch_rows;

static void rolling(uint64_t n, uint64_t global, epoch_rows out[EPOCHS]) {
    uint64_t t = 0; /* rows delivered so far */
    for (uint32_t e = 0; e < EPOCHS; e++) {
        out[e].n_batches = 0;
        out[e].first_row = t;
        while (t + global <= (e + 1) * n) { /* a whole batch can be filled by the end of epoch e */
            global_batch *batch = &out[e].batches[out[e].n_batches++];
            batch->n_rows = (uint32_t)global;
            for (uint32_t i = 0; i < global; i++, t++) {
                batch->rows[i] = (row){(uint32_t)(t / n), t % n, t / n == e};
            }
        }
    }
}

static void by_epoch(uint64_t n, uint64_t global, int32_t mode, epoch_rows out[EPOCHS]) {
    for (uint32_t e = 0; e < EPOCHS; e++) {
        out[e].n_batches = 0;
        for (uint64_t at = 0; at < n; at += global) {
            const uint64_t left = n - at;
            if (mode == ITER_LAST_DISCARD && left < global) break;
            global_batch *batch = &out[e].batches[out[e].n_batches++];
            batch->n_rows = (uint32_t)(mode == ITER_LAST_PAD || left > global ? global : left);
            for (uint32_t i = 0; i < batch->n_rows; i++) {
                batch->rows[i] =
                    at + i < n ? (row){e, at + i, true} : (row){e, (at + i) % n, false};
            }
        }
    }
}

static void reference(uint64_t n, uint64_t global, int32_t mode, epoch_rows out[EPOCHS]) {
    if (mode == ITER_LAST_ROLL_OVER) {
        rolling(n, global, out);
    } else {
        by_epoch(n, global, mode, out);
    }
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static iter__cut cut_of(uint64_t n, uint32_t batch_size, uint32_t rank, uint32_t ranks,
                        int32_t mode) {
    return (iter__cut){.n = n,
                       .global = (uint64_t)batch_size * ranks,
                       .rank = rank,
                       .ranks = ranks,
                       .last_batch = mode};
}

#define WHERE "n %llu, global %llu, rank %u of %u, parts %u, mode %d, epoch %u, batch %u"
#define PLACE(cut, e, b)                                                                        \
    (unsigned long long)(cut)->n, (unsigned long long)(cut)->global, (cut)->rank, (cut)->ranks, \
        (cut)->micro_batches, (cut)->last_batch, e, b

/* The last of `parts` equal parts of m that does not begin behind `at`. */
static uint32_t part_with(uint32_t at, uint32_t m, uint32_t parts) {
    uint32_t part = parts - 1;
    while (part > 0 && part * m / parts > at)
        part--;
    return part;
}

/* The rank whose share has row i of a batch of m rows: row by row, part by part. */
static uint32_t rank_with(const iter__cut *cut, uint32_t i, uint32_t m) {
    const uint32_t parts = cut->micro_batches;
    if (parts == 0) return part_with(i, m, cut->ranks);
    return part_with(part_with(i, m, parts), parts, cut->ranks);
}

static void compare_share(const iter__cut *cut, const iter__span *span, const global_batch *want,
                          uint32_t e, uint32_t b) {
    uint32_t first = 0, end = 0;
    while (first < want->n_rows && rank_with(cut, first, want->n_rows) < cut->rank)
        first++;
    for (end = first; end < want->n_rows && rank_with(cut, end, want->n_rows) == cut->rank;)
        end++;
    cr_assert_eq(span->n_rows, end - first, WHERE, PLACE(cut, e, b));
    cr_assert_eq(span->global_rows, want->n_rows, WHERE, PLACE(cut, e, b));
    if (end > first) cr_assert_eq(span->first_row, first, WHERE, PLACE(cut, e, b));
    cr_assert_leq(span->n_rows,
                  iter__cut_largest_share(cut->global, cut->ranks, cut->micro_batches), WHERE,
                  PLACE(cut, e, b));
    uint32_t n_own = 0, first_own = 0;
    for (uint32_t i = 0; i < end - first; i++) {
        const row *wanted = &want->rows[first + i];
        uint32_t epoch;
        uint64_t position;
        iter__cut_row(cut, span, i, &epoch, &position);
        cr_assert_eq(epoch, wanted->epoch, WHERE, PLACE(cut, e, b));
        cr_assert_eq(position, wanted->position, WHERE, PLACE(cut, e, b));
        if (wanted->own && n_own == 0) first_own = i;
        n_own += wanted->own;
    }
    cr_assert_eq(span->n_valid, n_own, WHERE, PLACE(cut, e, b));
    cr_assert_eq(span->pad, end - first - n_own, WHERE, PLACE(cut, e, b));
    if (n_own) cr_assert_eq(span->first_valid, first_own, WHERE, PLACE(cut, e, b));
    cr_assert_leq(span->first_valid + span->n_valid, span->n_rows);
}

static void compare(const iter__cut *cut, const epoch_rows *want) {
    for (uint32_t e = 0; e < EPOCHS; e++) {
        iter__cursor cursor = iter__cut_epoch(cut, e);
        cr_assert_eq(cursor.epoch, e);
        cr_assert_eq(iter__cut_n_batches(cut, e), want[e].n_batches, WHERE, PLACE(cut, e, 0u));
        iter__span span;
        for (uint32_t b = 0; b < want[e].n_batches; b++) {
            cr_assert(iter__cut_batch(cut, &cursor, &span), WHERE, PLACE(cut, e, b));
            cr_assert_eq(span.number, b, WHERE, PLACE(cut, e, b));
            cr_assert_eq(span.epoch, e);
            compare_share(cut, &span, &want[e].batches[b], e, b);
            const uint64_t before = cursor.sample;
            cursor = iter__cut_after(cut, &cursor);
            cr_assert_eq(cursor.epoch, e);
            cr_assert_eq(cursor.ended, b + 1 == want[e].n_batches, WHERE, PLACE(cut, e, b));
            const uint64_t own =
                cut->last_batch != ITER_LAST_ROLL_OVER && cut->n - before < cut->global
                    ? cut->n - before
                    : cut->global;
            /* padding is not consumed */
            cr_assert_eq(cursor.sample - before, own, WHERE, PLACE(cut, e, b));
        }
        cr_assert_not(iter__cut_batch(cut, &cursor, &span), WHERE,
                      PLACE(cut, e, want[e].n_batches));
    }
}

/* Every small cut: batches, shares, padding, carried rows, and where epochs end, empty ones
 * included. */
Test(cut, all_small) {
    static epoch_rows want[EPOCHS];
    for (int m = 0; m < 4; m++) {
        for (uint64_t n = 0; n <= 17; n++) {
            for (uint32_t batch_size = 1; batch_size <= 6; batch_size++) {
                for (uint32_t ranks = 1; ranks <= 5; ranks++) {
                    reference(n, (uint64_t)batch_size * ranks, MODES[m], want);
                    for (uint32_t rank = 0; rank < ranks; rank++) {
                        const iter__cut cut = cut_of(n, batch_size, rank, ranks, MODES[m]);
                        compare(&cut, want);
                    }
                }
            }
        }
    }
}

/* Random shapes: every rank has the same number of batches, and the shares of a batch are all of
 * its rows in order, whole micro-batches if there are any. */
Test(cut, random_shapes) {
    static epoch_rows want[EPOCHS];
    srand(7);
    for (int i = 0; i < 3000; i++) {
        const uint32_t global = 1 + (uint32_t)rand() % MAX_G, ranks = 1 + (uint32_t)rand() % 9;
        const uint64_t n = (uint64_t)rand() % (global * 8 < 60 ? global * 8 : 60);
        const int32_t mode = MODES[rand() % 4];
        const uint32_t parts = rand() % 4 ? ranks + (uint32_t)rand() % 12 : 0;
        reference(n, global, mode, want);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            iter__cut cut = cut_of(n, 1, rank, ranks, mode);
            cut.global = global;
            cut.micro_batches = parts;
            compare(&cut, want);
        }
    }
}

/* If the ranks divide the micro-batches, shares are what they are without any. */
Test(cut, parts_change_nothing) {
    for (uint32_t ranks = 1; ranks <= 6; ranks++)
        for (uint32_t times = 1; times <= 5; times++)
            for (uint32_t m = 0; m <= 40; m++)
                for (uint32_t rank = 0; rank < ranks; rank++) {
                    iter__cut cut = cut_of(100, 10, rank, ranks, ITER_LAST_KEEP);
                    uint64_t first, same;
                    const uint32_t n_rows = iter__cut_share(&cut, m, &first);
                    cut.micro_batches = ranks * times;
                    cr_assert_eq(iter__cut_share(&cut, m, &same), n_rows);
                    cr_assert_eq(same, first);
                }
}

/* ---- place() --------------------------------------------------------------------------------- */

/* The place that the message names after "nearest is". */
static uint64_t named(const iter_error *err) {
    const char *at = strstr(err->message, "nearest is ");
    cr_assert(at, "%s", err->message);
    return strtoull(at + strlen("nearest is "), NULL, 10);
}

static uint64_t distance(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

Test(cut, places) {
    for (int m = 0; m < 3; m++) {
        for (uint64_t n = 0; n <= 13; n++) {
            for (uint32_t global = 1; global <= 7; global++) {
                const iter__cut cut = cut_of(n, global, 0, 1, MODES[m]);
                for (uint64_t sample = 0; sample <= n + 9; sample++) {
                    iter__cursor at;
                    iter_error err;
                    const iter_status s = iter__cut_place(&cut, 3, sample, false, &at, &err);
                    if (sample <= n && sample % global == 0) {
                        cr_assert_eq(s, ITER_OK);
                        cr_assert(at.epoch == 3 && at.sample == sample && !at.ended);
                    } else {
                        cr_assert_eq(s, ITER_EINVAL);
                        cr_assert_eq(err.status, ITER_EINVAL);
                        const uint64_t got = named(&err);
                        cr_assert(got <= n && got % global == 0, "%s", err.message);
                        for (uint64_t legal = 0; legal <= n; legal += global)
                            cr_assert_leq(distance(got, sample), distance(legal, sample), "%s",
                                          err.message);
                    }
                    /* any batch size */
                    cr_assert_eq(iter__cut_place(&cut, 3, sample, true, &at, &err), ITER_OK);
                    cr_assert(at.ended && at.epoch == 3 && at.sample == sample);
                    iter__span span;
                    cr_assert_not(iter__cut_batch(&cut, &at, &span));
                }
            }
        }
    }
}

/* Under roll_over: a place that is saved and restored is the same place; under another G it is the
 * place after the same rows. */
Test(cut, places_rolling) {
    for (uint64_t n = 1; n <= 13; n++) {
        for (uint32_t global = 1; global <= 9; global++) {
            const iter__cut cut = cut_of(n, global, 0, 1, ITER_LAST_ROLL_OVER);
            for (uint32_t e = 0; e < EPOCHS; e++) {
                iter__cursor from = iter__cut_epoch(&cut, e);
                for (bool more = true; more; from = more ? iter__cut_after(&cut, &from) : from) {
                    iter__span span;
                    iter__cursor at;
                    cr_assert_eq(iter__cut_place(&cut, e, from.sample, from.ended, &at, NULL),
                                 ITER_OK);
                    cr_assert(at.epoch == e && at.sample == from.sample && at.ended == from.ended);
                    for (uint32_t other = 1; other <= 9; other++) {
                        const iter__cut second = cut_of(n, other, 0, 1, ITER_LAST_ROLL_OVER);
                        iter_error err;
                        const iter_status s =
                            iter__cut_place(&second, e, from.sample, from.ended, &at, &err);
                        if (from.sample % other != 0) {
                            cr_assert_eq(s, ITER_EINVAL);
                            const uint64_t got = named(&err), below = from.sample / other * other;
                            cr_assert_eq(got % other, 0);
                            cr_assert_leq(distance(got, from.sample), distance(below, from.sample));
                            cr_assert_leq(distance(got, from.sample),
                                          distance(below + other, from.sample), "%s", err.message);
                            continue;
                        }
                        cr_assert_eq(s, ITER_OK, "%s", err.message);
                        cr_assert_eq(at.sample, from.sample);
                        const uint64_t first = at.epoch * n / other * other,
                                       end = (at.epoch + 1) * n / other * other;
                        if (at.ended) {
                            cr_assert(from.ended && end == at.sample);
                        } else {
                            cr_assert(first == at.sample ||
                                      (first <= at.sample && at.sample < end));
                        }
                    }
                    more = iter__cut_batch(&cut, &from, &span);
                }
            }
        }
    }
}

Test(cut, places_nothing) {
    iter__cursor at;
    const iter__cut cut = cut_of(10, 4, 0, 1, ITER_LAST_ROLL_OVER);
    /* NULL is a legal error */
    cr_assert_eq(iter__cut_place(&cut, 0, 11, false, &at, NULL), ITER_EINVAL);
    iter_error err;
    cr_assert_eq(iter__cut_place(&cut, 0, 4003, false, &at, &err), ITER_EINVAL);
    cr_assert_eq(named(&err), 4004); /* beyond one epoch's length */
    cr_assert_eq(iter__cut_place(&cut, 0, UINT64_MAX / 4 * 4, false, &at, &err), ITER_EINVAL);
    cr_assert(strstr(err.message, "beyond the last epoch"), "%s", err.message);
}

/* ---- Large numbers --------------------------------------------------------------------------- */

static void check_far_epoch(uint64_t n, uint32_t batch_size, uint32_t ranks, uint32_t epoch) {
    const uint64_t global = (uint64_t)batch_size * ranks;
    const uint64_t first = (uint64_t)((u128)epoch * n / global),
                   end = (uint64_t)(((u128)epoch + 1) * n / global);
    uint32_t rows = 0, own = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const iter__cut cut = cut_of(n, batch_size, rank, ranks, ITER_LAST_ROLL_OVER);
        cr_assert_eq(iter__cut_n_batches(&cut, epoch), end - first);
        iter__cursor cursor = iter__cut_epoch(&cut, epoch), at;
        cr_assert_eq(cursor.sample, first * global);
        iter__span span;
        cr_assert(iter__cut_batch(&cut, &cursor, &span));
        cr_assert_eq(span.number, 0);
        for (uint32_t i = 0; i < span.n_rows; i++) {
            uint32_t e;
            uint64_t position;
            iter__cut_row(&cut, &span, i, &e, &position);
            const uint64_t t = first * global + (uint64_t)rank * batch_size + i;
            cr_assert(e == t / n && position == t % n);
            cr_assert_eq(e == epoch, i >= span.first_valid);
            own += e == epoch;
            rows++;
        }
        cursor.sample = (end - 1) * global; /* its last batch */
        cr_assert(iter__cut_batch(&cut, &cursor, &span));
        cr_assert_eq(span.number, end - first - 1);
        cursor = iter__cut_after(&cut, &cursor);
        cr_assert(cursor.ended);
        cr_assert_not(iter__cut_batch(&cut, &cursor, &span));
        /* the epoch is only a hint */
        cr_assert_eq(iter__cut_place(&cut, 0, (first + 1) * global, false, &at, NULL), ITER_OK);
        cr_assert_eq(at.epoch, epoch);
        cr_assert_eq(iter__cut_place(&cut, epoch, end * global, true, &at, NULL), ITER_OK);
        cr_assert(at.ended && at.epoch == epoch);
    }
    cr_assert_eq(rows, global);
    cr_assert_eq(own, (u128)(first + 1) * global - (u128)epoch * n);
}

Test(cut, far_epochs) {
    const uint32_t epochs[] = {1, 999, 1000000, 1u << 31, UINT32_MAX - 1, UINT32_MAX};
    for (int i = 0; i < 6; i++) {
        check_far_epoch(50000, 64, 1, epochs[i]);
        check_far_epoch(60000, 7, 3, epochs[i]);
        check_far_epoch(1000003, 33, 8, epochs[i]);
    }
}

Test(cut, many_samples) {
    const uint64_t n = ((uint64_t)1 << 62) + 5;
    for (int m = 0; m < 3; m++) {
        const uint64_t global = 3 * 64;
        uint32_t rows = 0, own = 0;
        for (uint32_t rank = 0; rank < 3; rank++) {
            const iter__cut cut = cut_of(n, 64, rank, 3, MODES[m]);
            const uint64_t whole = n / global, tail = n % global;
            cr_assert_eq(iter__cut_n_batches(&cut, 7),
                         whole + (MODES[m] != ITER_LAST_DISCARD && tail));
            iter__cursor cursor = {.epoch = 7, .sample = whole * global};
            iter__span span;
            const bool any = iter__cut_batch(&cut, &cursor, &span);
            cr_assert_eq(any, MODES[m] != ITER_LAST_DISCARD);
            if (!any) continue;
            cr_assert_eq(span.number, whole);
            rows += span.n_rows;
            own += span.n_valid;
            for (uint32_t i = 0; i < span.n_rows; i++) {
                uint32_t e;
                uint64_t position;
                iter__cut_row(&cut, &span, i, &e, &position);
                cr_assert_eq(e, 7);
                cr_assert_eq(position, i < span.n_valid ? span.start + i : (span.start + i) % n);
                cr_assert_lt(position, n);
            }
            cursor = iter__cut_after(&cut, &cursor);
            cr_assert(cursor.ended && cursor.sample == n);
        }
        if (MODES[m] == ITER_LAST_KEEP) cr_assert_eq(rows, n % global);
        if (MODES[m] == ITER_LAST_PAD) cr_assert_eq(rows, global);
        if (rows) cr_assert_eq(own, n % global);
    }
    /* t stays below 2^64 for three epochs */
    const iter__cut cut = cut_of(n, 1000, 0, 1, ITER_LAST_ROLL_OVER);
    for (uint32_t e = 0; e < 3; e++) {
        const u128 first = (u128)e * n / 1000, end = ((u128)e + 1) * n / 1000;
        cr_assert(iter__cut_epoch(&cut, e).sample == first * 1000);
        cr_assert(iter__cut_n_batches(&cut, e) == end - first);
    }
}

Test(cut, unknown_length) {
    const iter__cut cut = cut_of(ITER_UNKNOWN, 8, 0, 1, ITER_LAST_KEEP);
    cr_assert_eq(iter__cut_n_batches(&cut, 0), ITER_UNKNOWN);
    iter__cursor at;
    cr_assert_eq(iter__cut_place(&cut, 5, 123, false, &at, NULL), ITER_OK);
    cr_assert(at.epoch == 5 && at.sample == 123);
    cr_assert_eq(iter__cut_epoch(&cut, 6).sample, 0);
}
