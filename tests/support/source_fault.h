/*
 * source_fault.h - a source that makes reads fail as disks, kernels and dying threads do, on
 * purpose and by a seed.
 *
 * It takes its bytes from another source by read(). What happens to a read depends only on the seed
 * and on the read's object and offset. Two runs therefore see the same faults whatever the threads
 * do; only order and delays may differ.
 *
 * There are two tables. source_fault_ops has an asynchronous side of its own, so it works without
 * io_uring; source_fault_sync_ops has none. Both take their plan from the last source_fault_set()
 * before open().
 */
#ifndef TESTS_SUPPORT_SOURCE_FAULT_H
#define TESTS_SUPPORT_SOURCE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>

#include <iter/ops.h>

/* Chances are per 1000 reads. All zero = a source without faults. */
typedef struct source_fault_plan {
    const iter_source_ops *inner; /* the source of the bytes; NULL = source_null */
    uint64_t seed;
    int32_t eio_once;   /* EIO the first time, success on a retry */
    int32_t eio_always; /* EIO every time */
    /* ECANCELED with os_error EFAULT or ECANCELED the first time, though no thread canceled */
    int32_t lost;
    /* EINTR, EAGAIN or a short read inside the source, which retries by itself */
    int32_t interrupted;
    int32_t shrunk;     /* done < size with OK: the file ends inside the read */
    int32_t hang;       /* does not complete before cancel(), then fails with ECANCELED */
    int32_t queue_full; /* submit() returns AGAIN the first time */
    int32_t try_again;  /* try_read() returns AGAIN with a part done */
    int32_t try_errno;  /* not 0: try_read() always returns AGAIN with this os_error */
    int32_t idle_waits; /* wait() returns at once with nothing to reap (per 1000 calls) */
    uint64_t delay_ns;  /* reads take a random time up to this */
    bool reorder;       /* complete in random order */
    bool deaf;          /* cancel() does not end reads that hang; source_fault_release() does */
} source_fault_plan;

/* What happened, for tests that must see that faults occurred. */
typedef struct source_fault_counts {
    atomic_ulong reads, eio, lost, interrupted, shrunk, hung, queue_full, try_again;
    atomic_ulong into_arena; /* read(), not submit(), into config.arena */
} source_fault_counts;

extern const iter_source_ops source_fault_ops;
extern const iter_source_ops source_fault_sync_ops;

/* Copies the plan for sources that are opened later, and clears the counts. */
void source_fault_set(const source_fault_plan *plan);
source_fault_counts *source_fault_seen(void);
/* Ends every read that hangs, now and later, until the next source_fault_set(). */
void source_fault_release(void);

/* What the plan does to a read, for tests that compute what a loader must have seen. */
bool source_fault_fails_always(const source_fault_plan *plan, uint64_t object, uint64_t offset);
bool source_fault_shrinks(const source_fault_plan *plan, uint64_t object, uint64_t offset);

#endif
