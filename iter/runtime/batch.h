/*
 * batch.h - a batch, its rows and its chunks.
 *
 * A batch, changed under loader.lock by open.c, work.c, loader.c, batch.c and device_slots.c:
 *
 *     FREE --open--> OPENING --commit--> OPEN --last chunk--> READY --next()--> HELD --unref--+
 *      ^                |                 |                     |                             |
 *      |                +-- the loader went elsewhere --+-------+ dropped by reset, seek,     |
 *      |                                                |         restore                     |
 *      +------------------------------------------------+-- RELEASED: a GPU still reads it <--+
 *
 * A dropped batch that is OPEN becomes FREE when the last of its chunks is DONE. A slot also goes
 * from OPENING to FREE if the epoch has no more batches, and from READY to FREE if its batch
 * failed. A batch without rows, a view, or a batch whose opening failed goes from OPENING to
 * READY.
 *
 * A chunk is a run of rows that one thread makes. Its state is an atomic:
 *
 *     NEW --claim--> CLAIMED --issued--> WAITING --last read--> READY --claim--> CLAIMED --> DONE
 *      ^                |                                          ^
 *      +-- no space ----+          (bytes that need no read) ------+
 *
 * NEW and READY are left by compare-and-swap alone, so claiming takes no lock. The winner sees the
 * rows, because the store that made the chunk NEW or READY is a release. If all reads completed
 * while they were issued, the issuing thread takes the chunk from WAITING back to CLAIMED. A chunk
 * of a dropped batch goes from NEW, READY or WAITING to DONE.
 */
#ifndef ITER_RUNTIME_BATCH_H
#define ITER_RUNTIME_BATCH_H

#include <stdatomic.h>

#include <iter/loader.h>

#include "iter/device/device.h"
#include "iter/plan/cut.h"
#include "iter/plan/plan.h"

#define ITER_SAMPLER_BLOB 256
#define ITER_STREAMS_MAX  8 /* that may release a batch */

/* ---- Rows ------------------------------------------------------------------------------------ */

/* What became of a row. A row that on_error blanks stays FAILED: iter__batch_judge() lets it pass.
 * The thread that reaps a read makes a FINE row MISSING. All else is done by the thread that works
 * on the row's chunk: MISSING becomes FINE if the second read brings the bytes, else FAILED; FAILED
 * becomes REPLACED if another sample takes its place. */
typedef enum iter__row_state {
    ROW_FINE,
    ROW_MISSING, /* its bytes did not come: they are read once more */
    ROW_FAILED,
    ROW_LACKING, /* the process lacked something, not the sample: on_error does not apply */
    ROW_REPLACED /* failed, and another sample has its place */
} iter__row_state;

/* Why a row failed, see failures.c. */
typedef struct iter__row_failure {
    struct iter__row_failure *next; /* the next row's */
    uint32_t row;
    iter_failure failure;
} iter__row_failure;

/* ---- Chunks ---------------------------------------------------------------------------------- */

enum { CHUNK_DONE = 0, CHUNK_NEW, CHUNK_WAITING, CHUNK_READY, CHUNK_CLAIMED };

/* All members but the atomics belong to the thread that claimed the chunk. */
typedef struct iter__chunk {
    atomic_int state;
    uint32_t first, n;           /* rows of the batch */
    uint32_t n_made;             /* of them, those that were made while the reads were issued */
    atomic_int reads_left;       /* completions to come, plus one while reads are being issued */
    uint32_t n_reads;            /* at reads[first * n_extents] of its batch */
    uint64_t region;             /* number of its region in the arena, from 1; 0 = none */
    int64_t issued_ns;           /* when its reads were issued; 0 = frames, and not profiling */
    iter__row_failure *failures; /* of its rows that failed, in their order */
    struct iter_batch *batch;
} iter__chunk;

typedef struct iter__frame iter__frame;

/* One read of a chunk: rows [first_row, first_row + n_rows) of the batch, extent e of each. */
typedef struct iter__chunk_read {
    iter_read read; /* first: reap() hands it back */
    iter__chunk *chunk;
    uint32_t first_row, n_rows;
    int32_t extent;
    iter__frame *frame; /* the frame that it fills, or that its row lies in; NULL = none */
    struct iter__chunk_read *next; /* backlog; guarded by reading.lock */
    bool submitted;                /* and not reaped; guarded by reading.lock */
    iter_iovec part;               /* the single target, if there is one */
    uint64_t sample;               /* index of its first row, for an observer */
    atomic_bool completed;         /* for an observer, too */
} iter__chunk_read;

/* ---- Batches --------------------------------------------------------------------------------- */

typedef enum iter__batch_state {
    BATCH_FREE,
    BATCH_OPENING,
    BATCH_OPEN,
    BATCH_READY,
    BATCH_HELD,
    BATCH_RELEASED
} iter__batch_state;

/* A slot as a GPU's streams see it; all zero if slots are plain host memory. Changed by
 * device_slots.c. */
typedef struct iter__slot_device {
    iter_tensor *tensors;        /* [n_fields] in the twin, or NULL */
    iter__device_event *arrived; /* after the copies of the batch */
    iter__device_event *released[ITER_STREAMS_MAX];
    atomic_uint marked; /* bit i: released[i] was marked and is not known to have passed */
    atomic_uintptr_t streams[ITER_STREAMS_MAX]; /* 1 + the stream that marked it; 0 = none yet */
    atomic_bool arrives;                        /* `arrived` was marked, and may not have passed */
} iter__slot_device;

struct iter_batch {
    /* Fixed when the loader is created: */
    iter_loader *loader;
    uint32_t slot;
    uint8_t *memory;
    iter__chunk *chunks;
    iter_extent *extents;    /* [batch_size * n_extents] */
    const uint8_t **bytes;   /* [batch_size * n_extents] where each extent's bytes are */
    iter__chunk_read *reads; /* [batch_size * n_extents] */

    /* Written by the thread that opens the batch; read-only from OPEN on: */
    uint64_t *index, *position;
    uint64_t *asked; /* what get() is asked for: `index`, or with epochs above it */
    uint32_t *row_epoch;
    atomic_uint n_chunks; /* atomic for an observer of a batch that ends meanwhile */
    int64_t opened_ns;
    uint64_t serial; /* of the loader's opened batches, from 1 */
    bool rewinds;    /* streams: this batch begins an epoch */
    uint64_t skip;   /* streams: samples to read and forget before the first row */
    bool is_view;    /* its tensors point into the set, see stored_rows.c */

    /* Written by the threads that make it, each its own rows; then by the one that ends it: */
    iter_tensor tensors[ITER_MAX_OUT];
    uint8_t *valid;
    int32_t *lengths[ITER_MAX_OUT];
    iter_batch_info info;
    iter_status status;
    iter_error error;
    atomic_uchar *row_state; /* [batch_size] iter__row_state */
    atomic_uint n_nodes;     /* reasons that its chunks hold */
    atomic_uint chunks_left;

    atomic_uint refs;
    int64_t taken_ns; /* by next(), while the profiler was on; else 0 */
    iter__slot_device device;

    /* Guarded by loader.lock: */
    iter__batch_state state;
    atomic_bool dropped;   /* also read when the last chunk ends: some may not have been made */
    iter_batch *next_free; /* or the next released one */
    int32_t writer;        /* number of the worker that opened it last, from 1; 0 = none yet */
    iter__cursor after;    /* the position once it is taken */
    uint8_t sampler_after[ITER_SAMPLER_BLOB];
    size_t sampler_after_bytes;
};

/* ---- batch.c --------------------------------------------------------------------------------- */

iter_status iter__batches_create(iter_loader *loader, iter_error *err);
void iter__batches_free(iter_loader *loader);
iter_status iter__slots_map(iter_loader *loader, iter_error *err); /* once; page-locked, if asked */
/* Puts it on the free list; may wake a worker that waits for a slot. loader.lock held. */
void iter__batch_give_back(iter_batch *batch);

/* ---- failures.c ------------------------------------------------------------------------------ */

/* By the thread that works on the row's chunk, except _miss(): by any that reaps. */
static inline iter__row_state iter__row_state_get(const iter_batch *batch, uint32_t row) {
    return (iter__row_state)atomic_load_explicit(&batch->row_state[row], memory_order_relaxed);
}
/* The row is not worked on any more. */
static inline bool iter__row_failed(const iter_batch *batch, uint32_t row) {
    const iter__row_state state = iter__row_state_get(batch, row);
    return state == ROW_FAILED || state == ROW_LACKING;
}
void iter__row_set(iter_batch *batch, uint32_t row, iter__row_state state);
void iter__row_miss(iter_batch *batch, uint32_t row); /* its bytes did not come */
/* Records why a row failed: stage, sample, file. */
void iter__row_fail(iter_loader *loader, iter_batch *batch, uint32_t row, iter_status status,
                    const char *stage, const char *reason);
/* The same if the process lacks something: then the batch fails, whatever on_error is. */
void iter__row_lacks(iter_loader *loader, iter_batch *batch, uint32_t row, iter_status status,
                     const char *stage, const char *reason);
bool iter__is_lack(int os_error); /* whether errno tells such a lack */
void iter__row_fail_as(iter_batch *batch, uint32_t row, const iter_failure *why);
iter_failure iter__row_reason(const iter_batch *batch, uint32_t row); /* why it failed */
/* The batch's status, by its rows, once all are made. */
void iter__batch_judge(iter_loader *loader, iter_batch *batch);
/* Into the consumer's list. loader.lock held. */
void iter__failures_book(iter_loader *loader, const iter_batch *batch);
void iter__failures_clear(iter_batch *batch); /* frees the reasons */
/* Notes what was asked for and is not used, and why, once. While the loader is created; afterwards
 * loader.lock must be held. */
void iter__fallback(iter_loader *loader, const char *text);

#endif
