/*
 * worker.h - a worker: its memory and states, what it does just now, and the rows that it makes.
 *
 * One thread's loop, in worker.c:
 *
 *     find work --chunk--> issue its reads | make its rows --> find work ...
 *         |
 *         +--nothing--> wait in the source | wait for a slot on a GPU | sleep on loader.work
 *
 * With `workers` 0 the consumer's thread runs the same loop inside next(), as worker 0. Everything
 * in iter__worker belongs to its thread, except the members that say otherwise.
 */
#ifndef ITER_RUNTIME_WORKER_H
#define ITER_RUNTIME_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "iter/runtime/batch.h"

/* ---- What a thread does just now ------------------------------------------------------------- */

/* For timeouts and observers. Written by its thread alone, read by any, all of it relaxed: an
 * observer may see members that are a moment apart. */
typedef struct iter__activity {
    atomic_int stage;             /* number of a stage: one of these, or one of the plan's steps */
    atomic_int slot;              /* of the batch that it works on, from 1; 0 = none */
    atomic_ullong index;          /* sample, or ITER_UNKNOWN */
    atomic_ullong object, offset; /* where its bytes begin; object ITER_UNKNOWN = nowhere */
    atomic_llong since_ns; /* when it began; without a watchdog, when its chunk or wait did */
} iter__activity;

enum {
    ACTIVITY_IDLE,
    ACTIVITY_WAIT_BYTES,
    ACTIVITY_WAIT_SLOT,
    ACTIVITY_WAIT_TURN,
    ACTIVITY_OPEN, /* from here on it works */
    ACTIVITY_READ,
    ACTIVITY_GET,
    ACTIVITY_DECODE,
    ACTIVITY_BATCH,
    ACTIVITY_FIXED /* the plan's steps follow, see activity.c */
};

/* ---- Its memory ------------------------------------------------------------------------------ */

/* Memory that grows to the largest picture so far. */
typedef struct iter__growing {
    uint8_t *data;
    size_t bytes;
} iter__growing;

#define ITER_GROWING 3 /* an image, what a step makes of it, scratch */

/* An image on its way through steps that take any size. */
typedef struct iter__picture {
    iter_tensor image; /* dense */
    int32_t buffer;    /* which of the worker's growing buffers holds it; -1 = none */
    bool wished;       /* it is the part that the next step wants; rng is as its wish left it */
    iter_rng rng;      /* of the next step */
    int32_t n_steps;   /* that were done while it was decoded: 0 to 2 */
} iter__picture;

struct iter__worker {
    iter_loader *loader;
    int32_t number;
    pthread_t thread;
    clockid_t cpu_clock;
    /* Guarded by loader.lock: it was started and not joined; it left its loop; it was let go. */
    bool running, gone, detached;
    uint8_t *memory; /* step buffers, staging, scratch, in one block */
    uint8_t *step[2], *staging, *scratch, *batch_scratch;
    uint8_t *hot;          /* [layout.hot_bytes] rows that are read and made at once */
    uint32_t staging_rows; /* rows that one get() is asked for */
    int32_t *get_lengths;  /* [n_fields * staging_rows] */
    iter_rng *rng;         /* [staging_rows] */
    iter__growing growing[ITER_GROWING];
    /* the batch that it found its last chunk in; it claims chunks there without a lock */
    iter_batch *current;
    void **transform_states; /* [plan.n_states] */
    void **decoder_states;   /* [n_decodings * n_fields] of the dataset */
    void *user_state;
    unsigned alloc_refused; /* iter__alloc_refused() when it began these rows */
    bool begun;             /* the user's start() has run */
    iter__activity activity;
    atomic_int tid; /* the kernel's number of its thread; 0 = not the loader's thread */
    atomic_ullong busy_ns, wait_bytes_ns, wait_slot_ns, chunks, bytes;
};

/* How to decode a field of one sample. */
typedef struct iter__decoder_use {
    const iter_decoder_ops *ops;
    const void *shared;
    void *state;
} iter__decoder_use;

/* ---- worker.c -------------------------------------------------------------------------------- */

typedef enum iter__work { ITER_WORK_NONE, ITER_WORK_DONE, ITER_WORK_WAITED } iter__work;
/* One unit of work. If there is none: waits at most timeout_ns (< 0: for ever) in the source as the
 * reader, or for a slot that a GPU reads; else sleeps, if it may. NONE = there was nothing to do or
 * to wait for, or the loader stops. */
iter__work iter__work_once(iter__worker *worker, bool may_sleep, int64_t timeout_ns);
/* create: their memory and states. run: their threads. */
iter_status iter__workers_create(iter_loader *loader, iter_error *err);
iter_status iter__workers_run(iter_loader *loader, iter_error *err);

/* ---- worker_state.c -------------------------------------------------------------------------- */

iter_status iter__worker_start(iter__worker *worker, iter_error *err); /* memory, states */
void iter__worker_stop(iter__worker *worker);
iter_status iter__worker_begin(iter__worker *worker, iter_error *err); /* the user's start() */
void iter__worker_end(iter__worker *worker);

/* ---- work.c ---------------------------------------------------------------------------------- */

/* A claimed chunk whose bytes are here: from CLAIMED to DONE. */
void iter__chunk_work(iter__worker *worker, iter__chunk *chunk);
/* n chunks of the batch are DONE; the last one runs the batch stages and publishes the batch. */
void iter__chunk_done(iter__worker *worker, iter_batch *batch, uint32_t n_chunks);

/* ---- rows.c ---------------------------------------------------------------------------------- */

/* Makes rows [first, first + n) of one chunk. */
void iter__rows_make(iter__worker *worker, iter_batch *batch, uint32_t first, uint32_t n);
/* Makes rows of a stream's next batch. Returns how many there were; batch->status tells an
 * error. */
uint32_t iter__rows_stream(iter__worker *worker, iter_batch *batch, iter_error *err);
/* Replaces or blanks failed rows, as on_error says. */
void iter__rows_mend(iter__worker *worker, iter_batch *batch, uint32_t first, uint32_t n);

/* ---- picture.c ------------------------------------------------------------------------------- */

void iter__pictures_free(iter__worker *worker);
/* The random numbers of a step for one row. */
iter_rng iter__step_rng(const iter_loader *loader, const iter_batch *batch, uint32_t row,
                        const iter__step *step);
/* An image that lies somewhere, dense and not to be changed. */
void iter__picture_lies(iter__picture *p, const iter_desc *desc, const void *data);

/* One row of one field on its way: what its steps need to know. */
typedef struct iter__row {
    iter__worker *worker;
    iter_batch *batch;
    const iter__field_plan *field;
    uint32_t row;
} iter__row;

/* Decodes what the field's first step wants. If the step takes rows as they come, the step is done,
 * and so is a pack after it: outs[] are what the first two steps write to. */
iter_status iter__picture_decode(const iter__row *at, const uint8_t *bytes, size_t size,
                                 void *const outs[2], iter__picture *out, iter_error *err);
/* A sized step over p, into `out`, or, if that is NULL, into a growing buffer. p->rng is set. */
iter_status iter__picture_step(iter__worker *worker, const iter__step *step, void *out,
                               iter__picture *p, iter_error *err);

#endif
