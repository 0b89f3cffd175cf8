/*
 * feed.h - a consumer beside a loader: what feeding it costs.
 *
 * Up to three arms of the same work take turns: the loader alone (it touches every cache line), the
 * consumer alone, and both. The consumer alone replays batches that a loader made, from that
 * loader's slots, at least as many different ones as the measured loader has slots. The consumer is
 * a trainer (--model), or an accelerator that is emulated by sleeping (--compute-ms), as MLPerf
 * Storage does it.
 *
 * If batches go to a GPU, the consumer alone has them copied there again and again, as a loader
 * would. One more arm leaves that out (`resident`): its batches are there already, and nothing
 * travels.
 */
#ifndef BENCH_FEED_H
#define BENCH_FEED_H

#include <iter/convert.h>
#include <iter/engine.h>

#include "bench/common/bench_json.h"
#include "bench/measure/arm.h"
#include "bench/measure/gpu_link.h"

#define FEED_HELD_MAX 64

/** An accelerator that takes compute_ms per batch and wants images in one layout. Batches in the
 * other layout are turned first, as trainers do. */
typedef struct feed_compute {
    iter_convert *convert; /* of a whole batch; NULL until a batch needs it */
    iter_desc from;
    void *turned;
    uint64_t n_converted, convert_ns;
    char text[96];
} feed_compute;

/** Counters of the consumer in timed slices. */
typedef struct feed_count {
    uint64_t samples, cpu_ns;
    double seconds;
} feed_count;

/** Batches that go to a GPU while others are replayed. */
typedef struct feed_copies {
    gpu_link *link; /* NULL = there is no GPU */
    gpu_plain_copy list[FEED_HELD_MAX][ITER_MAX_FIELDS];
    uint32_t n[FEED_HELD_MAX]; /* 0 = nothing of that batch travels */
    bool same;                 /* from slot to device; false: plain copies of the same size */
} feed_copies;

/** The consumer of batches, of any arm. */
typedef struct feed_trainer {
    bench_options options; /* with the chain that the model wants, if none was given */
    char chain[96];
    iter_model *model;     /* NULL = emulated */
    iter_trainer *trainer; /* NULL = emulated */
    feed_compute compute;
    bench_arm replay; /* a loader whose batches are all held */
    iter_batch *held[FEED_HELD_MAX];
    uint32_t n_held, turn;
    /* of replays with copies, and without; on the host there are no copies */
    feed_count alone, resident;
    feed_copies copies;
} feed_trainer;

/**
 * Opens the consumer and the batches to replay.
 *
 *   arrays  if the batches come from an NDArrayIter, its arrays; else NULL
 *
 * Errors  those of dataset, chain, loader and trainer. If it fails, nothing is left open.
 */
iter_status feed_open(const bench_options *options, const bench_arrays *arrays, feed_trainer *out,
                      iter_error *err);
void feed_close(feed_trainer *feed);

/** The options that feed_open() would use: if no chain is given, the model's own. */
iter_status feed_options(const bench_options *options, bench_options *out, char chain[96],
                         iter_error *err);

/** What the consumer spends on turning layouts: batches so far, seconds, and from which layout to
 * which ("" = nothing is turned). */
typedef struct feed_turning {
    uint64_t n_batches;
    double seconds;
    char text[96];
    const char *wants; /* the layout that it wants, e.g. "nchw" */
} feed_turning;
feed_turning feed_turns(const feed_trainer *feed);

/** The consumer alone; and, with a GPU, over batches that are on it already. */
measure_side feed_side(feed_trainer *feed, const char *name);
measure_side feed_resident_side(feed_trainer *feed, const char *name);

/** From now on the arm's batches are trained on instead of touched. */
void feed_from(feed_trainer *feed, bench_arm *arm);

/* feed_model.c: functions that need the trainer. If it was not built, they fail with
 * EUNSUPPORTED. */
iter_status feed_model_chain(const bench_options *options, char chain[96], iter_error *err);
/** Backend, optimiser, threads and seed that a run asks for. */
void feed_model_options(const bench_options *options, iter_trainer_options *out);
iter_status feed_model_open(feed_trainer *feed, iter_error *err);
/** Takes a step, or queues it on a GPU. Queued steps are finished when feed_model_settle()
 * returns. */
iter_status feed_model_take(feed_trainer *feed, iter_batch *batch, iter_error *err);
iter_status feed_model_settle(feed_trainer *feed, iter_error *err);
feed_turning feed_model_turns(const feed_trainer *feed);
void feed_model_close(feed_trainer *feed);
/** Writes name, text, backend, weights and bytes into the open object; number of threads in use. */
void feed_model_json(json_writer *w, const feed_trainer *feed);
uint32_t feed_model_threads(const feed_trainer *feed);

#endif
