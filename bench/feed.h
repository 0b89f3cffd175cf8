/*
 * feed.h - a trainer beside a loader: what feeding it costs.
 *
 * Up to three ways of the same work, to be measured in turns: the loader alone (its consumer
 * touches every cache line), the trainer alone (it replays batches that a loader made, at least as
 * many different ones as that loader has slots, out of those slots), and both.
 */
#ifndef BENCH_FEED_H
#define BENCH_FEED_H

#include <iter/engine.h>

#include "arm.h"

#define FEED_HELD_MAX 64

/** What trains, whatever feeds it. */
typedef struct feed_trainer {
    bench_options options; /* with the chain that the model wants, if none was given */
    char chain[96];
    iter_model *model;
    iter_trainer *trainer;
    bench_arm replay; /* a loader whose batches are all held */
    iter_batch *held[FEED_HELD_MAX];
    uint32_t n_held, turn;
    uint64_t samples, cpu_ns; /* in timed replays */
    double seconds;
} feed_trainer;

/**
 * Opens model, trainer and the batches to replay.
 *
 *   arrays  where the batches come from an NDArrayIter, else NULL
 *
 * Errors  what dataset, chain, loader and trainer answer. When this fails, nothing is left open.
 */
iter_status feed_open(const bench_options *options, const bench_arrays *arrays, feed_trainer *out,
                      iter_error *err);
void feed_close(feed_trainer *feed);

/** The options that feed_open() would work with: the chain is the model's where none is given. */
iter_status feed_options(const bench_options *options, bench_options *out, char chain[96],
                         iter_error *err);

/** The trainer alone. */
measure_side feed_side(feed_trainer *feed, const char *name);

/** From here on the arm's batches are trained on instead of touched. */
void feed_from(feed_trainer *feed, bench_arm *arm);

#endif
