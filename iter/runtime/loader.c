/*
 * loader.c - the consumer's calls: next, reset, cancel, stop, and the reference counts.
 *
 * `refs` counts handles; the last unref stops the threads. `holds` counts reasons to keep the
 * memory: one for all handles together, one for each held batch, one for each thread that could not
 * be joined, and one, never dropped, while reads or a GPU may still access it. Shutdown has three
 * steps: cancel wakes all threads; stop joins them, within grace_ms; free.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/observe/activity.h"
#include "iter/observe/batch_profile.h"
#include "iter/observe/next_count.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/loader_state.h"

iter_status iter__check_alive(iter_loader *loader, iter_error *err) {
    if (iter__is_orphan(loader)) {
        return iter__fail(err, ITER_ESTATE,
                          "loader: made before fork(); a child must create its own");
    }
    if (iter__in_callback_of == loader) {
        return iter__fail(err, ITER_ESTATE, "loader: called from one of its own callbacks");
    }
    return ITER_OK;
}

iter_status iter__check_call(iter_loader *loader, iter_error *err) {
    ITER_TRY(iter__check_alive(loader, err));
    if (iter__is_canceled(loader)) return iter__fail(err, ITER_ECANCELED, "loader: canceled");
    return ITER_OK;
}

/* ---- next ------------------------------------------------------------------------------------ */

/* How long one call of next() may wait. */
typedef struct patience {
    int64_t start_ns, limit_ns; /* limit < 0 = for ever, 0 = only take what is ready */
    /* when the wait began: the first of several calls in a row that timed out, or this one */
    int64_t since_ns;
    bool idle; /* limit 0, no workers: no work is left that needs no waiting */
} patience;

/* The answer of a call that has waited long enough; an error says what delays the batch.
 * loader.lock held. */
static iter_status end_waiting(iter_loader *loader, const patience *wait, iter_error *err) {
    if (wait->limit_ns == 0) return ITER_AGAIN;
    iter_stall stall;
    const int64_t now = iter__now_ns();
    const int64_t earlier = wait->start_ns - wait->since_ns;
    iter__stall_find(loader, earlier > 0 ? now - wait->since_ns : wait->limit_ns, &stall);
    loader->consumer.timed_out_since = wait->since_ns;
    return iter__fail(err, ITER_ETIMEDOUT, "next: %s", stall.message);
}

/* Without workers: one unit of work in the caller's thread. Returns false if the time is over.
 * loader.lock held, released during the work. */
static bool work_once(iter_loader *loader, patience *wait, int64_t left) {
    if (wait->idle || (wait->limit_ns > 0 && left <= 0)) return false;
    pthread_mutex_unlock(&loader->lock);
    const iter__work work = iter__work_once(&loader->workers.all[0], false, left);
    pthread_mutex_lock(&loader->lock);
    wait->idle = wait->limit_ns == 0 && work != ITER_WORK_DONE;
    return true;
}

/* Sleeps until `ready` is woken; without workers, does one unit of work. Returns false if the time
 * is over. loader.lock held, released in between. */
static bool wait_once(iter_loader *loader, patience *wait, unsigned seen) {
    const int64_t until = wait->limit_ns < 0 ? -1 : wait->start_ns + wait->limit_ns;
    int64_t left = until < 0 ? -1 : until - iter__now_ns();
    if (until >= 0 && left < 0) left = 0;
    if (loader->workers.n == 0) return work_once(loader, wait, left);
    if (left == 0) return false;
    loader->consumer.waits = true;
    pthread_mutex_unlock(&loader->lock);
    iter__event_wait(&loader->ready, seen, until);
    pthread_mutex_lock(&loader->lock);
    loader->consumer.waits = false;
    return true;
}

/* Whether this batch exceeds max_failures. If so, next() answers with that error from now on.
 * loader.lock held. */
static bool gives_up(iter_loader *loader, const iter_batch *batch) {
    if (!loader->opt.faults.max_failures || loader->failures.n <= loader->opt.faults.max_failures)
        return false;
    const iter_failure *last =
        loader->failures.n_kept ? &loader->failures.list[loader->failures.n_kept - 1] : NULL;
    loader->failures.gave_up = true;
    iter__fail(&loader->failures.error, last ? last->status : ITER_EIO,
               "%llu samples failed on this rank, more than max_failures = %u, by batch %llu of "
               "epoch %u; the last: %s",
               (unsigned long long)loader->failures.n, loader->opt.faults.max_failures,
               (unsigned long long)batch->info.number, batch->info.epoch,
               last ? last->message : "?");
    return true;
}

/* Takes the READY batch at the head of the queue. loader.lock held. */
static iter_status take(iter_loader *loader, iter_batch **out, iter_error *err) {
    iter_batch *batch = iter__queue_at(loader, 0)->batch;
    iter__queue_pop(loader);
    loader->consumer.position = batch->after;
    loader->consumer.number++;
    memcpy(loader->consumer.sampler_at, batch->sampler_after, batch->sampler_after_bytes);
    loader->consumer.sampler_at_bytes = batch->sampler_after_bytes;
    iter__failures_book(loader, batch);
    iter_status status = batch->status;
    if (gives_up(loader, batch)) {
        if (err) *err = loader->failures.error;
        status = loader->failures.error.status;
    } else if (status < 0 && err) {
        *err = batch->error;
    }
    if (status < 0) {
        iter__batch_give_back(batch);
        return status;
    }
    batch->state = BATCH_HELD;
    atomic_store_explicit(&batch->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->holds, 1, memory_order_relaxed);
    loader->consumer.n_held++;
    atomic_fetch_add_explicit(&loader->stats.n_batches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->stats.n_samples, batch->info.n_rows, memory_order_relaxed);
    if (loader->parts.first) iter__parts_count(loader, batch);
    uint64_t bytes = 0;
    for (int32_t f = 0; f < loader->plan.n_fields; f++)
        bytes += iter_desc_bytes(&batch->tensors[f].desc);
    atomic_fetch_add_explicit(&loader->stats.n_bytes, bytes, memory_order_relaxed);
    *out = batch;
    return ITER_OK;
}

static void profile_next(const iter_batch *batch, int64_t start, int64_t end) {
    const iter__profile_record record = iter__profile_span(batch, PROFILE_NEXT, start, end);
    iter__profile_put(&record);
}

/* What next() can answer before a batch is READY; AGAIN = it depends on the head of the queue. Must
 * be called again after each wait, because another thread may have moved or canceled the loader.
 * loader.lock held. */
static iter_status answer_at_once(iter_loader *loader, iter_error *err) {
    const iter_error *known = loader->failures.gave_up ? &loader->failures.error
                              : loader->ending.broken  ? &loader->ending.broken_error
                                                       : NULL;
    if (iter__is_canceled(loader)) return iter__fail(err, ITER_ECANCELED, "loader: canceled");
    if (known) {
        if (err) *err = *known;
        return known->status;
    }
    if (loader->consumer.finished || loader->consumer.ended) return ITER_END;
    /* By the position, so that the answer does not depend on how far the workers are. */
    iter__span span;
    const bool end_ahead = (loader->queue.count && !iter__queue_at(loader, 0)->batch) ||
                           (loader->sampling.order->by_position &&
                            !iter__cut_batch(&loader->cut, &loader->consumer.position, &span));
    if (end_ahead || loader->consumer.n_held < loader->opt.max_held) return ITER_AGAIN;
    return iter__fail(err, ITER_ESTATE,
                      "next: %u batches are held, as many as max_held allows; unref one first",
                      loader->consumer.n_held);
}

/* Answers with the head of the queue, a READY batch or an END. loader.lock held. */
static iter_status answer_head(iter_loader *loader, int64_t start, iter_batch **out,
                               iter_error *err) {
    const int64_t end = iter__now_ns();
    atomic_fetch_add_explicit(&loader->stats.next_wait_ns, (unsigned long long)(end - start),
                              memory_order_relaxed);
    const iter__entry *head = iter__queue_at(loader, 0);
    if (head->batch) {
        const bool profiling = iter__profiling();
        head->batch->taken_ns = profiling ? end : 0;
        if (profiling) profile_next(head->batch, start, end);
        return take(loader, out, err);
    }
    loader->consumer.position = head->after;
    loader->consumer.ended = true;
    return ITER_END;
}

static iter_status next_locked(iter_loader *loader, patience *wait, iter_batch **out,
                               iter_error *err) {
    for (;;) {
        const unsigned seen = iter__event_look(&loader->ready); /* before the state is checked */
        const iter_status known = answer_at_once(loader, err);
        if (known != ITER_AGAIN) return known;
        const iter__entry *head = loader->queue.count ? iter__queue_at(loader, 0) : NULL;
        if (head && (!head->batch || head->batch->state == BATCH_READY))
            return answer_head(loader, wait->since_ns, out, err);
        if (!wait_once(loader, wait, seen)) return end_waiting(loader, wait, err);
    }
}

iter_status iter_loader_next_within(iter_loader *loader, int64_t timeout_ms, iter_batch **out,
                                    iter_error *err) {
    *out = NULL;
    ITER_TRY(iter__check_call(loader, err));
    if (timeout_ms > ITER_LONGEST_MS) timeout_ms = -1;
    const int64_t now = iter__now_ns();
    patience wait = {now, timeout_ms < 0 ? -1 : timeout_ms * 1000000, now, false};
    atomic_llong *waiting = loader->opt.watch.stall_ms ? &loader->watch.waiting_since : NULL;
    iter__next_begins(loader, wait.start_ns);
    pthread_mutex_lock(&loader->lock);
    if (loader->consumer.timed_out_since) wait.since_ns = loader->consumer.timed_out_since;
    loader->consumer.timed_out_since = 0; /* unless this call times out, too */
    if (waiting) atomic_store_explicit(waiting, wait.since_ns, memory_order_relaxed);
    const iter_status status = next_locked(loader, &wait, out, err);
    pthread_mutex_unlock(&loader->lock);
    iter__next_ends(loader, wait.start_ns, status);
    if (waiting) atomic_store_explicit(waiting, 0, memory_order_relaxed);
    return status;
}

iter_status iter_loader_next(iter_loader *loader, iter_batch **out, iter_error *err) {
    const int64_t timeout_ms = loader->opt.faults.timeout_ms;
    return iter_loader_next_within(loader, timeout_ms ? timeout_ms : -1, out, err);
}

/* ---- reset ----------------------------------------------------------------------------------- */

/* Empties the queue. A batch that a thread is opening just now is dropped at its commit.
 * loader.lock held. */
static void drop_ahead(iter_loader *loader) {
    iter__queue_clear(loader);
    atomic_fetch_add(&loader->opener.moves, 1);
}

/* Wakes all threads, because the loader goes on at another place. loader.lock held. */
static void tell_moved(iter_loader *loader) {
    iter__event_wake(&loader->work, ITER_WAKE_ALL);
    iter__event_wake(&loader->ready, ITER_WAKE_ALL);
    iter__reading_wake(loader);
}

void iter__loader_go(iter_loader *loader, const iter__cursor *cursor, uint64_t number) {
    iter__opener *opener = &loader->opener;
    const iter__cursor start = iter__cut_epoch(&loader->cut, cursor->epoch);
    drop_ahead(loader);
    loader->consumer.position = opener->at = *cursor;
    loader->consumer.number = number;
    loader->consumer.moved = cursor->ended || cursor->sample != start.sample;
    loader->consumer.ended = false;
    loader->consumer.timed_out_since = 0;
    opener->number = opener->replay = 0;
    opener->epoch_begun = opener->any = opener->stream_ended = false;
    opener->done = loader->opt.epochs && cursor->epoch >= loader->opt.epochs;
    loader->consumer.finished = opener->done;
    loader->consumer.sampler_at_bytes = 0;
    tell_moved(loader);
}

/* If an END is in the queue, drops all batches before it and returns true. loader.lock held. */
static bool drop_to_end(iter_loader *loader) {
    uint32_t at = 0;
    while (at < loader->queue.count && iter__queue_at(loader, at)->batch)
        at++;
    if (at == loader->queue.count) return false;
    iter__queue_drop(loader, at);
    return true;
}

static iter_status reset_locked(iter_loader *loader) {
    if (loader->consumer.finished) return ITER_END;
    if (!loader->consumer.ended && loader->consumer.number == 0 && !loader->consumer.moved)
        return ITER_OK;
    const uint32_t next = loader->consumer.position.epoch + 1;
    if (next == 0 || (loader->opt.epochs && next >= loader->opt.epochs)) {
        drop_ahead(loader);
        loader->opener.done = loader->consumer.finished = true;
        tell_moved(loader);
        return ITER_END;
    }
    loader->consumer.moved = false;
    if (drop_to_end(loader)) { /* keeps batches of the next epoch that were made ahead */
        iter__queue_pop(loader);
        loader->consumer.position = iter__cut_epoch(&loader->cut, next);
        loader->consumer.number = 0;
        loader->consumer.sampler_at_bytes = 0;
        loader->consumer.ended = false;
        loader->consumer.timed_out_since = 0;
        tell_moved(loader);
    } else {
        const iter__cursor cursor = iter__cut_epoch(&loader->cut, next);
        iter__loader_go(loader, &cursor, 0);
    }
    return ITER_OK;
}

iter_status iter_loader_reset(iter_loader *loader, iter_error *err) {
    ITER_TRY(iter__check_call(loader, err));
    pthread_mutex_lock(&loader->lock);
    const iter_status status = reset_locked(loader);
    pthread_mutex_unlock(&loader->lock);
    return status;
}

/* ---- End of life ----------------------------------------------------------------------------- */

/* Takes no lock, because it may run in a signal handler. It does not wake a thread that waits in
 * the source; that one notices after WAIT_NS (reads.c) at the latest. */
void iter_loader_cancel(iter_loader *loader) {
    if (iter__is_orphan(loader)) return;
    atomic_store(&loader->ending.canceled, true);
    iter__event_wake(&loader->work, ITER_WAKE_ALL);
    iter__event_wake(&loader->ready, ITER_WAKE_ALL);
}

void iter__loader_hold_drop(iter_loader *loader) {
    /* acq_rel: the thread that frees sees everything that the others did. */
    if (atomic_fetch_sub_explicit(&loader->holds, 1, memory_order_acq_rel) == 1)
        iter__loader_free(loader);
}

/* Whether the calling thread is a worker of the loader. loader.lock held. */
static bool is_worker_thread(const iter_loader *loader) {
    for (int32_t i = 0; loader->workers.all && i < loader->workers.n; i++) {
        if (loader->workers.all[i].running &&
            pthread_equal(loader->workers.all[i].thread, pthread_self()))
            return true;
    }
    return false;
}

/* Detaches a worker that does not leave in time. It gets a hold, so the memory stays until it
 * leaves. loader.lock held. */
static void let_go(iter__worker *worker) {
    iter_loader *loader = worker->loader;
    worker->detached = true;
    worker->running = false;
    atomic_fetch_add_explicit(&loader->holds, 1, memory_order_relaxed);
    pthread_detach(worker->thread);
}

/* Joins the workers; detaches those that are still busy after grace_ms. A worker that calls stop()
 * itself waits for no other. */
static iter_status wait_for_threads(iter_loader *loader, iter_error *err) {
    iter_status status = ITER_OK;
    pthread_mutex_lock(&loader->lock);
    const bool own = is_worker_thread(loader);
    const int64_t grace = own ? 0 : loader->ending.grace_ms * 1000000;
    struct timespec until;
    iter__deadline(grace, &until);
    uint32_t running = 0;
    for (int32_t i = 0; i < loader->workers.n; i++)
        running += loader->workers.all[i].running;
    while (loader->ending.n_gone < running &&
           pthread_cond_timedwait(&loader->ending.left, &loader->lock, &until) != ETIMEDOUT) {
    }
    for (int32_t i = 0; i < loader->workers.n; i++) {
        iter__worker *worker = &loader->workers.all[i];
        if (!worker->running || worker->gone) continue;
        let_go(worker);
        if (own || status < 0) continue;
        const unsigned long long index = atomic_load(&worker->activity.index);
        char sample[48] = "";
        if (index != ITER_UNKNOWN) snprintf(sample, sizeof(sample), "sample %llu of ", index);
        status = iter__fail(err, ITER_ETIMEDOUT,
                            "stop: worker %d is still busy with %s%s (%s) after %lld ms; its "
                            "thread, the slots and the arena are left to it",
                            i, sample, loader->dataset->name,
                            loader->workers.stages[atomic_load(&worker->activity.stage)],
                            (long long)loader->ending.grace_ms);
    }
    pthread_mutex_unlock(&loader->lock);
    for (int32_t i = 0; i < loader->workers.n; i++) {
        pthread_mutex_lock(&loader->lock); /* statistics read `running` */
        const bool joins = loader->workers.all[i].running;
        loader->workers.all[i].running = false;
        pthread_mutex_unlock(&loader->lock);
        if (joins) pthread_join(loader->workers.all[i].thread, NULL);
    }
    return status;
}

/* Without workers no thread reaps the reads in flight, so this does, for at most grace_ms. */
static iter_status wait_for_reads(iter_loader *loader, iter_error *err) {
    if (atomic_load(&loader->reading.pending) == 0) return ITER_OK; /* options may be unchecked */
    const int64_t until = iter__now_ns() + loader->ending.grace_ms * 1000000;
    while (atomic_load(&loader->reading.pending) > 0) {
        const int64_t left = until - iter__now_ns();
        bool expected = false;
        if (left <= 0) {
            /* A hold that is never dropped: reads may still write to the memory. */
            atomic_fetch_add_explicit(&loader->holds, 1, memory_order_relaxed);
            return iter__fail(
                err, ITER_ETIMEDOUT,
                "stop: %u reads have not ended after %lld ms; slots and arena are left to them",
                atomic_load(&loader->reading.pending), (long long)loader->ending.grace_ms);
        }
        if (atomic_compare_exchange_strong(&loader->reading.has_reader, &expected, true))
            iter__reading_wait(&loader->workers.all[0], left);
    }
    return ITER_OK;
}

/* Leaks the memory, by a hold that is never dropped, when a GPU still reads slots after
 * grace_ms. */
static iter_status wait_for_device(iter_loader *loader, iter_error *err) {
    const iter_status status = iter__device_slots_settle(loader, err);
    if (status == ITER_ETIMEDOUT)
        atomic_fetch_add_explicit(&loader->holds, 1, memory_order_relaxed);
    return status;
}

/* Only the first call of stop() gets here; the others wait for its result. */
static iter_status stop_now(iter_loader *loader, iter_error *err) {
    if (!loader->workers.all) return ITER_OK;
    iter__watch_cancel(loader);
    iter__reading_cancel(loader);
    iter_status status = wait_for_threads(loader, err);
    if (status == ITER_OK && loader->workers.n == 0) status = wait_for_reads(loader, err);
    if (status == ITER_OK && loader->device.handle) status = wait_for_device(loader, err);
    const iter_status watch = iter__watch_stop(loader, status == ITER_OK ? err : NULL);
    return status < 0 ? status : watch;
}

iter_status iter_loader_stop(iter_loader *loader, iter_error *err) {
    return iter_loader_stop_within(loader, -1, err);
}

iter_status iter_loader_stop_within(iter_loader *loader, int64_t grace_ms, iter_error *err) {
    if (iter__is_orphan(loader)) return iter__fail(err, ITER_ESTATE, "loader: made before fork()");
    iter_loader_cancel(loader);
    iter_error error = {.status = ITER_OK};
    pthread_mutex_lock(&loader->lock);
    if (loader->ending.state == LOADER_RUNS) {
        loader->ending.state = LOADER_STOPS;
        if (grace_ms >= 0 && grace_ms < loader->ending.grace_ms) loader->ending.grace_ms = grace_ms;
        pthread_mutex_unlock(&loader->lock);
        const iter_status status = stop_now(loader, &error);
        error.status = status;
        pthread_mutex_lock(&loader->lock);
        loader->ending.error = error;
        loader->ending.state = LOADER_STOPPED;
        pthread_cond_broadcast(&loader->ending.left);
    }
    /* Every call returns what the first one does. But a worker and the watchdog must not wait for
     * that, because the first call waits for them. */
    const bool own = is_worker_thread(loader) || iter__is_watch_thread(loader);
    while (loader->ending.state != LOADER_STOPPED && !own)
        pthread_cond_wait(&loader->ending.left, &loader->lock);
    if (loader->ending.state == LOADER_STOPPED) error = loader->ending.error;
    pthread_mutex_unlock(&loader->lock);
    if (error.status < 0 && err) *err = error;
    return error.status;
}

iter_loader *iter_loader_ref(iter_loader *loader) {
    atomic_fetch_add_explicit(&loader->refs, 1, memory_order_relaxed);
    return loader;
}

void iter_loader_unref(iter_loader *loader) {
    if (!loader || atomic_fetch_sub_explicit(&loader->refs, 1, memory_order_acq_rel) != 1) return;
    /* a child of fork() has no threads to stop and leaves everything as it is */
    if (loader->alive && iter__is_orphan(loader)) return;
    if (loader->diagnose_hook) loader->diagnose_hook(loader, 1);
    iter_error ignored; /* a caller that needs it calls iter_loader_stop() before */
    iter_status status = loader->alive ? iter_loader_stop(loader, &ignored) : ITER_OK;
    /* Without workers, a next() in another thread may have issued reads after an earlier stop() had
     * waited for them. No call can issue any more now. */
    if (status == ITER_OK && loader->workers.n == 0) status = wait_for_reads(loader, &ignored);
    (void)status;
    iter__loader_hold_drop(loader);
}

/* ---- Facts ----------------------------------------------------------------------------------- */

void iter__facts_lock(iter_loader *loader) {
    if (!iter__is_orphan(loader)) pthread_mutex_lock(&loader->lock);
}

void iter__facts_unlock(iter_loader *loader) {
    if (!iter__is_orphan(loader)) pthread_mutex_unlock(&loader->lock);
}

uint64_t iter_loader_n_batches(iter_loader *loader) {
    iter__facts_lock(loader);
    const uint64_t n = iter__cut_n_batches(&loader->cut, loader->consumer.position.epoch);
    iter__facts_unlock(loader);
    return n;
}

iter_loader_share iter_loader_share_of(const iter_loader *loader) {
    const iter_loader_options *opt = &loader->opt;
    return (iter_loader_share){.rank = opt->rank,
                               .ranks = opt->ranks,
                               .global_batch = opt->global_batch,
                               .micro_batches = opt->micro_batches,
                               .seed = opt->seed,
                               .dataset = iter__dataset_id(loader),
                               .chain = iter__chain_id(loader),
                               .sampler = loader->sampling.id};
}

uint64_t iter_loader_n_samples(iter_loader *loader) {
    return loader->cut.n;
}

void iter_loader_position(iter_loader *loader, uint32_t *out_epoch, uint64_t *out_samples) {
    iter__facts_lock(loader);
    *out_epoch = loader->consumer.position.epoch;
    *out_samples = loader->consumer.position.sample;
    iter__facts_unlock(loader);
}

int32_t iter_loader_n_fields(const iter_loader *loader) {
    return loader->plan.n_fields;
}

const iter_batch_field *iter_loader_field(const iter_loader *loader, int32_t i) {
    return i >= 0 && i < loader->plan.n_fields ? &loader->plan.fields[i].out : NULL;
}

const char *iter_loader_plan_text(const iter_loader *loader) {
    return loader->plan.text;
}
