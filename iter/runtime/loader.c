/*
 * loader.c - what the consumer calls: next, reset, cancel, stop, and the reference counts.
 *
 * `refs` counts handles; the last one stops the threads. `holds` counts whoever needs the memory:
 * the handles together, every batch that is out, every thread that could not be joined. Shutdown
 * has three steps: cancel (wakes everyone) - stop (joins, at most grace_ms) - free.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/runtime/runtime.h"

iter_status iter__check_call(iter_loader *loader, iter_error *err) {
    if (*(volatile uint32_t *)loader->alive != 1) {
        return iter__fail(err, ITER_ESTATE, "loader: made before fork(); a child makes its own");
    }
    if (iter__in_callback_of == loader) {
        return iter__fail(err, ITER_ESTATE, "loader: called from one of its own callbacks");
    }
    if (atomic_load_explicit(&loader->canceled, memory_order_acquire)) {
        return iter__fail(err, ITER_ECANCELED, "loader: canceled");
    }
    return ITER_OK;
}

void iter__fallback(iter_loader *loader, const char *text) {
    for (int32_t i = 0; i < loader->n_fallbacks; i++) {
        if (strcmp(loader->fallbacks[i], text) == 0) return;
    }
    if (loader->n_fallbacks == ITER_STATS_FALLBACKS) return;
    snprintf(loader->fallbacks[loader->n_fallbacks++], sizeof(loader->fallbacks[0]), "%s", text);
}

/* ---- next ------------------------------------------------------------------------------------ */

/* Writes what the batch at the head of the queue waits for. loader.lock held. */
static iter_status say_timeout(iter_loader *loader, iter_error *err) {
    iter_stall stall;
    iter__stall_find(loader, true, loader->opt.timeout_ms * 1000000, &stall);
    return iter__fail(err, ITER_ETIMEDOUT, "next: %s", stall.message);
}

/* Waits until the head of the queue can be answered. loader.lock held; deadline_ns 0 = for ever. */
static iter_status wait_for_head(iter_loader *loader, int64_t deadline_ns, iter_error *err) {
    for (;;) {
        if (atomic_load(&loader->canceled))
            return iter__fail(err, ITER_ECANCELED, "loader: canceled");
        if (loader->broken) {
            if (err) *err = loader->broken_error;
            return loader->broken_error.status;
        }
        if (loader->queue_count) {
            const iter_entry *head = iter__queue_at(loader, 0);
            if (!head->batch || head->batch->state == BATCH_READY) return ITER_OK;
        }
        const int64_t left = deadline_ns ? deadline_ns - iter__now_ns() : -1;
        if (deadline_ns && left <= 0) return say_timeout(loader, err);
        if (loader->n_workers == 0) {
            pthread_mutex_unlock(&loader->lock);
            iter__work_once(loader, &loader->workers[0], false, left);
            pthread_mutex_lock(&loader->lock);
        } else {
            struct timespec until;
            if (deadline_ns) iter__deadline(left, &until);
            loader->consumer_waits = true;
            if (deadline_ns) {
                pthread_cond_timedwait(&loader->ready, &loader->lock, &until);
            } else {
                pthread_cond_wait(&loader->ready, &loader->lock);
            }
            loader->consumer_waits = false;
        }
    }
}

/* Books the failures of a batch that is delivered now. */
static void book_failures(iter_loader *loader, const iter_batch *batch) {
    if (!batch->info.n_failed) return;
    for (uint32_t row = 0; row < batch->info.n_rows; row++) {
        if (batch->row_status[row] == ITER_OK) continue;
        loader->n_failures++;
        if (loader->n_failures_kept < ITER_FAILURES_MAX)
            loader->failures[loader->n_failures_kept++] = batch->failures[row];
    }
}

/* Whether max_failures is exceeded with this batch; then the loader is done for. */
static bool gives_up(iter_loader *loader, const iter_batch *batch) {
    if (!loader->opt.max_failures || loader->n_failures <= loader->opt.max_failures) return false;
    const iter_failure *last =
        loader->n_failures_kept ? &loader->failures[loader->n_failures_kept - 1] : NULL;
    loader->gave_up = true;
    iter__fail(&loader->gave_up_error, last ? last->status : ITER_EIO,
               "%llu samples failed on this rank, more than max_failures = %u, by batch %llu of "
               "epoch %u; the last: %s",
               (unsigned long long)loader->n_failures, loader->opt.max_failures,
               (unsigned long long)batch->info.number, batch->info.epoch,
               last ? last->message : "?");
    return true;
}

/* Takes the READY batch at the head. loader.lock held. */
static iter_status take(iter_loader *loader, iter_batch **out, iter_error *err) {
    iter_batch *batch = iter__queue_at(loader, 0)->batch;
    iter__queue_pop(loader);
    loader->position = batch->after;
    loader->position_number++;
    memcpy(loader->sampler_at, batch->sampler_after, batch->sampler_after_bytes);
    loader->sampler_at_bytes = batch->sampler_after_bytes;
    book_failures(loader, batch);
    iter_status status = batch->status;
    if (gives_up(loader, batch)) {
        if (err) *err = loader->gave_up_error;
        status = loader->gave_up_error.status;
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
    loader->n_held++;
    atomic_fetch_add_explicit(&loader->n_batches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->n_samples, batch->info.n_rows, memory_order_relaxed);
    uint64_t bytes = 0;
    for (int32_t f = 0; f < loader->plan.n_fields; f++)
        bytes += iter_desc_bytes(&batch->tensors[f].desc);
    atomic_fetch_add_explicit(&loader->n_bytes, bytes, memory_order_relaxed);
    *out = batch;
    return ITER_OK;
}

static void profile_next(const iter_batch *batch, int64_t start, int64_t end) {
    const iter_profile_record record = iter__profile_span(batch, PROFILE_NEXT, start, end);
    iter__profile_put(&record);
}

static iter_status next_locked(iter_loader *loader, iter_batch **out, iter_error *err) {
    if (loader->gave_up) {
        if (err) *err = loader->gave_up_error;
        return loader->gave_up_error.status;
    }
    if (loader->finished || loader->ended) return ITER_END;
    iter_span
        span; /* by the position, so that the answer does not depend on how far the workers are */
    const bool end_ahead = (loader->queue_count && !iter__queue_at(loader, 0)->batch) ||
                           (loader->sampler->index && !loader->stream &&
                            !iter__cut_batch(&loader->cut, &loader->position, &span));
    if (!end_ahead && loader->n_held >= loader->opt.max_held) {
        return iter__fail(err, ITER_ESTATE,
                          "next: %u batches are held, as many as max_held allows; unref one first",
                          loader->n_held);
    }
    const int64_t start = iter__now_ns();
    ITER_TRY(wait_for_head(
        loader, loader->opt.timeout_ms ? start + loader->opt.timeout_ms * 1000000 : 0, err));
    const int64_t end = iter__now_ns();
    atomic_fetch_add_explicit(&loader->next_wait_ns, (unsigned long long)(end - start),
                              memory_order_relaxed);
    const iter_entry *head = iter__queue_at(loader, 0);
    if (head->batch) {
        const bool profiling = iter__profiling();
        head->batch->taken_ns = profiling ? end : 0;
        if (profiling) profile_next(head->batch, start, end);
        return take(loader, out, err);
    }
    loader->position = head->after;
    loader->ended = true;
    return ITER_END;
}

iter_status iter_loader_next(iter_loader *loader, iter_batch **out, iter_error *err) {
    *out = NULL;
    ITER_TRY(iter__check_call(loader, err));
    atomic_llong *waiting = loader->opt.stall_ms ? &loader->watch.waiting_since : NULL;
    if (waiting) atomic_store_explicit(waiting, iter__now_ns(), memory_order_relaxed);
    pthread_mutex_lock(&loader->lock);
    const iter_status status = next_locked(loader, out, err);
    pthread_mutex_unlock(&loader->lock);
    if (waiting) atomic_store_explicit(waiting, 0, memory_order_relaxed);
    return status;
}

/* ---- reset ----------------------------------------------------------------------------------- */

/* Everything made ahead is dropped; work goes on at `cursor`. loader.lock held. */
void iter__loader_go(iter_loader *loader, const iter_cursor *cursor) {
    iter__queue_clear(loader);
    loader->position = loader->opener = *cursor;
    loader->position_number = loader->opener_number = 0;
    loader->ended = loader->finished = false;
    loader->opener_epoch_begun = loader->opener_any = loader->stream_ended = false;
    loader->opener_done = loader->opt.epochs && cursor->epoch >= loader->opt.epochs;
    loader->finished = loader->opener_done;
    loader->replay = 0;
    loader->sampler_at_bytes = 0;
    pthread_cond_broadcast(&loader->work);
    iter__io_wake(loader);
}

/* Whether END stands somewhere in the queue; drops everything before it. loader.lock held. */
static bool drop_to_end(iter_loader *loader) {
    uint32_t at = 0;
    while (at < loader->queue_count && iter__queue_at(loader, at)->batch)
        at++;
    if (at == loader->queue_count) return false;
    iter__queue_drop(loader, at);
    return true;
}

static iter_status reset_locked(iter_loader *loader) {
    if (loader->finished) return ITER_END;
    if (!loader->ended && loader->position_number == 0 && !loader->moved) return ITER_OK;
    const uint32_t next = loader->position.epoch + 1;
    if (next == 0 || (loader->opt.epochs && next >= loader->opt.epochs)) {
        iter__queue_clear(loader);
        loader->opener_done = loader->finished = true;
        return ITER_END;
    }
    loader->moved = false;
    if (drop_to_end(loader)) { /* the next epoch's batches, made ahead, are kept */
        iter__queue_pop(loader);
        loader->position = iter__cut_epoch(&loader->cut, next);
        loader->position_number = 0;
        loader->sampler_at_bytes = 0;
        loader->ended = false;
        pthread_cond_broadcast(&loader->work);
        iter__io_wake(loader);
    } else {
        const iter_cursor cursor = iter__cut_epoch(&loader->cut, next);
        iter__loader_go(loader, &cursor);
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

void iter_loader_cancel(iter_loader *loader) {
    if (*(volatile uint32_t *)loader->alive != 1) return;
    atomic_store_explicit(&loader->canceled, true, memory_order_release);
    pthread_mutex_lock(&loader->lock);
    loader->stopping = true;
    pthread_cond_broadcast(&loader->work);
    pthread_cond_broadcast(&loader->ready);
    pthread_mutex_unlock(&loader->lock);
    iter__watch_cancel(loader);
    iter__io_cancel(loader);
}

void iter__loader_hold_drop(iter_loader *loader) {
    /* acq_rel: who frees has seen all that the others did. */
    if (atomic_fetch_sub_explicit(&loader->holds, 1, memory_order_acq_rel) == 1)
        iter__loader_free(loader);
}

static bool is_own_thread(const iter_loader *loader) {
    for (int32_t i = 0; i < loader->n_workers; i++) {
        if (loader->workers[i].running && pthread_equal(loader->workers[i].thread, pthread_self()))
            return true;
    }
    return false;
}

/* A thread that is not waited for: it takes a hold of its own, and the memory stays until it
 * leaves. loader.lock held. */
static void let_go(iter_loader *loader, iter_worker *worker) {
    worker->detached = true;
    worker->running = false;
    atomic_fetch_add_explicit(&loader->holds, 1, memory_order_relaxed);
    pthread_detach(worker->thread);
}

static iter_status wait_for_threads(iter_loader *loader, iter_error *err) {
    const bool own = is_own_thread(loader);
    const int64_t grace = own ? 0 : loader->opt.grace_ms * 1000000;
    struct timespec until;
    iter__deadline(grace, &until);
    iter_status status = ITER_OK;
    pthread_mutex_lock(&loader->lock);
    uint32_t running = 0;
    for (int32_t i = 0; i < loader->n_workers; i++)
        running += loader->workers[i].running;
    while (loader->n_gone < running &&
           pthread_cond_timedwait(&loader->left, &loader->lock, &until) != ETIMEDOUT) {
    }
    for (int32_t i = 0; i < loader->n_workers; i++) {
        iter_worker *worker = &loader->workers[i];
        if (!worker->running || worker->gone) continue;
        let_go(loader, worker);
        if (own || status < 0) continue;
        const unsigned long long index = atomic_load(&worker->activity.index);
        char sample[48] = "";
        if (index != ITER_UNKNOWN) snprintf(sample, sizeof(sample), "sample %llu of ", index);
        status = iter__fail(err, ITER_ETIMEDOUT,
                            "stop: worker %d is still busy with %s%s (%s) after %lld ms; its "
                            "thread, the slots and the arena are left to it",
                            i, sample, loader->dataset->name,
                            loader->stages[atomic_load(&worker->activity.stage)],
                            (long long)loader->opt.grace_ms);
    }
    pthread_mutex_unlock(&loader->lock);
    for (int32_t i = 0; i < loader->n_workers; i++) {
        if (!loader->workers[i].running) continue;
        pthread_join(loader->workers[i].thread, NULL);
        loader->workers[i].running = false;
    }
    return status;
}

/* Without workers the caller's thread has reads in flight: they are waited for here, at most
 * grace_ms. */
static iter_status wait_for_reads(iter_loader *loader, iter_error *err) {
    const int64_t until = iter__now_ns() + loader->opt.grace_ms * 1000000;
    while (atomic_load(&loader->io.pending) > 0) {
        const int64_t left = until - iter__now_ns();
        bool expected = false;
        if (left <= 0) {
            atomic_fetch_add_explicit(
                &loader->holds, 1,
                memory_order_relaxed); /* never given back: the memory may still be written */
            return iter__fail(
                err, ITER_ETIMEDOUT,
                "stop: %u reads have not ended after %lld ms; slots and arena are left to them",
                atomic_load(&loader->io.pending), (long long)loader->opt.grace_ms);
        }
        if (atomic_compare_exchange_strong(&loader->io.reading, &expected, true))
            iter__io_wait(loader, &loader->workers[0], left);
    }
    return ITER_OK;
}

/* Slots that a GPU still reads are left to it. */
static iter_status wait_for_device(iter_loader *loader, iter_error *err) {
    const iter_status status = iter__device_slots_settle(loader, err);
    if (status == ITER_ETIMEDOUT)
        atomic_fetch_add_explicit(&loader->holds, 1, memory_order_relaxed); /* never given back */
    return status;
}

iter_status iter_loader_stop(iter_loader *loader, iter_error *err) {
    if (*(volatile uint32_t *)loader->alive != 1)
        return iter__fail(err, ITER_ESTATE, "loader: made before fork()");
    iter_loader_cancel(loader);
    pthread_mutex_lock(&loader->lock);
    const bool again = loader->stopped;
    loader->stopped = true;
    pthread_mutex_unlock(&loader->lock);
    if (again || !loader->workers) return ITER_OK;
    iter_status status = wait_for_threads(loader, err);
    if (status == ITER_OK && loader->n_workers == 0) status = wait_for_reads(loader, err);
    if (status == ITER_OK && loader->device.handle) status = wait_for_device(loader, err);
    const iter_status watch = iter__watch_stop(loader, status == ITER_OK ? err : NULL);
    return status < 0 ? status : watch;
}

iter_loader *iter_loader_ref(iter_loader *loader) {
    atomic_fetch_add_explicit(&loader->refs, 1, memory_order_relaxed);
    return loader;
}

void iter_loader_unref(iter_loader *loader) {
    if (!loader || atomic_fetch_sub_explicit(&loader->refs, 1, memory_order_acq_rel) != 1) return;
    if (loader->alive && *(volatile uint32_t *)loader->alive != 1)
        return; /* a child of fork() has no threads to stop: it leaves all as it is */
    iter_error ignored;
    const iter_status status = loader->alive ? iter_loader_stop(loader, &ignored) : ITER_OK;
    (void)status; /* who wants to know calls iter_loader_stop() */
    iter__loader_hold_drop(loader);
}

/* ---- Facts ----------------------------------------------------------------------------------- */

uint64_t iter_loader_n_batches(iter_loader *loader) {
    pthread_mutex_lock(&loader->lock);
    const uint64_t n = iter__cut_n_batches(&loader->cut, loader->position.epoch);
    pthread_mutex_unlock(&loader->lock);
    return n;
}

uint64_t iter_loader_n_samples(iter_loader *loader) {
    return loader->cut.n;
}

void iter_loader_position(iter_loader *loader, uint32_t *out_epoch, uint64_t *out_samples) {
    pthread_mutex_lock(&loader->lock);
    *out_epoch = loader->position.epoch;
    *out_samples = loader->position.sample;
    pthread_mutex_unlock(&loader->lock);
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
