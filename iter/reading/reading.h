/*
 * reading.h - bytes from the source: one source, one lock, one arena of bytes per loader.
 *
 * The reader's role passes from thread to thread:
 *
 *     no reader --a thread without work wins has_reader--> waits in the source --reaps--> no reader
 *
 * A thread that has work polls instead. Frames (see frames.c) cut the arena into windows of
 * files:
 *
 *     empty --load--> loading --reap--> loaded --its group is done--> spent --load--> loading ...
 *
 * `lock` is taken after loader.lock, never before it. It is held while a source's submit, commit,
 * reap, wake, cancel and drop run, which must not block; never while a read, a decoder or a format
 * runs.
 */
#ifndef ITER_READING_READING_H
#define ITER_READING_READING_H

#include <pthread.h>
#include <stdatomic.h>

#include "iter/runtime/batch.h"

typedef struct iter__worker iter__worker;
typedef struct iter__pool iter__pool;
typedef struct iter__frames iter__frames;

/* A chunk's part of the arena. */
typedef struct iter__region {
    size_t at, bytes;
    bool done;
} iter__region;

/* What reading asks of the runtime: by a table, so that this room does not link back to it. */
typedef struct iter__reading_calls {
    /* iter__rows_make(): makes rows [first, first + n) of a claimed chunk, whose bytes are here. */
    void (*make_rows)(iter__worker *worker, iter_batch *batch, uint32_t first, uint32_t n);
    /* n chunks of the batch ended without being made, because the batch was dropped. */
    void (*end_chunks)(iter__worker *worker, iter_batch *batch, uint32_t n);
    /* Which samples stand at these positions; see iter__sampler_index(). */
    iter_status (*sample_at)(iter_loader *loader, uint32_t epoch, uint64_t position, uint32_t n,
                             uint64_t *out, bool may_wait, iter_error *err);
} iter__reading_calls;

typedef struct iter__reading {
    /* Fixed when the loader is created: */
    const iter__reading_calls *calls;
    const iter_source_ops *ops; /* NULL = nothing is read */
    void *state;
    int32_t source; /* iter_source in use */
    bool async;     /* reads are queued and reaped */
    bool is_open;
    iter__pool *pool; /* threads that make a blocking source asynchronous, or NULL */
    uint8_t *arena;
    size_t arena_bytes;
    uint32_t n_regions;
    iter__frames *frames; /* the arena as windows of files, see frames.c; NULL = there are none */

    /* Guards all members up to the atomics, and the source's submission side. */
    pthread_mutex_t lock;
    size_t arena_head;     /* next free byte: the arena is a ring of regions */
    iter__region *regions; /* in allocation order, region k at [k % n_regions] */
    uint64_t region_first, region_next;
    iter__chunk_read *backlog, *backlog_last; /* not submitted yet, because the source is full */
    iter__chunk_read *dropped; /* of the backlog: they end without having been submitted */
    bool unsent;               /* the last commit left reads in the source */
    bool canceled;

    /* Any thread: */
    atomic_uint releases;   /* regions given back and frames read so far: a change may be space */
    atomic_bool has_reader; /* a thread waits in the source */
    atomic_uint pending;    /* reads that have not completed */
    atomic_int misses;      /* how many more reads skip try_read */
    atomic_ullong path_bytes[ITER_PATH_COUNT];
    atomic_ullong retried;
} iter__reading;

/* ---- reads.c --------------------------------------------------------------------------------- */

/* Issues the reads of a claimed NEW chunk. 1 = its bytes are here, and the caller must make its
 * rows; 0 = in flight, or its batch was dropped; -1 = no space in the arena, the chunk is NEW
 * again. */
int iter__reading_issue(iter__worker *worker, iter__chunk *chunk);
/* As the reader (the caller won has_reader): waits in the source, reaps, gives the role back. */
void iter__reading_wait(iter__worker *worker, int64_t timeout_ns);
/* Reaps the reads that have completed, without waiting. */
void iter__reading_poll(iter__worker *worker);
/* The chunk's bytes are no longer needed. */
void iter__reading_release(iter_loader *loader, iter__chunk *chunk);
void iter__reading_wake(iter_loader *loader); /* makes a waiting reader return */
void iter__reading_cancel(iter_loader *loader);
/* The chunk's batch was dropped: its reads end soon, and are reaped as ever. loader.lock held; the
 * caller wakes the reader. */
void iter__reading_drop(iter_loader *loader, iter__chunk *chunk);
/* The files are cold: workers issue reads before they make rows that are ready. */
bool iter__reading_is_ahead(const iter_loader *loader);
/* Reads a row once more, blocking. *why gets the source's words, or "". */
iter_status iter__reading_row(iter_loader *loader, iter_batch *batch, uint32_t row,
                              iter_read *out_failed, iter_error *why);
/* Adds a read to the backlog. reading.lock held. */
void iter__reading_queue(iter__reading *reading, iter__chunk_read *r);
/* Submits the backlog, as far as the source takes it. reading.lock held. */
void iter__reading_pump(iter__reading *reading);
/* Reads without blocking; true if all of it came. */
bool iter__reading_try(iter__reading *reading, iter_read *read);

/* ---- placed.c -------------------------------------------------------------------------------- */

/* Finds the output whose rows can be read straight to their place, with the layout's placed_head
 * and placed_stride. A head of 0 = there is none. */
void iter__placed_find(const iter__plan *plan, const iter_description *desc, int32_t *out_field,
                       size_t *out_head, size_t *out_stride);
/* Reads rows from `row` on, as long as each follows the one before in the file. Returns how many
 * came and are in their place; the others must be read and decoded. Adds the bytes to
 * path_bytes. */
uint32_t iter__placed_run(iter__worker *worker, iter_batch *batch, uint32_t row, uint32_t end,
                          uint64_t path_bytes[ITER_PATH_COUNT]);

/* ---- frames.c -------------------------------------------------------------------------------- */

size_t iter__frames_books_bytes(uint32_t n);
iter_status iter__frames_create(iter_loader *loader, iter_error *err);
/* As iter__reading_issue(), except that after -1 the caller must put the chunk back. */
int iter__frames_issue(iter_loader *loader, iter__chunk *chunk);
/* With reading.lock held. loaded: returns the rows that waited for the frame, by `next`. */
void iter__frames_release(iter_loader *loader, iter__chunk *chunk);
iter__chunk_read *iter__frame_loaded(iter_loader *loader, iter__chunk_read *r);
/* The first frame that a WAITING chunk waits for: its read, and since when. loader.lock held. */
bool iter__frames_awaited(iter_loader *loader, const iter__chunk *chunk, iter__chunk_read *out,
                          int64_t *out_issued_ns);
void iter__frames_read_ahead(iter_loader *loader);

/* ---- pool.c ---------------------------------------------------------------------------------- */

/* Wraps a blocking source; afterwards ops and state are the pool's. */
iter_status iter__pool_create(iter_loader *loader, uint32_t depth, iter_error *err);
void iter__pool_free(iter__reading *reading);

#endif
