/*
 * opener.h - which samples the next batch has: asked outside of every lock, committed under one.
 *
 * One thread at a time opens a batch, in the order of batches:
 *
 *     begin    loader.lock   takes a slot, copies where the opener stands, marks it busy
 *     open     no lock       asks the sampler, then the format where the bytes are
 *     commit   loader.lock   queues the batch and moves the opener on, unless the loader went elsewhere
 *                            meanwhile (`moves` differs): then the slot is given back
 *
 * So a sampler or a format that hangs keeps one worker, and no call of the consumer: timeouts,
 * cancel, stop, save and statistics need loader.lock alone.
 *
 * `sampler_lock` is held during the calls of a sampler, because calls of one state come one at a
 * time; restoring holds it until the loader went to the place that the sampler was restored to. It
 * is taken before loader.lock, never while that is held.
 */
#ifndef ITER_RUNTIME_OPENER_H
#define ITER_RUNTIME_OPENER_H

#include <pthread.h>
#include <stdatomic.h>

#include "iter/plan/cut.h"
#include "iter/runtime/batch.h"

typedef struct iter__worker iter__worker;

/* Where the opener stands. Guarded by loader.lock, but for what says otherwise. */
typedef struct iter__opener {
    iter__cursor at;     /* where the next batch is opened */
    bool busy;           /* a thread is between begin and commit */
    bool wanted;         /* a worker went to sleep because it was */
    bool epoch_begun;    /* sequential, streams: begin() or rewind() is done for at.epoch */
    bool any;            /* a batch of at.epoch was opened */
    bool done;           /* after the last of opt.epochs */
    bool stream_busy;    /* a stream's batch is being made: its length decides what comes next */
    bool stream_ended;   /* the stream has no more samples in this epoch */
    uint64_t number;     /* sequential, streams: batches opened in this epoch */
    uint64_t replay;     /* sequential: batches to draw and forget; streams: samples to skip */
    uint64_t n_opened;   /* batches so far */
    atomic_ullong moves; /* seeks, restores and resets so far; written under loader.lock */
    pthread_mutex_t sampler_lock;
    uint64_t *drawn; /* sequential: [G] the global batch as it was drawn; guarded by sampler_lock */
} iter__opener;

/* One batch on its way from begin to commit; its thread's alone. */
typedef struct iter__opening {
    iter_batch *batch;
    uint64_t moves;
    iter__cursor at, after; /* of the batch */
    uint64_t number, replay;
    bool epoch_begun; /* before, and after */
    bool ends;        /* there is no batch: the epoch ends here */
    iter__span span;
} iter__opening;

/* What a saved position says to an order. */
typedef struct iter__place {
    iter__cursor at;
    uint64_t number;       /* batches taken in the epoch */
    uint64_t global_batch; /* of the loader that saved it */
    const uint8_t *state;  /* the sampler's */
    size_t state_bytes;
} iter__place;

/* How batches follow one another: by position, as a sampler draws them, or as a stream comes. */
typedef struct iter__order {
    bool by_position; /* any place is as cheap as the next, and an epoch's end is known ahead */
    bool is_stream;
    /* Without a lock: fills in span, after and the batch's rows, or `ends`. What goes wrong is the
     * batch's status. */
    void (*open)(iter_loader *loader, iter__opening *opening);
    /* Goes to a saved place, without a lock; on an error to the beginning of its epoch. */
    iter_status (*restore)(iter_loader *loader, const iter__place *place, iter_error *err);
} iter__order;

/* order.c. sampler_index: which samples stand at these positions of one epoch, by a pure sampler.
 * EINVAL if one does not exist; AGAIN if another thread is in the sampler and this one may not
 * wait. */
iter_status iter__sampler_index(iter_loader *loader, uint32_t epoch, uint64_t position, uint32_t n,
                                uint64_t *out, bool may_wait, iter_error *err);
const iter__order *iter__order_of(const iter_sampler_ops *sampler, bool is_stream);

/* open.c. may: whether a batch is to be opened, given a slot. next: begin, open and commit, with
 * loader.lock held, which is released in between. */
bool iter__may_open(const iter_loader *loader);
void iter__open_next(iter_loader *loader, iter__worker *worker);

#endif
