/*
 * source_step.h - a read as a row of steps, each one system call or one request to a ring.
 *
 * Every source goes the same way: plan() says what to ask of the system next, the source asks,
 * book() takes the answer (bytes, or -errno) and says what comes then. Short reads, interruptions
 * and the blocks of O_DIRECT are handled in these two, which call nothing, so that a test can give
 * them any answer.
 */
#ifndef LOADERS_SOURCE_STEP_H
#define LOADERS_SOURCE_STEP_H

#include <stdbool.h>

#include <iter/ops.h>

/* What O_DIRECT asks of offsets, lengths and addresses; all 0 = the page cache serves, nothing is
 * asked. Powers of two. */
typedef struct iter__blocks {
    uint32_t offset_align; /* of file offset and length */
    uint32_t memory_align;
    /* the most that one step may read into a bounce buffer; a multiple of offset_align */
    uint32_t bounce_bytes;
    bool in_place; /* whatever has room for its blocks is read in place, however small */
} iter__blocks;

typedef enum iter__step_kind {
    ITER_STEP_ONE,    /* `length` bytes to `base` */
    ITER_STEP_AROUND, /* likewise, in whole blocks around what was asked for */
    ITER_STEP_MANY,   /* `length` bytes to the `n_parts` parts at `parts` */
    ITER_STEP_BOUNCE, /* `length` bytes to a buffer of the source, of which book() copies what was asked for */
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
    ITER_AFTER_AGAIN, /* ask for the same once more: EINTR, EAGAIN */
    ITER_AFTER_LOST /* -EFAULT or -ECANCELED: the thread that asked is gone, or somebody canceled */
} iter__after;

/* The next step of `read`, from read->done. */
void iter__step_plan(const iter_read *read, const iter__blocks *blocks, iter__source_step *out);

/* Takes the answer to `step`: bytes, or -errno. `bounce` holds them where the step says so, else it
 * may be NULL. */
iter__after iter__step_book(iter_read *read, const iter__source_step *step, const void *bounce,
                            int64_t answer);

/* Ends a read: sets status and os_error. os_error 0 = OK. */
void iter__step_end(iter_read *read, int32_t os_error);

#endif
