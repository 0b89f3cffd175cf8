/*
 * verify.h - whether every row comes as often as its sampler promises: with one rank, with several,
 * and after a restart with another number of ranks.
 *
 * Each run goes over all epochs. It notes every row's epoch, position and sample: a byte per sample
 * and a bit per position, for one epoch at a time (with roll_over for all of them, since a batch
 * has rows of several). Two sums compare the runs: one over (epoch, position, sample), one over the
 * rows' contents.
 */
#ifndef VERIFY_H
#define VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include <iter/loader.h>

#include "bench/common/bench_options.h"

#define VERIFY_RUNS     3
#define VERIFY_NAMED    5  /* samples that are named, of each kind */
#define VERIFY_BROKEN   16 /* broken promises that are kept as text */
#define VERIFY_FAILURES 1024

/** How often a sample comes in an epoch. */
typedef enum verify_promise {
    VERIFY_AUTO = 0, /* by the sampler's name */
    VERIFY_ONCE = 1,
    VERIFY_AT_MOST_ONCE = 2,
    VERIFY_DRAWS = 3 /* as in the run with one rank; the sampler promises no counts */
} verify_promise;

typedef struct verify_names {
    uint64_t count;
    uint64_t first[VERIFY_NAMED]; /* as many of them as there are */
} verify_names;

/** What came in one epoch. Rows that only fill up a batch (pad) do not count as rows. */
typedef struct verify_epoch {
    uint64_t rows, pad, failed;
    uint64_t distinct; /* samples */
    uint64_t most;     /* times that one sample came; 255 = so often or more */
    uint64_t left_out; /* samples that last_batch leaves out of this epoch */
    verify_names twice, missing;
    uint64_t positions_twice, positions_missing;
} verify_epoch;

typedef struct verify_run {
    const char *name;
    uint64_t ranks, batch; /* batch: of a rank */
    bool restarts;
    uint64_t restart_at; /* global batches before it */
    uint32_t restart_epoch;
    uint64_t restart_ranks, restart_batch;
    uint64_t n_batches;            /* global ones */
    verify_epoch *epochs;          /* [n_epochs] */
    uint64_t rows, order, content; /* the sums; compared only if is_compared */
    bool is_compared;
} verify_run;

typedef struct verify_result {
    uint64_t n_samples, n_epochs;
    uint64_t n_left_out; /* as in iter_description */
    char left_out[600];
    verify_promise promise;
    char sampler[64];
    int n_runs;
    verify_run runs[VERIFY_RUNS];
    uint64_t n_broken; /* promises; the first ones are in `broken` */
    char broken[VERIFY_BROKEN][200];
    iter_failure failures[VERIFY_FAILURES]; /* of the first run, each sample once */
    size_t n_failures;
} verify_result;

/**
 * Makes all runs.
 *
 *   options  data, chain, ranks, epochs (0 = 1), batch, workers, sampler ..., restart, promise,
 *            fault; on_error does not count: failed rows are blanked and listed
 *
 * Returns    OK, whether or not promises are broken. The caller calls verify_free() in any case.
 * Errors     EUNSUPPORTED (a stream), EINVAL (--restart, --plant), those of loaders, ENOMEM,
 *            ECANCELED (^C).
 */
iter_status verify_make(const bench_options *options, verify_result *out, iter_error *err);
void verify_free(verify_result *result);

const char *verify_promise_text(verify_promise promise);

#endif
