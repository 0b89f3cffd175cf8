/*
 * source_step.h - a read as a row of steps, each one system call or one request to a ring.
 *
 * Every source works the same way: plan() tells it the next request, the source makes it, book()
 * takes the answer (bytes, or -errno) and returns how to continue. Short reads, interruptions and
 * the blocks of O_DIRECT are handled in these two, which call nothing, so that a test can give them
 * any answer.
 */
#ifndef ITER_LOADERS_SOURCES_SOURCE_STEP_H
#define ITER_LOADERS_SOURCES_SOURCE_STEP_H

#include <stdbool.h>

#include <iter/ops.h>

/* The alignment that O_DIRECT needs, in powers of two; all 0 = reads go through the page cache,
 * without alignment. */
typedef struct iter__blocks {
    uint32_t offset_align; /* of file offset and length */
    uint32_t memory_align;
    /* the most that one step may read into a bounce buffer; a multiple of offset_align */
    uint32_t bounce_bytes;
    bool in_place; /* a read that has room for its blocks is in place, however small */
} iter__blocks;

typedef enum iter__step_kind {
    ITER_STEP_ONE, /* `length` bytes to `base` */
    /* the same, in whole blocks around the requested bytes */
    ITER_STEP_AROUND,
    ITER_STEP_MANY, /* `length` bytes to the `n_parts` parts at `parts` */
    /* `length` bytes to a buffer of the source, from which book() copies the requested ones */
    ITER_STEP_BOUNCE,
    ITER_STEP_NONE /* nothing is left to read */
} iter__step_kind;

typedef struct iter__source_step {
    iter__step_kind kind;
    int32_t n_parts;
    uint64_t offset; /* in the file */
    size_t length;
    void *base;
    const iter_iovec *parts; /* as struct iovec, which has the same layout */
} iter__source_step;

typedef enum iter__after {
    ITER_AFTER_DONE,  /* read->status is set */
    ITER_AFTER_NEXT,  /* plan the next step */
    ITER_AFTER_AGAIN, /* repeat the request: EINTR, EAGAIN */
    /* -EFAULT or -ECANCELED: the thread that made the request is gone, or cancel() was called */
    ITER_AFTER_LOST
} iter__after;

/* The next step of `read`, from read->done. */
void iter__step_plan(const iter_read *read, const iter__blocks *blocks, iter__source_step *out);

/* Takes the answer to `step`: bytes, or -errno. If the step is a bounce, `bounce` has the bytes,
 * else it may be NULL. */
iter__after iter__step_book(iter_read *read, const iter__source_step *step, const void *bounce,
                            int64_t answer);

/* Ends a read: sets status and os_error. os_error 0 = OK. */
void iter__step_end(iter_read *read, int32_t os_error);

#endif
