/*
 * cut.h - cuts epochs into batches: pure arithmetic on (epoch, samples), without a loader.
 *
 * Global batch g of an epoch is rows [gG, (g+1)G); rank r of R gets rows [floor(r m / R),
 * floor((r+1) m / R)) of a batch with m rows. If shares are whole micro-batches, of which there are
 * M: micro-batch k is rows [floor(k m / M), floor((k+1) m / M)), and rank r gets the micro-batches
 * [floor(r M / R), floor((r+1) M / R)). That is the same if R divides M. Under roll_over the rows
 * of all epochs form one sequence t = 0, 1, ... and batch g of the whole run belongs to the epoch e
 * with floor(eN/G) <= g < floor((e+1)N/G).
 */
#ifndef ITER_PLAN_CUT_H
#define ITER_PLAN_CUT_H

#include <iter/loader.h>

typedef struct iter__cut {
    uint64_t n;      /* samples of an epoch; ITER_UNKNOWN = the sampler or stream decides */
    uint64_t global; /* G */
    uint32_t rank, ranks;
    uint32_t micro_batches; /* M; 0 = shares begin at any row */
    int32_t last_batch;     /* iter_last_batch, never DEFAULT */
} iter__cut;

/* A place between two batches. */
typedef struct iter__cursor {
    uint32_t epoch;
    uint64_t sample; /* of the epoch; under roll_over t, of the whole run */
    bool ended;      /* no batch of the epoch is left */
} iter__cursor;

/* One global batch, and this rank's share of it. */
typedef struct iter__span {
    uint32_t epoch;
    uint64_t number; /* within the epoch */
    uint64_t start;  /* first row of the share: position in the epoch, or t under roll_over */
    uint32_t n_rows; /* of the share */
    uint32_t n_valid, first_valid, pad; /* of the share; pad = n_rows - n_valid */
    uint32_t first_row, global_rows;    /* where the share begins in the batch; rows of all ranks */
} iter__span;

/* Writes the batch at `cursor` to *out. Returns false if the epoch has none left. */
bool iter__cut_batch(const iter__cut *cut, const iter__cursor *cursor, iter__span *out);

/* The cursor after the batch at `cursor`, which must exist. */
iter__cursor iter__cut_after(const iter__cut *cut, const iter__cursor *cursor);

/* The cursor at the beginning of `epoch`. */
iter__cursor iter__cut_epoch(const iter__cut *cut, uint32_t epoch);

/* Batches of `epoch`. */
uint64_t iter__cut_n_batches(const iter__cut *cut, uint32_t epoch);

/* The cursor for (epoch, sample, ended). Fails with EINVAL if that is no place between two batches;
 * the error names the nearest one, or the last epoch there is. Under roll_over, `sample` is t, and
 * the epoch follows from t; `epoch` only decides between an epoch and empty ones that begin at the
 * same t. */
iter_status iter__cut_place(const iter__cut *cut, uint32_t epoch, uint64_t sample, bool ended,
                            iter__cursor *out, iter_error *err);

/* Epoch and position of row `row` of a span. */
void iter__cut_row(const iter__cut *cut, const iter__span *span, uint32_t row, uint32_t *out_epoch,
                   uint64_t *out_position);

/* The most rows that a rank's share of m <= global rows has. */
uint64_t iter__cut_largest_share(uint64_t global, uint32_t ranks, uint32_t micro_batches);

/* This rank's share [*out_first, *out_first + result) of m rows. */
uint32_t iter__cut_share(const iter__cut *cut, uint64_t m, uint64_t *out_first);

#endif
