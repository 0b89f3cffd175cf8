/*
 * queue.c - the opened batches in order, with an END between epochs. loader.lock is held in all.
 */
#include "iter/runtime/loader_state.h"

iter__entry *iter__queue_at(iter_loader *loader, uint32_t i) {
    return &loader->queue.entries[(loader->queue.first + i) % loader->layout.queue_capacity];
}

void iter__queue_push(iter_loader *loader, const iter__entry *entry) {
    *iter__queue_at(loader, loader->queue.count) = *entry;
    loader->queue.count++;
    const bool answers = !entry->batch || entry->batch->state == BATCH_READY;
    if (answers && loader->queue.count == 1 && loader->consumer.waits)
        iter__event_wake(&loader->ready, 1);
}

void iter__queue_pop(iter_loader *loader) {
    loader->queue.first = (loader->queue.first + 1) % loader->layout.queue_capacity;
    loader->queue.count--;
}

void iter__queue_pop_newest(iter_loader *loader) {
    loader->queue.count--;
}

/* Drops one batch: ends its NEW and READY chunks. The others end after their work, or after their
 * reads, which the source is told to end; the last of them frees the slot. */
static void drop_batch(iter_loader *loader, iter_batch *batch) {
    batch->dropped = true;
    if (batch->state == BATCH_READY) {
        iter__batch_give_back(batch);
        return;
    }
    uint32_t n = 0;
    const uint32_t n_chunks = atomic_load_explicit(&batch->n_chunks, memory_order_relaxed);
    for (uint32_t c = 0; c < n_chunks; c++) {
        iter__chunk *chunk = &batch->chunks[c];
        int expected = CHUNK_READY;
        bool won = atomic_compare_exchange_strong(&chunk->state, &expected, CHUNK_DONE);
        if (won) iter__reading_release(loader, chunk);
        expected = CHUNK_NEW;
        won = won || atomic_compare_exchange_strong(&chunk->state, &expected, CHUNK_DONE);
        n += won;
        if (!won) iter__reading_drop(loader, chunk);
    }
    if (n && atomic_fetch_sub(&batch->chunks_left, n) == n) {
        loader->opener.stream_busy = false; /* a stream has one open batch: it was this one */
        iter__batch_give_back(batch);
    }
}

void iter__queue_clear(iter_loader *loader) {
    while (loader->queue.count) {
        iter_batch *batch = iter__queue_at(loader, 0)->batch;
        iter__queue_pop(loader);
        if (batch) drop_batch(loader, batch);
    }
}

void iter__queue_drop(iter_loader *loader, uint32_t n) {
    for (; n; n--) {
        iter_batch *batch = iter__queue_at(loader, 0)->batch;
        iter__queue_pop(loader);
        drop_batch(loader, batch);
    }
}
