/*
 * cold_reads.c - see cold_reads.h.
 *
 * Threads instead of a ring: a block's file may have to be opened, its head read, and its pieces
 * summed, and all of that waits or takes time outside the loader's lock.
 */
#include "iter/remote/cold_reads.h"

#ifdef ITER_HAVE_REMOTE

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "iter/core/alloc.h"
#include "iter/core/thread.h"

#define THREADS 16u

/* Reads by their link, the first one put first. */
typedef struct list {
    iter_read *first, *last;
} list;

struct iter__cold_reads {
    iter__cold_calls calls;
    int link;
    pthread_t threads[THREADS];
    uint32_t n_threads;
    atomic_uint n_done;

    pthread_mutex_t lock; /* guards these */
    pthread_cond_t more;
    list todo, done;
    uint32_t n_idle;
    bool stopping;
};

/* ---- Lists ----------------------------------------------------------------------------------- */

static void push(const iter__cold_reads *cold, list *l, iter_read *read) {
    read->reserved[cold->link] = 0;
    if (l->first)
        l->last->reserved[cold->link] = (uint64_t)(uintptr_t)read;
    else
        l->first = read;
    l->last = read;
}

static iter_read *pop(const iter__cold_reads *cold, list *l) {
    iter_read *read = l->first;
    if (read) l->first = (iter_read *)(uintptr_t)read->reserved[cold->link];
    return read;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *work(void *arg) {
    iter__cold_reads *cold = arg;
    pthread_mutex_lock(&cold->lock);
    for (;;) {
        cold->n_idle++;
        while (!cold->todo.first && !cold->stopping)
            pthread_cond_wait(&cold->more, &cold->lock);
        cold->n_idle--;
        iter_read *read = pop(cold, &cold->todo);
        if (!read) break;
        pthread_mutex_unlock(&cold->lock);
        cold->calls.serve(cold->calls.user, read);
        pthread_mutex_lock(&cold->lock);
        push(cold, &cold->done, read);
        if (atomic_fetch_add(&cold->n_done, 1) > 0) continue; /* the taker was woken already */
        pthread_mutex_unlock(&cold->lock);
        cold->calls.wake(cold->calls.user);
        pthread_mutex_lock(&cold->lock);
    }
    pthread_mutex_unlock(&cold->lock);
    return NULL;
}

/* ---- Making, putting, taking ----------------------------------------------------------------- */

iter__cold_reads *iter__cold_reads_create(const iter__cold_calls *calls, int link) {
    iter__cold_reads *cold = iter__alloc(1, sizeof(*cold));
    if (!cold) return NULL;
    cold->calls = *calls;
    cold->link = link;
    pthread_mutex_init(&cold->lock, NULL);
    pthread_cond_init(&cold->more, NULL);
    return cold;
}

void iter__cold_reads_destroy(iter__cold_reads *cold) {
    if (!cold) return;
    pthread_mutex_lock(&cold->lock);
    cold->stopping = true;
    pthread_cond_broadcast(&cold->more);
    pthread_mutex_unlock(&cold->lock);
    for (uint32_t i = 0; i < cold->n_threads; i++)
        pthread_join(cold->threads[i], NULL);
    pthread_mutex_destroy(&cold->lock);
    pthread_cond_destroy(&cold->more);
    iter__free(cold);
}

void iter__cold_reads_put(iter__cold_reads *cold, iter_read *read) {
    char name[16];
    pthread_mutex_lock(&cold->lock);
    push(cold, &cold->todo, read);
    const bool lacks = cold->n_idle == 0 && cold->n_threads < THREADS;
    pthread_cond_signal(&cold->more);
    pthread_mutex_unlock(&cold->lock);
    if (!lacks) return;
    (void)snprintf(name, sizeof(name), "iter-disk%u", cold->n_threads);
    if (iter__thread_start(&cold->threads[cold->n_threads], name, work, cold) == 0)
        cold->n_threads++;
    if (cold->n_threads > 0) return;
    pthread_mutex_lock(&cold->lock);
    iter_read *mine = pop(cold, &cold->todo);
    pthread_mutex_unlock(&cold->lock);
    cold->calls.serve(cold->calls.user, mine);
    pthread_mutex_lock(&cold->lock);
    push(cold, &cold->done, mine);
    atomic_fetch_add(&cold->n_done, 1);
    pthread_mutex_unlock(&cold->lock);
}

iter_read *iter__cold_reads_take(iter__cold_reads *cold) {
    if (!iter__cold_reads_has(cold)) return NULL;
    pthread_mutex_lock(&cold->lock);
    iter_read *read = pop(cold, &cold->done);
    if (read) atomic_fetch_sub(&cold->n_done, 1);
    pthread_mutex_unlock(&cold->lock);
    return read;
}

bool iter__cold_reads_has(const iter__cold_reads *cold) {
    return atomic_load(&cold->n_done) > 0;
}

#endif
