/*
 * worker.c - what a thread does next: the same decision for worker threads and, without workers,
 * for the consumer's thread.
 *
 * iter__work_once() tries in this order:
 *
 *     without a lock   a READY chunk of the batch at hand; else reaps completed reads
 *     find_work()      a READY chunk, oldest batch first
 *                      a NEW chunk, to issue its reads
 *                      a batch to open, in a free slot or in one that no GPU reads any more
 *     idle()           waits in the source as the reader
 *                      waits for a slot that a GPU reads
 *                      sleeps
 *
 * If reads miss the page cache, opening and issuing come first, so that the device always has work
 * queued.
 */
#include <stdio.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/observe/activity.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/loader_state.h"

static bool claim(iter__chunk *chunk, int from) {
    int expected = from;
    return atomic_load_explicit(&chunk->state, memory_order_relaxed) == from &&
           atomic_compare_exchange_strong(&chunk->state, &expected, CHUNK_CLAIMED);
}

/* Claims a chunk of `batch` in state `from`; NULL = there is none. */
static iter__chunk *claim_of(iter_batch *batch, int from) {
    const uint32_t n = atomic_load_explicit(&batch->n_chunks, memory_order_relaxed);
    for (uint32_t c = 0; c < n; c++) {
        if (claim(&batch->chunks[c], from)) return &batch->chunks[c];
    }
    return NULL;
}

/* The same over all opened batches, oldest first. loader.lock held. */
static iter__chunk *claim_any(iter_loader *loader, int from) {
    for (uint32_t i = 0; i < loader->queue.count; i++) {
        iter_batch *batch = iter__queue_at(loader, i)->batch;
        if (!batch || batch->state != BATCH_OPEN) continue;
        iter__chunk *chunk = claim_of(batch, from);
        if (chunk) return chunk;
    }
    return NULL;
}

/* Whether a batch should be opened, given a free slot. Without workers one batch at a time is made,
 * so that its slot stays in the cache, unless reads run ahead. loader.lock held. */
static bool wants_slot(iter_loader *loader) {
    if (!iter__may_open(loader)) return false;
    if (loader->workers.n > 0 || iter__reading_is_ahead(loader)) return true;
    for (uint32_t i = 0; i < loader->queue.count; i++) {
        if (iter__queue_at(loader, i)->batch) return false;
    }
    return loader->queue.count == 0;
}

static bool wants_open(iter_loader *loader) {
    return loader->queue.free_list && wants_slot(loader);
}

/* Whether a batch could be opened if a GPU did not read the slots. loader.lock held. */
static bool lacks_slot(iter_loader *loader) {
    return loader->device.n_released && !loader->queue.free_list && !loader->ending.broken &&
           wants_slot(loader);
}

/* Claims the next chunk; opens batches if that comes first. Sets *out_new if the chunk was NEW, so
 * its reads must be issued. loader.lock held, released while a batch is opened. */
static iter__chunk *claim_next(iter__worker *worker, bool may_issue, bool *out_new) {
    iter_loader *loader = worker->loader;
    for (;;) {
        iter__chunk *chunk = NULL;
        *out_new = false;
        if (iter__is_canceled(loader)) return NULL;
        const bool ahead = iter__reading_is_ahead(loader);
        if (ahead && wants_open(loader)) {
            iter__open_next(worker);
            continue;
        }
        if (ahead && may_issue && (chunk = claim_any(loader, CHUNK_NEW))) {
            *out_new = true;
            return chunk;
        }
        if ((chunk = claim_any(loader, CHUNK_READY))) return chunk;
        if (may_issue && (chunk = claim_any(loader, CHUNK_NEW))) {
            *out_new = true;
            return chunk;
        }
        if (!wants_open(loader)) return NULL;
        iter__open_next(worker);
    }
}

/* Wakes one worker when there may be more work; that one may wake the next. loader.lock held. */
static void share_work(iter_loader *loader, const iter__chunk *chunk) {
    if (!loader->workers.sleepers) return;
    const bool rest = atomic_load_explicit(&chunk->batch->n_chunks, memory_order_relaxed) > 1;
    if (rest || 2 * loader->queue.n_free >= loader->layout.n_slots ||
        (lacks_slot(loader) && !loader->device.awaited))
        iter__event_wake(&loader->work, 1);
}

/* Tries to make the caller the reader. True = it must wait in the source. loader.lock held. */
static bool become_reader(iter_loader *loader) {
    iter__reading *reading = &loader->reading;
    bool expected = false;
    return reading->async && atomic_load(&reading->pending) > 0 &&
           atomic_compare_exchange_strong(&reading->has_reader, &expected, true);
}

/* Counts a wait that ends now; `name` is the profiler's name of it. */
static void count(iter__worker *worker, uint32_t name, int64_t since) {
    const int64_t now = iter__now_ns();
    const unsigned long long ns = (unsigned long long)(now - since);
    atomic_fetch_add_explicit(name == PROFILE_WAIT_BYTES ? &worker->wait_bytes_ns
                                                         : &worker->wait_slot_ns,
                              ns, memory_order_relaxed);
    if (name == PROFILE_WAIT_DEVICE)
        atomic_fetch_add_explicit(&worker->loader->device.wait_ns, ns, memory_order_relaxed);
    if (!iter__profiling()) return;
    iter__profile_put(&(iter__profile_record){.name = name,
                                              .type = ITER_PROFILE_SPAN,
                                              .loader = worker->loader->number,
                                              .start_ns = since,
                                              .duration_ns = now - since});
}

/* Sleeps until loader.work is signaled after `happened` was read. loader.lock held, released while
 * it sleeps. */
static void sleep_locked(iter_loader *loader, unsigned happened) {
    loader->opener.wanted |= loader->opener.busy;
    loader->workers.sleepers++;
    pthread_mutex_unlock(&loader->lock);
    iter__event_wait(&loader->work, happened, -1);
    pthread_mutex_lock(&loader->lock);
    loader->workers.sleepers--;
}

/* Claims the next chunk; NULL = nothing to do. may_issue: the arena may have space. False = it had
 * none when reading.releases was `releases`. loader.lock held, released while a batch is opened. */
static iter__chunk *find_work(iter__worker *worker, bool may_issue, unsigned releases,
                              bool *out_new) {
    iter_loader *loader = worker->loader;
    if (loader->device.n_released && iter__reading_is_ahead(loader) && lacks_slot(loader))
        iter__slots_reclaim(loader);
    iter__chunk *chunk = claim_next(worker, may_issue, out_new);
    if (!chunk && lacks_slot(loader)) {
        iter__slots_reclaim(loader); /* this released the lock: look again */
        chunk = claim_next(worker, may_issue, out_new);
    }
    /* Another thread freed space, but will not claim this chunk. */
    if (!chunk && !may_issue && releases != atomic_load(&loader->reading.releases))
        chunk = claim_next(worker, true, out_new);
    return chunk;
}

/* Nothing to do: waits for bytes, for a slot, or until loader.work is signaled after `happened` was
 * read. loader.lock held, released while it waits. */
static iter__work idle(iter__worker *worker, unsigned happened, bool may_sleep,
                       int64_t timeout_ns) {
    iter_loader *loader = worker->loader;
    const int64_t start = iter__now_ns();
    if (iter__is_canceled(loader)) return ITER_WORK_NONE;
    const bool reads = become_reader(loader);
    const bool naps = !reads && lacks_slot(loader) && !loader->device.awaited;
    if (!reads && !naps && !may_sleep) return ITER_WORK_NONE;
    const bool bytes = reads || (!naps && atomic_load(&loader->reading.pending) > 0);
    iter__activity_of(worker, NULL, start);
    iter__activity_set(worker, bytes ? ACTIVITY_WAIT_BYTES : ACTIVITY_WAIT_SLOT, ITER_UNKNOWN);
    if (reads) {
        pthread_mutex_unlock(&loader->lock);
        iter__reading_wait(worker, timeout_ns);
        pthread_mutex_lock(&loader->lock);
    } else if (naps) {
        iter__slots_await(loader, timeout_ns);
    } else {
        sleep_locked(loader, happened);
    }
    iter__activity_set(worker, ACTIVITY_IDLE, ITER_UNKNOWN);
    count(worker,
          naps    ? PROFILE_WAIT_DEVICE
          : bytes ? PROFILE_WAIT_BYTES
                  : PROFILE_WAIT_SLOT,
          start);
    return ITER_WORK_WAITED;
}

iter__work iter__work_once(iter__worker *worker, bool may_sleep, int64_t timeout_ns) {
    iter_loader *loader = worker->loader;
    bool is_new = false, may_issue = true;
    unsigned releases = 0;
    iter__chunk *chunk = worker->current ? claim_of(worker->current, CHUNK_READY) : NULL;
    for (;;) {
        if (!chunk) {
            iter__reading_poll(worker);
            /* before the search, so no signal is lost */
            const unsigned happened = iter__event_look(&loader->work);
            pthread_mutex_lock(&loader->lock);
            chunk = find_work(worker, may_issue, releases, &is_new);
            if (!chunk) {
                worker->current = NULL;
                const iter__work work = idle(worker, happened, may_sleep, timeout_ns);
                pthread_mutex_unlock(&loader->lock);
                return work;
            }
            releases = atomic_load(&loader->reading.releases);
            share_work(loader, chunk);
            pthread_mutex_unlock(&loader->lock);
        }
        worker->current = chunk->batch;
        const int issued = is_new ? iter__reading_issue(worker, chunk) : 1;
        if (issued == 1) iter__chunk_work(worker, chunk);
        if (issued >= 0) return ITER_WORK_DONE;
        may_issue = false; /* the arena has no space until older chunks are done */
        chunk = NULL;
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* Waits until no read is in flight: a read that this thread submitted would be canceled when the
 * thread exits. */
static void drain(iter__worker *worker) {
    iter_loader *loader = worker->loader;
    while (atomic_load(&loader->reading.pending) > 0) {
        bool expected = false;
        if (atomic_compare_exchange_strong(&loader->reading.has_reader, &expected, true)) {
            iter__reading_wait(worker, 50 * 1000000);
        } else {
            const struct timespec pause = {.tv_nsec = 1000000};
            nanosleep(&pause, NULL);
        }
    }
}

/* Reports that the worker has left its loop. If stop() gave up waiting for it, drops the worker's
 * hold, and the last hold frees the loader. */
static void leave(iter__worker *worker) {
    iter_loader *loader = worker->loader;
    pthread_mutex_lock(&loader->lock);
    worker->gone = true;
    loader->ending.n_gone++;
    pthread_cond_broadcast(&loader->ending.left);
    const bool orphan = worker->detached;
    pthread_mutex_unlock(&loader->lock);
    if (orphan) iter__loader_hold_drop(loader);
}

static void *worker_main(void *arg) {
    iter__worker *worker = arg;
    iter_loader *loader = worker->loader;
    iter_error error = {.status = ITER_OK};
    char track[ITER_PROFILE_TRACK];
    snprintf(track, sizeof(track), "loader %u worker %d", loader->number, worker->number);
    iter__profile_thread(track);
    atomic_store_explicit(&worker->tid, iter__thread_id(), memory_order_relaxed);
    if (iter__worker_begin(worker, &error) < 0) {
        pthread_mutex_lock(&loader->lock);
        if (!loader->ending.broken) {
            loader->ending.broken = true;
            loader->ending.broken_error = error;
        }
        iter__event_wake(&loader->ready, ITER_WAKE_ALL);
        pthread_mutex_unlock(&loader->lock);
        leave(worker);
        return NULL;
    }
    while (!iter__is_canceled(loader))
        iter__work_once(worker, true, -1);
    iter__reading_cancel(loader);
    drain(worker);
    iter__worker_end(worker);
    leave(worker);
    return NULL;
}

iter_status iter__workers_create(iter_loader *loader, iter_error *err) {
    const int32_t n = iter__n_workers_all(loader);
    loader->workers.all = iter__alloc((size_t)n, sizeof(*loader->workers.all));
    if (!loader->workers.all) return iter__fail(err, ITER_ENOMEM, "workers: out of memory");
    for (int32_t i = 0; i < n; i++) {
        loader->workers.all[i].loader = loader;
        loader->workers.all[i].number = i;
        ITER_TRY(iter__worker_start(&loader->workers.all[i], err));
    }
    return ITER_OK;
}

iter_status iter__workers_run(iter_loader *loader, iter_error *err) {
    for (int32_t i = 0; i < loader->workers.n; i++) {
        iter__worker *worker = &loader->workers.all[i];
        char name[32];
        snprintf(name, sizeof(name), "iter%u-w%d", loader->number, i);
        const int failed = iter__thread_start(&worker->thread, name, worker_main, worker);
        if (failed) {
            char reason[96];
            return iter__fail(err, ITER_ENOMEM, "workers: thread %d of %d could not be started: %s",
                              i + 1, loader->workers.n,
                              iter__os_error(failed, reason, sizeof(reason)));
        }
        pthread_mutex_lock(&loader->lock);
        worker->running = true;
        if (pthread_getcpuclockid(worker->thread, &worker->cpu_clock) != 0) worker->cpu_clock = 0;
        pthread_mutex_unlock(&loader->lock);
    }
    return ITER_OK;
}
