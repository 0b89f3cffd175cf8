/* work.c - one chunk from CLAIMED to DONE, and the batch stages after a batch's last chunk. */
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/observe/activity.h"
#include "iter/observe/batch_profile.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/loader_state.h"

/* ---- After the last chunk -------------------------------------------------------------------- */

static void copy_lengths(const iter_loader *loader, iter_batch *batch) {
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (field->lengths_of < 0) continue;
        memcpy(batch->memory + field->slot_offset, batch->lengths[field->lengths_of],
               4 * (size_t)batch->info.n_rows);
    }
}

static iter_status run_batch_stages(iter__worker *worker, iter_batch *batch) {
    iter_loader *loader = worker->loader;
    iter_batch_view views[ITER_MAX_OUT];
    const bool collates = loader->opt.collate != NULL;
    iter__error_clear(&batch->error);
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (!collates && field->n_batch_steps == 0) continue;
        iter_batch_view *view = &views[f];
        *view = (iter_batch_view){.tensor = batch->tensors[f],
                                  .n_rows = batch->info.n_rows,
                                  .capacity_bytes = field->slot_bytes,
                                  .lengths = batch->lengths[f],
                                  .scratch = worker->batch_scratch};
        for (int32_t i = 0; i < field->n_batch_steps; i++) {
            const iter__stage *stage = field->batch_steps[i].stage;
            const iter_status status = stage->ops->apply_batch(stage->options, view, &batch->error);
            if (status < 0) {
                return iter__fail_in(&batch->error, status, "%s (batch %llu of epoch %u)",
                                     stage->ops->base.name, (unsigned long long)batch->info.number,
                                     batch->info.epoch);
            }
        }
        batch->tensors[f] = view->tensor;
    }
    if (!collates) return ITER_OK;
    const iter_status status =
        loader->opt.collate(loader->opt.collate_user, views, loader->plan.n_fields, &batch->error);
    if (status < 0)
        return iter__fail_in(&batch->error, status, "collate (batch %llu of epoch %u)",
                             (unsigned long long)batch->info.number, batch->info.epoch);
    for (int32_t f = 0; f < loader->plan.n_fields; f++)
        batch->tensors[f] = views[f].tensor;
    return ITER_OK;
}

/* Sets how long a stream's batch became. True = it is discarded: the stream had ended, or the
 * batch is short and last_batch is DISCARD. loader.lock held. */
static bool settle_stream(iter_loader *loader, iter_batch *batch) {
    iter__opener *opener = &loader->opener;
    opener->stream_busy = false;
    if (batch->dropped) return false;
    const uint32_t n = batch->info.n_rows;
    if (n < loader->opt.batch_size || batch->status < 0) opener->stream_ended = true;
    const bool discard =
        n == 0 || (n < loader->opt.batch_size && loader->opt.last_batch == ITER_LAST_DISCARD);
    if (discard && batch->status >= 0) {
        iter__queue_pop_newest(loader); /* it is this batch: streams open one at a time */
        if (n == 0 && batch->info.number == 0) opener->any = false;
        return true;
    }
    opener->at.sample += n;
    batch->after = opener->at;
    return false;
}

static void publish(iter_loader *loader, iter_batch *batch) {
    bool wakes = false;
    pthread_mutex_lock(&loader->lock);
    const bool none = loader->sampling.order->is_stream && settle_stream(loader, batch);
    if (none || batch->dropped) {
        iter__batch_give_back(batch);
    } else {
        batch->state = BATCH_READY;
        wakes = loader->consumer.waits && loader->queue.count &&
                iter__queue_at(loader, 0)->batch == batch;
    }
    pthread_mutex_unlock(&loader->lock);
    /* After unlocking, or the consumer would wake only to wait for the lock. The loader still
     * exists: it outlives its workers. */
    if (wakes) iter__event_wake(&loader->ready, 1);
}

void iter__chunk_done(iter__worker *worker, iter_batch *batch, uint32_t n_chunks) {
    iter_loader *loader = worker->loader;
    /* acq_rel: the thread that ends the batch sees all of its rows. */
    if (atomic_fetch_sub_explicit(&batch->chunks_left, n_chunks, memory_order_acq_rel) != n_chunks)
        return;
    const bool dropped = atomic_load_explicit(&batch->dropped, memory_order_relaxed);
    if (!dropped) iter__batch_judge(loader, batch);
    if (batch->status >= 0 && !dropped && !loader->opt.reading.only_reads) {
        const int64_t start = iter__now_ns();
        iter__activity_of(worker, batch, start);
        iter__activity_set(worker, ACTIVITY_BATCH, ITER_UNKNOWN);
        copy_lengths(loader, batch);
        const iter_status status = run_batch_stages(worker, batch);
        if (status < 0) batch->status = status;
        if (batch->status >= 0 && batch->device.tensors) iter__batch_send(loader, batch);
        const int64_t end = iter__now_ns();
        atomic_fetch_add_explicit(&loader->stats.batch_ns, (unsigned long long)(end - start),
                                  memory_order_relaxed);
        if (iter__profiling()) iter__profile_batch(batch, start, end);
    }
    publish(loader, batch);
}

static void make_stream_rows(iter__worker *worker, iter_batch *batch) {
    iter_loader *loader = worker->loader;
    batch->error.message[0] = 0;
    const uint32_t n = iter__rows_stream(worker, batch, &batch->error);
    if (batch->status < 0 && !batch->error.message[0]) {
        iter__fail(&batch->error, batch->status, "%s: next() failed", loader->dataset->name);
    }
    iter__rows_mend(worker, batch, 0, n);
    batch->info.n_rows = batch->info.n_valid = batch->info.global_rows = n;
    for (int32_t f = 0; f < loader->plan.n_fields; f++)
        batch->tensors[f].desc.dims[0] = n;
}

/* Counts the chunk's bytes, by the size of its samples: for its worker and, when files are
 * preloaded, as bytes from memory. */
static void count_bytes(iter__worker *worker, const iter__chunk *chunk) {
    iter_loader *loader = worker->loader;
    const iter_description *desc = &loader->dataset->desc;
    uint64_t bytes = 0;
    if (loader->plan.has_set || desc->n_extents == 0) return; /* no bytes */
    if (loader->plan.needs_bytes) {
        const iter_extent *extents = chunk->batch->extents + (size_t)chunk->first * desc->n_extents;
        for (uint32_t i = 0; i < chunk->n * (uint32_t)desc->n_extents; i++)
            bytes += extents[i].size;
    } else {
        for (int32_t e = 0; e < desc->n_extents; e++)
            bytes += chunk->n * desc->max_extent_bytes[e];
    }
    atomic_fetch_add_explicit(&worker->bytes, bytes, memory_order_relaxed);
    if (loader->loaded.preload)
        atomic_fetch_add_explicit(&loader->reading.path_bytes[ITER_PATH_MEMORY], bytes,
                                  memory_order_relaxed);
}

void iter__chunk_work(iter__worker *worker, iter__chunk *chunk) {
    iter_loader *loader = worker->loader;
    iter_batch *batch = chunk->batch;
    const uint32_t n_rows = chunk->n - chunk->n_made; /* the others were made at issue */
    const iter_loader *outer = iter__in_callback_of;
    iter__in_callback_of = loader;
    const int64_t start = iter__now_ns();
    iter__activity_of(worker, batch, start);
    if (loader->sampling.order->is_stream) {
        make_stream_rows(worker, batch);
    } else if (n_rows > 0) {
        iter__rows_make(worker, batch, chunk->first + chunk->n_made, n_rows);
    }
    count_bytes(worker, chunk);
    iter__reading_release(loader, chunk);
    atomic_store_explicit(&chunk->state, CHUNK_DONE, memory_order_release);
    const unsigned long long spent = (unsigned long long)(iter__now_ns() - start);
    if (iter__profiling() && n_rows > 0)
        iter__profile_chunk(chunk, loader->sampling.order->is_stream ? batch->info.n_rows : n_rows,
                            true, start, start + (int64_t)spent);
    atomic_fetch_add_explicit(&loader->stats.transform_ns, spent, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->busy_ns, spent, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->chunks, 1, memory_order_relaxed);
    iter__chunk_done(worker, batch, 1);
    iter__activity_of(worker, NULL, start + (int64_t)spent);
    iter__activity_set(worker, ACTIVITY_IDLE, ITER_UNKNOWN);
    iter__in_callback_of = outer;
}
