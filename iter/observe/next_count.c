/* next_count.c - see next_count.h. One clock read, and no system call after a thread's first. */
#include "iter/observe/next_count.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"

#define LOAD(counter)         atomic_load_explicit(&(counter), memory_order_relaxed)
#define STORE(counter, value) atomic_store_explicit(&(counter), value, memory_order_relaxed)

/* There is one consumer at a time, so plain loads and stores lose no count. */
void iter__next_ends(iter_loader *loader, int64_t start_ns, iter_status status) {
    iter__statistics *stats = &loader->stats;
    const unsigned long long end = (unsigned long long)iter__now_ns();
    const unsigned long long last = LOAD(stats->next_last_ns), start = (unsigned long long)start_ns;
    /* Time that an earlier call has counted already counts once. */
    STORE(stats->next_ns, LOAD(stats->next_ns) + end - (start > last ? start : last));
    if (!LOAD(stats->next_first_ns)) STORE(stats->next_first_ns, start);
    STORE(stats->next_last_ns, end);
    if (status != ITER_AGAIN && status != ITER_ETIMEDOUT)
        STORE(stats->next_calls, LOAD(stats->next_calls) + 1);
    const uintptr_t self = (uintptr_t)pthread_self();
    if (LOAD(stats->next_thread) != self) {
        STORE(stats->next_thread, self);
        STORE(stats->next_tid, iter__thread_id());
    }
    STORE(stats->next_since, 0);
}

int64_t iter_loader_in_next(const iter_loader *loader) {
    return LOAD(loader->stats.next_since);
}
