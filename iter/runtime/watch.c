/*
 * watch.c - the watchdog: reports a batch that next() waits for longer than watch.stall_ms, and
 * why.
 *
 * next() stores when it was called and clears that when it returns; it does not wake the watchdog.
 * The watchdog's thread sleeps until the stored call would be late. When there is none it sleeps
 * stall_ms: a call that begins during this sleep is not late before it ends. So a thread that wakes
 * about once per stall_ms reports on time.
 *
 * It inspects the loader under loader.lock, which no thread holds for long. on_stall runs without
 * any lock, so it may cancel. If on_stall drops the last reference, the thread is detached and
 * frees the loader when it leaves.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/observe/activity.h"
#include "iter/runtime/loader_state.h"

/* The stall that was reported last. The same batch is not reported again. */
typedef struct said {
    int64_t since_ns; /* the last late call of next() */
    bool any;
    uint32_t epoch;
    uint64_t batch, n_batches;
} said;

/* Reports a late next(), unless its batch was reported before. Returns false if next() is not
 * waiting just now: it has returned, or it waits in several calls and is between two of them. */
static bool look(iter_loader *loader, int64_t since, said *last) {
    iter__watch *watch = &loader->watch;
    iter_stall stall;
    pthread_mutex_lock(&loader->lock);
    const bool canceled = atomic_load_explicit(&loader->ending.canceled, memory_order_relaxed);
    const bool waits =
        !canceled && atomic_load_explicit(&watch->waiting_since, memory_order_relaxed) == since;
    if (waits) iter__stall_find(loader, iter__now_ns() - since, &stall);
    const uint64_t n_batches = atomic_load_explicit(&loader->stats.n_batches, memory_order_relaxed);
    pthread_mutex_unlock(&loader->lock);
    if (!waits) return canceled;
    if (last->any && last->epoch == stall.epoch && last->batch == stall.batch &&
        last->n_batches == n_batches)
        return true;
    last->any = true;
    last->epoch = stall.epoch;
    last->batch = stall.batch;
    last->n_batches = n_batches;

    pthread_mutex_lock(&watch->lock);
    const bool stopping = watch->stopping;
    watch->n_stalls++;
    memcpy(watch->text, stall.message, sizeof(watch->text));
    pthread_mutex_unlock(&watch->lock);
    if (stopping || !loader->opt.watch.on_stall) return true;
    iter__in_callback_of = loader;
    loader->opt.watch.on_stall(loader->opt.watch.user, &stall);
    iter__in_callback_of = NULL;
    return true;
}

static void *watch_main(void *arg) {
    iter_loader *loader = arg;
    iter__watch *watch = &loader->watch;
    const int64_t limit = loader->opt.watch.stall_ms * 1000000;
    said last = {.since_ns = 0};
    pthread_mutex_lock(&watch->lock);
    while (!watch->stopping) {
        const int64_t since = atomic_load_explicit(&watch->waiting_since, memory_order_relaxed);
        const bool waits = since != 0 && since != last.since_ns;
        const int64_t left = waits ? since + limit - iter__now_ns() : limit;
        if (left > 0) {
            struct timespec until;
            iter__deadline(left, &until);
            pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
            continue;
        }
        pthread_mutex_unlock(&watch->lock);
        const bool looked = look(loader, since, &last);
        pthread_mutex_lock(&watch->lock);
        if (looked) last.since_ns = since;
    }
    watch->gone = true;
    const bool orphan = watch->detached;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    if (orphan) iter__loader_hold_drop(loader);
    return NULL;
}

/* ---- Start and stop -------------------------------------------------------------------------- */

iter_status iter__watch_start(iter_loader *loader, iter_error *err) {
    iter__watch *watch = &loader->watch;
    if (!loader->opt.watch.stall_ms) return ITER_OK;
    char name[32];
    snprintf(name, sizeof(name), "iter%u-watch", loader->number);
    const int failed = iter__thread_start(&watch->thread, name, watch_main, loader);
    if (failed) {
        char reason[96];
        return iter__fail(err, ITER_ENOMEM, "watchdog: its thread could not be started: %s",
                          iter__os_error(failed, reason, sizeof(reason)));
    }
    pthread_mutex_lock(&loader->lock);
    watch->running = true;
    pthread_mutex_unlock(&loader->lock);
    return ITER_OK;
}

bool iter__is_watch_thread(const iter_loader *loader) {
    return loader->watch.running && pthread_equal(loader->watch.thread, pthread_self());
}

void iter__watch_cancel(iter_loader *loader) {
    pthread_mutex_lock(&loader->watch.lock);
    loader->watch.stopping = true;
    pthread_cond_broadcast(&loader->watch.changed);
    pthread_mutex_unlock(&loader->watch.lock);
}

iter_status iter__watch_stop(iter_loader *loader, iter_error *err) {
    iter__watch *watch = &loader->watch;
    pthread_mutex_lock(&loader->lock);
    const bool running = watch->running;
    watch->running = false;
    pthread_mutex_unlock(&loader->lock);
    if (!running) return ITER_OK;
    const bool own = pthread_equal(watch->thread, pthread_self());
    struct timespec until;
    iter__deadline(own ? 0 : loader->ending.grace_ms * 1000000, &until);
    pthread_mutex_lock(&watch->lock);
    while (!watch->gone && !own &&
           pthread_cond_timedwait(&watch->changed, &watch->lock, &until) != ETIMEDOUT) {
    }
    const bool gone = watch->gone;
    if (!gone) { /* the thread gets a hold of its own, so the memory stays until it leaves */
        watch->detached = true;
        atomic_fetch_add_explicit(&loader->holds, 1, memory_order_relaxed);
        pthread_detach(watch->thread);
    }
    pthread_mutex_unlock(&watch->lock);
    if (gone) pthread_join(watch->thread, NULL);
    if (gone || own) return ITER_OK;
    return iter__fail(err, ITER_ETIMEDOUT,
                      "stop: on_stall() has not returned after %lld ms; its thread is left running",
                      (long long)loader->ending.grace_ms);
}
