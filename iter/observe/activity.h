/*
 * activity.h - how a worker records what it does just now, and how others read it.
 *
 * Recording costs a few relaxed stores per chunk or per row. activity.c names the stages; stall.c
 * finds what delays a batch.
 */
#ifndef ITER_OBSERVE_ACTIVITY_H
#define ITER_OBSERVE_ACTIVITY_H

#include "iter/core/time.h"
#include "iter/runtime/loader_state.h"

/* The loader that this thread works for just now, or NULL. A callback must not call into it. */
extern _Thread_local const iter_loader *iter__in_callback_of;

/* The worker enters this stage, at this sample (ITER_UNKNOWN = none). */
static inline void iter__activity_set(iter__worker *worker, int32_t stage, uint64_t index) {
    atomic_store_explicit(&worker->activity.index, index, memory_order_relaxed);
    atomic_store_explicit(&worker->activity.stage, stage, memory_order_relaxed);
}

/* The same for a step that may take long: with a watchdog, also records the time. */
static inline void iter__activity_begins(iter__worker *worker, int32_t stage, uint64_t index) {
    if (worker->loader->opt.watch.stall_ms)
        atomic_store_explicit(&worker->activity.since_ns, iter__now_ns(), memory_order_relaxed);
    iter__activity_set(worker, stage, index);
}

/* Since since_ns the worker works on rows of this batch; NULL = on none. */
static inline void iter__activity_of(iter__worker *worker, const iter_batch *batch,
                                     int64_t since_ns) {
    atomic_store_explicit(&worker->activity.since_ns, since_ns, memory_order_relaxed);
    atomic_store_explicit(&worker->activity.object, ITER_UNKNOWN, memory_order_relaxed);
    atomic_store_explicit(&worker->activity.slot, batch ? (int)batch->slot + 1 : 0,
                          memory_order_relaxed);
}

/* As iter__activity_begins() for a row; also records where its sample's bytes begin. */
void iter__activity_row(iter__worker *worker, int32_t stage, const iter_batch *batch, uint32_t row);

iter_status iter__stages_create(iter_loader *loader, iter_error *err); /* numbers and names */

/* Where a sample's bytes begin: the end of the file's path, escaped, and the offset. False if the
 * sample lies in no file. Asks the format, which may block, so no lock may be held. */
bool iter__where(const iter_loader *loader, uint64_t index, char *file, size_t capacity,
                 uint64_t *out_offset);
/* Writes as much of a path's end as fits, escaped. */
void iter__path_shown(char *out, size_t capacity, const char *path);

/* stall.c. Finds what delays the batch that next() waits for, with a message. loader.lock held. */
void iter__stall_find(iter_loader *loader, int64_t waited_ns, iter_stall *out);

#endif
