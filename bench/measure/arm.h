/*
 * arm.h - one loader under measurement: opened, run by batches, inspected.
 *
 * An arm is all ranks of one run (with --ranks N, N loaders take turns), the consumer of their
 * batches, and its counters.
 */
#ifndef ARM_H
#define ARM_H

#include <iter/loader.h>

#include "bench/common/bench_options.h"
#include "bench/measure/bench_hash.h"
#include "bench/measure/histogram.h"
#include "bench/measure/measure.h"
#include "bench/measure/shuffle_quality.h"

/** A whole set as arrays, for NDArrayIter and for the straight loops. */
typedef struct bench_arrays {
    uint64_t n_rows; /* in the arrays: all samples, or as many as were asked for */
    int32_t n_arrays;
    iter_array arrays[ITER_MAX_FIELDS];
    size_t bytes[ITER_MAX_FIELDS];
    double load_s;
} bench_arrays;

/** Whether rows of a field differ in length, so that a batch of them needs padding (or
 * `ragged`). */
bool bench_rows_vary(const iter_description *set);

/**
 * Reads fields as stored, in order, through a loader without chain. At most `max_bytes` of rows
 * (UINT64_MAX = all of them).
 *
 * Errors  EUNSUPPORTED (a field of variable size, a stream), errors of the loader (a failed sample,
 *         unless on_error is blank), ENOMEM.
 */
iter_status bench_arrays_load(const bench_options *options, uint64_t max_bytes, bench_arrays *out,
                              iter_error *err);
void bench_arrays_free(bench_arrays *arrays);

typedef struct bench_arm {
    const char *name;
    const bench_options *options;
    iter_dataset *dataset; /* NULL for ndarray */
    iter_chain *chain;
    iter_loader **loaders; /* [options->ranks] */
    uint64_t memory_limit;
    uint32_t turn;       /* rank of the next batch */
    uint64_t epochs;     /* finished */
    bool empty_epoch;    /* no batch since the last END */
    uint64_t slots_seen; /* bit i = slot i was seen */

    /* What runs beside the loader; NULL = nothing. */
    bench_hash *hash;
    shuffle_quality *quality;
    struct gpu_link *link; /* to read batches back from a GPU, for the hash */
    /* Takes the batches instead of the touching consumer, e.g. a trainer. */
    iter_status (*take)(void *user, iter_batch *batch, iter_error *err);
    /* Waits for work that `take` has only queued; counted in every run's time. */
    iter_status (*settle)(void *user, iter_error *err);
    void *take_user;

    /* Counted in timed slices. */
    uint64_t samples, batches, bytes, cpu_ns, wait_ns;
    uint64_t copies, copied_bytes; /* to a GPU */
    uint64_t arrive_ns;            /* waiting for batches to arrive; not with `take` */
    double seconds;
    histogram next_ns;

    /* Setup. */
    double open_s, first_batch_s, restore_ms; /* restore_ms NaN = not measured */
    double opened_at;
} bench_arm;

/**
 * Opens dataset, chain and loaders. `arrays` NULL = a DataLoader, else an NDArrayIter over them. If
 * it fails, nothing is left open.
 */
iter_status arm_open(const bench_options *options, const bench_arrays *arrays, bench_arm *out,
                     iter_error *err);
void arm_close(bench_arm *arm);

/** Takes up to n batches, touches them, counts. It takes fewer than n only if --epochs are over;
 * then *out_samples may be 0. */
iter_status arm_run(bench_arm *arm, uint64_t n_batches, bool timed, uint64_t *out_samples,
                    double *out_seconds, iter_error *err);

/** The arm as a side of a comparison: timed runs, and warm-ups that are not counted. */
measure_side arm_side(bench_arm *arm);

/** Takes the first batch; first_batch_s is the time since arm_open(). Not counted unless
 * `timed`. */
iter_status arm_first_batch(bench_arm *arm, bool timed, iter_error *err);

/** If the loader can, restores the position of the epoch's last batch and sets restore_ms; the
 * loader stays at that position. */
void arm_measure_restore(bench_arm *arm);

/** Sums over ranks; source, workers and fallbacks are those of rank 0. */
iter_status arm_stats(const bench_arm *arm, iter_loader_stats *out, iter_error *err);

/** Copies the first `capacity` failures of all ranks; returns how many. */
size_t arm_failures(const bench_arm *arm, iter_failure *out, size_t capacity);

/** Number of slots that batches came in; at least 1. */
uint32_t arm_n_slots(const bench_arm *arm);

#endif
