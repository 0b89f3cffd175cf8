/*
 * queue.h - free slots, and the opened batches in the order in which the consumer takes them.
 *
 *     free list --begin--> (a thread opens it) --commit--> queue: batch, END, batch ... --> next()
 *
 * Between epochs an END is in the queue. Guarded by loader.lock, all of it. The queue is changed by
 * queue.c; only work.c also removes the newest entry, if a stream ended before that batch. Batches
 * enter the free list by batch.c, open.c and device_slots.c.
 */
#ifndef ITER_RUNTIME_QUEUE_H
#define ITER_RUNTIME_QUEUE_H

#include "iter/runtime/batch.h"

typedef struct iter__entry {
    iter_batch *batch; /* NULL = END */
    uint32_t epoch;
    bool empty;         /* END of an epoch without batches */
    iter__cursor after; /* END: the position after next() has answered it */
} iter__entry;

typedef struct iter__queue {
    iter__entry *entries; /* a ring of layout.queue_capacity */
    uint32_t first, count;
    iter_batch *free_list;
    uint32_t n_free;
} iter__queue;

/* With loader.lock held: */
iter__entry *iter__queue_at(iter_loader *loader, uint32_t i);
void iter__queue_push(iter_loader *loader, const iter__entry *entry);
void iter__queue_pop(iter_loader *loader);
void iter__queue_drop(iter_loader *loader, uint32_t n); /* the first n entries, all batches */
void iter__queue_clear(iter_loader *loader);

#endif
