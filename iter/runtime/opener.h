/*
 * opener.h - which samples the next batch has: asked without loader.lock, committed under it.
 *
 * One thread at a time opens a batch, in the order of batches:
 *
 *     begin    loader.lock   takes a slot, copies the opener's place, marks it busy
 *     open     no lock       asks the sampler which samples, then the format where their bytes are
 *     commit   loader.lock   queues the batch and advances the opener. If the loader went elsewhere
 *                            since begin (`moves` differs), gives the slot back instead.
 *
 * If a sampler or a format hangs, it blocks the worker that opens, but not the consumer: timeouts,
 * cancel, stop, save and statistics need loader.lock alone. Only the restore of a sequential
 * sampler waits for it, at most faults.timeout_ms.
 *
 * `sampler_lock` is held during the calls of a sampler, because a sampler's state takes one call at
 * a time. A restore holds it until the loader is at the place that the sampler was restored to. It
 * is taken before loader.lock, never while that is held.
 */
#ifndef ITER_RUNTIME_OPENER_H
#define ITER_RUNTIME_OPENER_H

#include <pthread.h>
#include <stdatomic.h>

#include "iter/plan/cut.h"
#include "iter/runtime/batch.h"

typedef struct iter__worker iter__worker;

/* The opener's place. Guarded by loader.lock, except the members that say otherwise. */
typedef struct iter__opener {
    iter__cursor at;     /* where the next batch is opened */
    bool busy;           /* a thread is between begin and commit */
    bool wanted;         /* a worker went to sleep while it was busy */
    bool epoch_begun;    /* sequential, streams: at.epoch has had its begin() or rewind() */
    bool any;            /* a batch of at.epoch was opened */
    bool done;           /* after the last of opt.epochs */
    bool stream_busy;    /* a stream's batch is being made; the next needs its length */
    bool stream_ended;   /* the stream has no more samples in this epoch */
    uint64_t number;     /* sequential, streams: batches opened in this epoch */
    uint64_t replay;     /* sequential: batches to draw and discard; streams: samples to skip */
    uint64_t n_opened;   /* batches so far */
    atomic_ullong moves; /* how often the loader went elsewhere; written under loader.lock */
    pthread_mutex_t sampler_lock;
    uint64_t *drawn; /* sequential: [G] the global batch that was drawn; guarded by sampler_lock */
} iter__opener;

/* One batch from begin to commit. Only its thread uses it. */
typedef struct iter__opening {
    iter_batch *batch;
    uint64_t moves;
    iter__cursor at, after; /* of the batch */
    uint64_t number, replay;
    bool epoch_begun; /* as in iter__opener: in and out */
    bool ends;        /* the epoch has no more batches */
    iter__span span;
    int64_t opened_ns; /* when the open step ended */
} iter__opening;

/* What an order needs of a saved position. */
typedef struct iter__place {
    iter__cursor at;
    uint64_t number;       /* batches taken in the epoch */
    uint64_t global_batch; /* of the loader that saved it */
    const uint8_t *state;  /* the sampler's */
    size_t state_bytes;
} iter__place;

/* How batches follow one another: by position, as a sampler draws them, or in a stream's order. */
typedef struct iter__order {
    bool by_position; /* all places cost the same, and an epoch's end is known ahead */
    bool is_stream;
    /* Without a lock: sets span, after and the batch's rows, or `ends`. An error is the batch's
     * status. */
    void (*open)(iter_loader *loader, iter__opening *opening);
    /* Called without a lock: goes to a saved place. If the sampler fails, the loader is at the
     * beginning of the place's epoch; on any other error it stays as it was. */
    iter_status (*restore)(iter_loader *loader, const iter__place *place, iter_error *err);
} iter__order;

/* ---- order.c --------------------------------------------------------------------------------- */

/* The samples at n positions of one epoch, from a pure sampler, as get() is asked for them. Takes
 * sampler_lock. EINVAL: the sampler returned one that does not exist. AGAIN: another thread is in
 * the sampler, and the caller must not wait. */
iter_status iter__sampler_index(iter_loader *loader, uint32_t epoch, uint64_t position, uint32_t n,
                                uint64_t *out, bool may_wait, iter_error *err);
/* Sets the samples of rows [row, row + n) from what get() is asked for. */
void iter__batch_ask(const iter_loader *loader, iter_batch *batch, uint32_t row, uint32_t n);
const iter__order *iter__order_of(const iter_sampler_ops *sampler, bool is_stream);

/* ---- open.c ---------------------------------------------------------------------------------- */

/* Whether a batch may be opened, given a free slot. loader.lock held. */
bool iter__may_open(const iter_loader *loader);
/* Begin, open and commit. loader.lock held; released in between. */
void iter__open_next(iter__worker *worker);

#endif
