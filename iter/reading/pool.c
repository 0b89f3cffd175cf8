/*
 * pool.c - threads that make a blocking source asynchronous. If io_uring is forbidden, they read
 * ahead.
 *
 * The pool wraps the source in another iter_source_ops. Its submit, commit, reap, wake and cancel
 * run under reading.lock. The pool's own lock guards two rings of reads: those to do and those
 * done. It is taken after reading.lock, and is not held while the source reads.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/runtime/loader_state.h"

#define DEFAULT_THREADS 8

struct iter__pool {
    const iter_source_ops *inner;
    void *inner_state;
    pthread_t *threads; /* [n_threads] */
    uint32_t n_threads;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t todo_more, done_more;
    iter_read **todo, **done; /* rings of `depth` */
    uint32_t depth, todo_first, todo_count, done_first, done_count, busy;
    bool stopping, woken, canceled;
};

static void push(iter_read **ring, uint32_t depth, uint32_t first, uint32_t *count,
                 iter_read *read) {
    ring[(first + *count) % depth] = read;
    (*count)++;
}

static iter_read *pop(iter_read **ring, uint32_t depth, uint32_t *first, uint32_t *count) {
    iter_read *read = ring[*first];
    *first = (*first + 1) % depth;
    (*count)--;
    return read;
}

static void *serve(void *arg) {
    iter__pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->todo_count && !pool->stopping)
            pthread_cond_wait(&pool->todo_more, &pool->lock);
        if (!pool->todo_count) break;
        iter_read *read = pop(pool->todo, pool->depth, &pool->todo_first, &pool->todo_count);
        pool->busy++;
        const bool canceled = pool->canceled;
        pthread_mutex_unlock(&pool->lock);
        if (canceled) {
            read->status = ITER_ECANCELED;
        } else {
            pool->inner->read(pool->inner_state, read);
        }
        pthread_mutex_lock(&pool->lock);
        pool->busy--;
        push(pool->done, pool->depth, pool->done_first, &pool->done_count, read);
        pthread_cond_signal(&pool->done_more);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* ---- The table ------------------------------------------------------------------------------- */

static iter_status pool_read(void *state, iter_read *read) {
    iter__pool *pool = state;
    return pool->inner->read(pool->inner_state, read);
}

static iter_status pool_try_read(void *state, iter_read *read) {
    iter__pool *pool = state;
    return pool->inner->try_read ? pool->inner->try_read(pool->inner_state, read) : ITER_AGAIN;
}

static iter_status pool_submit(void *state, iter_read *read) {
    iter__pool *pool = state;
    pthread_mutex_lock(&pool->lock);
    const bool full = pool->todo_count + pool->busy + pool->done_count >= pool->depth;
    if (!full) {
        push(pool->todo, pool->depth, pool->todo_first, &pool->todo_count, read);
        pthread_cond_signal(&pool->todo_more);
    }
    pthread_mutex_unlock(&pool->lock);
    return full ? ITER_AGAIN : ITER_PENDING;
}

static iter_status pool_commit(void *state) {
    (void)state;
    return ITER_OK;
}

static int32_t pool_reap(void *state, iter_read **out, int32_t max) {
    iter__pool *pool = state;
    int32_t n = 0;
    pthread_mutex_lock(&pool->lock);
    while (n < max && pool->done_count)
        out[n++] = pop(pool->done, pool->depth, &pool->done_first, &pool->done_count);
    pthread_mutex_unlock(&pool->lock);
    return n;
}

static iter_status pool_wait(void *state, int64_t timeout_ns) {
    iter__pool *pool = state;
    struct timespec until;
    if (timeout_ns >= 0) iter__deadline(timeout_ns, &until);
    pthread_mutex_lock(&pool->lock);
    int late = 0;
    while (!pool->done_count && !pool->woken && !late) {
        late = timeout_ns < 0 ? pthread_cond_wait(&pool->done_more, &pool->lock)
                              : pthread_cond_timedwait(&pool->done_more, &pool->lock, &until);
    }
    pool->woken = false;
    pthread_mutex_unlock(&pool->lock);
    return ITER_OK;
}

static void pool_wake(void *state) {
    iter__pool *pool = state;
    pthread_mutex_lock(&pool->lock);
    pool->woken = true;
    pthread_cond_signal(&pool->done_more);
    pthread_mutex_unlock(&pool->lock);
}

static void pool_cancel(void *state) {
    iter__pool *pool = state;
    pthread_mutex_lock(&pool->lock);
    pool->canceled = true;
    pthread_mutex_unlock(&pool->lock);
}

static const iter_source_ops pool_ops = {
    .base = {.struct_size = sizeof(iter_source_ops),
             .name = "pread",
             .help = "threads that call pread"},
    .read = pool_read,
    .try_read = pool_try_read,
    .submit = pool_submit,
    .commit = pool_commit,
    .reap = pool_reap,
    .wait = pool_wait,
    .wake = pool_wake,
    .cancel = pool_cancel,
};

/* ---- Making and stopping --------------------------------------------------------------------- */

iter_status iter__pool_create(iter_loader *loader, uint32_t depth, iter_error *err) {
    iter__reading *reading = &loader->reading;
    iter__pool *pool = iter__alloc(1, sizeof(*pool));
    if (!pool) return iter__fail(err, ITER_ENOMEM, "pread: out of memory");
    pool->inner = reading->ops;
    pool->inner_state = reading->state;
    pool->depth = depth;
    pool->todo = iter__alloc(depth, sizeof(iter_read *));
    pool->done = iter__alloc(depth, sizeof(iter_read *));
    const uint32_t wanted =
        loader->opt.reading.threads ? loader->opt.reading.threads : (uint32_t)DEFAULT_THREADS;
    pool->threads = iter__alloc(wanted, sizeof(*pool->threads));
    const bool has_memory = pool->todo && pool->done && pool->threads;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->todo_more, NULL);
    pthread_cond_init(&pool->done_more, &monotonic);
    pthread_condattr_destroy(&monotonic);
    reading->pool = pool;
    for (; has_memory && pool->n_threads < wanted; pool->n_threads++) {
        char name[32];
        snprintf(name, sizeof(name), "iter%u-r%u", loader->number, pool->n_threads);
        if (iter__thread_start(&pool->threads[pool->n_threads], name, serve, pool) != 0) break;
    }
    if (pool->n_threads == 0) {
        iter__pool_free(reading);
        return iter__fail(err, ITER_ENOMEM, "pread: no thread could be started");
    }
    reading->ops = &pool_ops;
    reading->state = pool;
    reading->async = true;
    return ITER_OK;
}

void iter__pool_free(iter__reading *reading) {
    iter__pool *pool = reading->pool;
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->todo_more);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    reading->ops = pool->inner;
    reading->state = pool->inner_state;
    reading->pool = NULL;
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->todo_more);
    pthread_cond_destroy(&pool->done_more);
    iter__free(pool->threads);
    iter__free(pool->todo);
    iter__free(pool->done);
    iter__free(pool);
}
