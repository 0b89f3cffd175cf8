/*
 * next_count.h - counts calls of next(): how many, how long, in which thread. What is left between
 * two calls is the consumer's time, so a diagnosis needs nothing else from a training loop.
 */
#ifndef ITER_OBSERVE_NEXT_COUNT_H
#define ITER_OBSERVE_NEXT_COUNT_H

#include "iter/runtime/loader_state.h"

static inline void iter__next_begins(iter_loader *loader, int64_t start_ns) {
    atomic_store_explicit(&loader->stats.next_since, start_ns, memory_order_relaxed);
}

/* A call that only ran out of time is continued by the next call. Its time counts, the call does
 * not. */
void iter__next_ends(iter_loader *loader, int64_t start_ns, iter_status status);

#endif
