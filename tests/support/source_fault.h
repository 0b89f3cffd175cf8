/*
 * source_fault.h - a source that does what disks, kernels and dying threads do to reads, on purpose and by a seed.
 *
 * It takes its bytes from another source by read(). What happens to a read depends on the seed and on the read's object and
 * offset alone, so that two runs see the same faults whatever the threads do; only order and delays may differ.
 * Two tables: source_fault_ops has the asynchronous side (its own, so it works where io_uring does not), source_fault_sync_ops has
 * none. Both take their plan from the last source_fault_set() before open().
 */
#ifndef TESTS_SUPPORT_SOURCE_FAULT_H
#define TESTS_SUPPORT_SOURCE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>

#include <iter/ops.h>

/* Chances are of 1000 reads. All zero = a source without faults. */
typedef struct source_fault_plan {
    const iter_source_ops *inner; /* where the bytes come from; NULL = source_null */
    uint64_t seed;
    int32_t eio_once;   /* EIO the first time, fine when asked again */
    int32_t eio_always; /* EIO every time */
    /* the first time ECANCELED with os_error EFAULT or ECANCELED, though nobody canceled */
    int32_t lost;
    /* EINTR, EAGAIN or a short answer inside the source, which goes on by itself */
    int32_t interrupted;
    int32_t shrunk;     /* done < size with OK: the file ends in the middle of it */
    int32_t hang;       /* does not complete before cancel(), and then with ECANCELED */
    int32_t queue_full; /* submit() answers AGAIN the first time */
    int32_t try_again;  /* try_read() answers AGAIN with a part done */
    int32_t try_errno;  /* not 0: try_read() always answers AGAIN with this os_error */
    int32_t idle_waits; /* wait() returns at once with nothing to reap (of 1000 calls) */
    uint64_t delay_ns;  /* reads take a random time up to this */
    bool reorder;       /* complete in random order */
    bool deaf;          /* cancel() does not end what hangs; source_fault_release() does */
} source_fault_plan;

/* What happened, for tests that want to see that something did. */
typedef struct source_fault_counts {
    atomic_ulong reads, eio, lost, interrupted, shrunk, hung, queue_full, try_again;
    atomic_ulong into_arena; /* read(), not submit(), into config.arena */
} source_fault_counts;

extern const iter_source_ops source_fault_ops;
extern const iter_source_ops source_fault_sync_ops;

/* Copies the plan for sources that are opened from now on, and clears the counts. */
void source_fault_set(const source_fault_plan *plan);
source_fault_counts *source_fault_seen(void);
/* Ends everything that hangs, now and later, until the next source_fault_set(). */
void source_fault_release(void);

/* What the plan does to a read, for tests that compute what a loader must have seen. */
bool source_fault_fails_always(const source_fault_plan *plan, uint64_t object, uint64_t offset);
bool source_fault_shrinks(const source_fault_plan *plan, uint64_t object, uint64_t offset);

#endif
