/*
 * queue.h - free slots, and the opened batches in the order in which the consumer takes them.
 *
 *     free list --begin--> (a thread opens it) --commit--> queue: batch, END, batch ... --> next()
 *
 * Between epochs an END is in the queue. Guarded by loader.lock, all of it. Only the functions here
 * change the queue and the free list. take_slot() in open.c takes a slot. Slots become free in
 * iter__batch_give_back() and iter__batches_create() (batch.c), commit() (open.c: the epoch had
 * ended), and device_slots.c after a GPU has read them.
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

/* All with loader.lock held. take_free: the slot that worker number `writer` - 1 wrote last, else
 * the one that was freed last; the list must have one. */
static inline void iter__queue_put_free(iter__queue *queue, iter_batch *batch) {
    batch->state = BATCH_FREE;
    batch->next_free = queue->free_list;
    queue->free_list = batch;
    queue->n_free++;
}
static inline iter_batch *iter__queue_take_free(iter__queue *queue, int32_t writer) {
    iter_batch **link = &queue->free_list;
    while (*link && (*link)->writer != writer)
        link = &(*link)->next_free;
    if (!*link) link = &queue->free_list;
    iter_batch *batch = *link;
    *link = batch->next_free;
    queue->n_free--;
    return batch;
}
iter__entry *iter__queue_at(iter_loader *loader, uint32_t i);
void iter__queue_push(iter_loader *loader, const iter__entry *entry);
void iter__queue_pop(iter_loader *loader);
void iter__queue_pop_newest(iter_loader *loader);
void iter__queue_drop(iter_loader *loader, uint32_t n); /* the first n entries, all batches */
void iter__queue_clear(iter_loader *loader);

#endif
