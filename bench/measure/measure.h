/*
 * measure.h - how two things are compared: by short slices that alternate, between runs of a
 * witness, pair by pair.
 *
 *     measure_side a = {"before", run_a, NULL, state_a}, b = {"after", run_b, NULL, state_b};
 *     measure_options opt = MEASURE_OPTIONS_INIT;
 *     measure_result result;
 *     if (measure_pairs(&a, &b, &opt, &result, &err) == ITER_OK)
 *         printf("%.3f\n", result.ratio.median);
 *     measure_free(&result);
 *
 * A side is a function, or a program that reads "run N" from its standard input and answers
 * "samples seconds" on its standard output.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

#include "diagnose/interval.h"

typedef struct measure_side {
    const char *name;
    /* Takes n batches; reports how many samples that were and how long it took. 0 samples = none
     * left. */
    iter_status (*run)(void *user, uint64_t n_batches, uint64_t *out_samples, double *out_seconds,
                       iter_error *err);
    /* The same before a slice, not timed: uses up batches made ahead while the other side ran. NULL
     * = run, its result ignored. */
    iter_status (*warm)(void *user, uint64_t n_batches, iter_error *err);
    void *user;
    /* Whether its threads have come to rest after a slice. NULL = wait for a few batches' time. */
    bool (*rests)(void *user);
} measure_side;

typedef struct measure_options {
    double slice_s;        /* target of one slice; at most MEASURE_SLICE_MAX_S */
    uint32_t min_pairs;    /* pairs to keep */
    double min_s;          /* go on for so long, even with enough pairs */
    double max_s;          /* then stop, with the pairs so far */
    uint64_t warm_batches; /* before each slice */
    double tolerance;      /* of the witness */
    bool memory;           /* a second witness reads memory past the caches; it takes 64 MiB */
    void (*after_pair)(void *user, uint32_t n_kept, uint32_t n_dropped); /* NULL = none */
    void *after_user;
    /* Rounds around which the witness moved are set aside. If fewer than this many others remain,
     * they count after all. */
    uint32_t least_rounds;
} measure_options;

#define MEASURE_OPTIONS_INIT \
    { 0.25, 15, 0, 60, 6, 0.05, false, NULL, NULL, 0 }

#define MEASURE_SLICE_MAX_S 2.0

typedef struct measure_result {
    measure_interval ratio;             /* rate of b / rate of a, kept pairs */
    measure_interval rate_a, rate_b;    /* samples a second, kept slices */
    uint32_t n_pairs, n_dropped;        /* kept; dropped because the witness moved */
    double *ratios, *rates_a, *rates_b; /* [n_pairs], in order of time */
} measure_result;

/**
 * Alternates a and b until enough pairs are kept, max_s is over or a side has nothing left.
 *
 * Errors  those of a side, ENOMEM. The result must be freed even after an error.
 */
iter_status measure_pairs(const measure_side *a, const measure_side *b,
                          const measure_options *options, measure_result *out, iter_error *err);
void measure_free(measure_result *result);

/** Adds the pairs of `part` to those of `sum`, and gives `sum` the intervals of all of them. A
 * zeroed `sum` has no pairs. Errors: ENOMEM; then `sum` is as before. */
iter_status measure_add(measure_result *sum, const measure_result *part, iter_error *err);

#define MEASURE_SIDES_MAX 16

/** The rates of each side in all rounds, and how many rounds were dropped. */
typedef struct measure_rounds {
    int n_sides;
    uint32_t n_rounds, n_dropped;
    bool steady;   /* false: the rounds that were set aside count */
    double *rates; /* [n_rounds][n_sides] samples a second, in order of time */
    /* While measuring: kept rounds are filled in from the front, those set aside from the back. */
    uint32_t capacity;
} measure_rounds;

/**
 * The same for any number of sides. A round has one slice of each side; the side that begins
 * changes from round to round. If the witness moved around any slice, the whole round is dropped.
 *
 * Errors  those of measure_pairs().
 */
iter_status measure_sides(const measure_side *sides, int n_sides, const measure_options *options,
                          measure_rounds *out, iter_error *err);
void measure_rounds_free(measure_rounds *rounds);

/** The interval of rate of side b / rate of side a over the rounds. If b = a, of the rate of a
 * itself. Errors: ENOMEM. */
iter_status measure_rounds_ratio(const measure_rounds *rounds, int a, int b, measure_interval *out,
                                 iter_error *err);

/** Seconds that the fixed loop takes just now. */
double measure_witness(void);

/** A program at the other end of two pipes, started by /bin/sh. */
typedef struct measure_child measure_child;
iter_status measure_child_start(const char *command, measure_child **out, iter_error *err);
/** The child as a side; lives as long as the child. */
measure_side measure_child_side(measure_child *child, const char *name);
/** Sends "quit", closes the pipes and waits for the program to end. NULL is ignored. */
void measure_child_stop(measure_child *child);

#endif
