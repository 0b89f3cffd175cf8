/*
 * chaos_case.h - a case of a chaos run: a setting, which alone decides what batches contain, and
 * the batches of a plain run with it.
 *
 * A setting comes in a few shapes (batch_size, rank, ranks). They share the order of samples, so a
 * position saved with one can be restored with another.
 */
#ifndef TESTS_SUPPORT_CHAOS_CASE_H
#define TESTS_SUPPORT_CHAOS_CASE_H

#include <pthread.h>
#include <stdio.h>

#include "tests/support/chaos_sets.h"

#define CHAOS_SHAPES 3
#define CHAOS_EPOCHS 3
#define CHAOS_MOST   64 /* batches of an epoch that are known */

typedef struct chaos_batch {
    iter_status status;   /* of next(): OK or the batch's error */
    uint64_t hash;        /* of everything in the batch, or of the error's message */
    uint32_t after_epoch; /* iter_loader_position() afterwards */
    uint64_t after_sample;
} chaos_batch;

typedef struct chaos_epoch {
    uint32_t n; /* batches known, counted from the first */
    bool whole; /* END comes after them */
    chaos_batch batches[CHAOS_MOST];
} chaos_epoch;

typedef struct chaos_shape {
    uint32_t batch_size, rank, ranks;
    bool known; /* guarded by chaos_case.lock */
    chaos_epoch epochs[CHAOS_EPOCHS];
} chaos_shape;

typedef struct chaos_case {
    const chaos_set *set;
    const char *chain_text;
    iter_chain *chain;       /* NULL = none */
    char sampler[64];        /* "" = by opt.shuffle */
    iter_loader_options opt; /* only what decides the content; the rest is zero */
    uint64_t *subset;
    uint64_t n_samples;             /* of an epoch, or ITER_UNKNOWN; set with the first shape */
    bool by_position, rolls, zeros; /* zeros: ITER_SOURCE_NULL */
    chaos_shape shapes[CHAOS_SHAPES];
    pthread_mutex_t lock;
    uint64_t n_plain; /* batches of plain runs */
} chaos_case;

/* Draws a setting over one of the given sets. No other thread may use it yet. */
void chaos_case_draw(chaos_case *out, const chaos_set *sets, uint32_t n_sets, uint64_t *rng);
void chaos_case_free(chaos_case *c);

/* Prints the setting in one line. */
void chaos_case_print(const chaos_case *c, FILE *file);

/* What a plain run delivers: no workers, plain reads, no events. If `beat` is not NULL, it is
 * called now and then. Shape 0 must be asked for first, before other threads exist; after that any
 * thread may ask. */
const chaos_shape *chaos_case_expect(chaos_case *c, uint32_t shape, void (*beat)(void));

/* Whether an expectation failed in this file: each file counts its own. */
bool chaos_case_failed(void);

/* Hashes everything in a batch except the number of its slot. */
uint64_t chaos_hash(const iter_batch *batch);
uint64_t chaos_hash_error(const iter_error *err);

/* Numbers batch `number` of `epoch` among the batches of all epochs and finds the sample to seek to
 * for it. Returns false if seek() cannot go there. */
bool chaos_case_sample_of(const chaos_case *c, const chaos_shape *shape, uint32_t epoch,
                          uint32_t number, uint64_t *out);

#endif
