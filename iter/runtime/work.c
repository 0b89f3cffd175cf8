/*
 * work.c - one chunk from READY to DONE, the batch stages behind a batch's last chunk, and what a
 * worker needs for both.
 */
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/runtime/runtime.h"

/* Rows between get() and the steps stay in the first-level caches. Fewer would be a little faster
 * where get() copies (two rows of 3 KiB: 0 to 8 % in a bare loop), but many a get() has a price a
 * call. */
#define STAGING_BYTES ((size_t)48 << 10)

/* ---- Behind the last chunk ------------------------------------------------------------------- */

static void copy_lengths(const iter_loader *loader, iter_batch *batch) {
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (field->lengths_of < 0) continue;
        memcpy(batch->memory + field->slot_offset, batch->lengths[field->lengths_of],
               4 * (size_t)batch->info.n_rows);
    }
}

static iter_status run_batch_stages(iter_loader *loader, iter__worker *worker, iter_batch *batch) {
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

/* A stream's batch tells how long it became. True when there is no batch at all: the stream had
 * ended. */
static bool settle_stream(iter_loader *loader, iter_batch *batch) {
    iter__opener *opener = &loader->opener;
    opener->stream_busy = false;
    if (batch->dropped) return false;
    const uint32_t n = batch->info.n_rows;
    if (n < loader->opt.batch_size || batch->status < 0) opener->stream_ended = true;
    const bool discard =
        n == 0 || (n < loader->opt.batch_size && loader->opt.last_batch == ITER_LAST_DISCARD);
    if (discard && batch->status >= 0) {
        loader->queue.count--; /* it is the newest entry: streams open one batch at a time */
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
    /* Behind the lock, so that the consumer does not wake into it. A worker outlives no loader. */
    if (wakes) iter__event_wake(&loader->ready, 1);
}

void iter__chunk_done(iter_loader *loader, iter__worker *worker, iter_batch *batch,
                      uint32_t n_chunks) {
    /* acq_rel: who ends the batch has seen every row of it. */
    if (atomic_fetch_sub_explicit(&batch->chunks_left, n_chunks, memory_order_acq_rel) != n_chunks)
        return;
    const bool dropped = atomic_load_explicit(&batch->dropped, memory_order_relaxed);
    if (!dropped) iter__batch_judge(loader, batch);
    if (batch->status >= 0 && !dropped && !loader->opt.reading.only_reads) {
        const int64_t start = iter__now_ns();
        iter__activity_of(worker, batch, start);
        iter__activity_set(worker, ACTIVITY_BATCH, ITER_UNKNOWN);
        copy_lengths(loader, batch);
        const iter_status status = run_batch_stages(loader, worker, batch);
        if (status < 0) batch->status = status;
        if (batch->status >= 0 && batch->device.tensors) iter__batch_send(loader, batch);
        const int64_t end = iter__now_ns();
        atomic_fetch_add_explicit(&loader->stats.batch_ns, (unsigned long long)(end - start),
                                  memory_order_relaxed);
        if (iter__profiling()) iter__profile_batch(batch, start, end);
    }
    publish(loader, batch);
}

static void make_stream_rows(iter_loader *loader, iter__worker *worker, iter_batch *batch) {
    batch->error.message[0] = 0;
    const uint32_t n = iter__rows_stream(loader, worker, batch, &batch->error);
    if (batch->status < 0 && !batch->error.message[0]) {
        iter__fail(&batch->error, batch->status, "%s: next() failed", loader->dataset->name);
    }
    iter__rows_mend(loader, worker, batch, 0, n);
    batch->info.n_rows = batch->info.n_valid = n;
    for (int32_t f = 0; f < loader->plan.n_fields; f++)
        batch->tensors[f].desc.dims[0] = n;
}

/* The chunk's bytes by the size of its samples: those that its worker made, and that came from memory
 * where all of the set lies there. */
static void count_bytes(iter_loader *loader, iter__worker *worker, const iter__chunk *chunk) {
    const iter_description *desc = &loader->dataset->desc;
    uint64_t bytes = 0;
    if (loader->plan.has_set || desc->n_extents == 0) return; /* there are none */
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

void iter__chunk_work(iter_loader *loader, iter__worker *worker, iter__chunk *chunk) {
    iter_batch *batch = chunk->batch;
    const uint32_t n_rows = chunk->n - chunk->n_made; /* the others were made as they were read */
    const iter_loader *outer = iter__in_callback_of;
    iter__in_callback_of = loader;
    const int64_t start = iter__now_ns();
    iter__activity_of(worker, batch, start);
    if (loader->sampling.order->is_stream) {
        make_stream_rows(loader, worker, batch);
    } else if (n_rows > 0) {
        iter__rows_make(loader, worker, batch, chunk->first + chunk->n_made, n_rows);
    }
    count_bytes(loader, worker, chunk);
    iter__reading_release(loader, chunk);
    atomic_store_explicit(&chunk->state, CHUNK_DONE, memory_order_release);
    const unsigned long long spent = (unsigned long long)(iter__now_ns() - start);
    if (iter__profiling() && n_rows > 0)
        iter__profile_chunk(chunk, loader->sampling.order->is_stream ? batch->info.n_rows : n_rows,
                            true, start, start + (int64_t)spent);
    atomic_fetch_add_explicit(&loader->stats.transform_ns, spent, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->busy_ns, spent, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->chunks, 1, memory_order_relaxed);
    iter__chunk_done(loader, worker, batch, 1);
    iter__activity_of(worker, NULL, start + (int64_t)spent);
    iter__activity_set(worker, ACTIVITY_IDLE, ITER_UNKNOWN);
    iter__in_callback_of = outer;
}

/* ---- What a worker needs --------------------------------------------------------------------- */

static uint32_t staging_rows(const iter__plan *plan, const iter__layout *layout) {
    const size_t row = plan->stage_row_bytes;
    const uint32_t most = layout->chunk_rows;
    if (row == 0) return most;
    const size_t fit = STAGING_BYTES / row;
    return fit < 1 ? 1 : fit < most ? (uint32_t)fit : most;
}

/* Parts of a worker's block, in order; base NULL only counts. */
static size_t lay_out(const iter__plan *plan, const iter__layout *layout, iter__worker *worker,
                      uint8_t *base) {
    const uint32_t rows = staging_rows(plan, layout);
    size_t at = 0;
#define PART(member, bytes)                             \
    do {                                                \
        if (base) worker->member = (void *)(base + at); \
        at += ((bytes) + 63 + 64) & ~(size_t)63;        \
    } while (0)
    PART(step[0], plan->step_bytes);
    PART(step[1], plan->step_bytes);
    PART(staging, plan->needs_get ? plan->stage_row_bytes * rows : 0);
    PART(hot, layout->hot_bytes);
    PART(scratch, plan->scratch_bytes);
    PART(batch_scratch, plan->batch_scratch_bytes);
    PART(rng, plan->needs_get ? rows * sizeof(iter_rng) : 0);
    PART(get_lengths, plan->needs_get ? 4 * (size_t)rows * ITER_MAX_FIELDS : 0);
#undef PART
    if (base) worker->staging_rows = rows;
    return at;
}

size_t iter__worker_bytes(const iter__plan *plan, const iter__layout *layout) {
    return lay_out(plan, layout, NULL, NULL);
}

static iter_status start_state(const iter_ops *ops, void **out, iter_error *err) {
    *out = iter__alloc(1, ops->state_size ? ops->state_size : 1);
    return *out ? ITER_OK : iter__fail(err, ITER_ENOMEM, "%s: no memory for its state", ops->name);
}

static iter_status start_transforms(iter__worker *worker, iter_error *err) {
    const iter__plan *plan = &worker->loader->plan;
    if (plan->n_states == 0) return ITER_OK;
    worker->transform_states = iter__alloc((size_t)plan->n_states, sizeof(void *));
    if (!worker->transform_states) return iter__fail(err, ITER_ENOMEM, "worker: out of memory");
    for (int32_t f = 0; f < plan->n_fields; f++) {
        for (int32_t s = 0; s < plan->fields[f].n_steps; s++) {
            const iter__step *step = &plan->fields[f].steps[s];
            if (step->pack) continue;
            const iter_transform_ops *ops = step->stage->ops;
            void *state;
            ITER_TRY(start_state(&ops->base, &state, err));
            const iter_status status =
                ops->start ? ops->start(state, step->stage->options, err) : ITER_OK;
            if (status < 0) {
                iter__free(state);
                return iter__fail_in(err, status, "%s", ops->base.name);
            }
            worker->transform_states[step->state] = state;
        }
    }
    return ITER_OK;
}

static iter_status start_decoders(iter__worker *worker, iter_error *err) {
    const iter_description *desc = &worker->loader->dataset->desc;
    for (int32_t f = 0; f < desc->n_fields; f++) {
        const iter_decoder_ops *ops = desc->fields[f].decoder;
        if (!ops) continue;
        void *state;
        ITER_TRY(start_state(&ops->base, &state, err));
        const iter_status status = ops->start ? ops->start(state, desc->shared, err) : ITER_OK;
        if (status < 0) {
            iter__free(state);
            return iter__fail_in(err, status, "%s", ops->base.name);
        }
        const size_t has_limit = offsetof(iter_decoder_ops, limit) + sizeof(ops->limit);
        if (ops->base.struct_size >= has_limit && ops->limit)
            ops->limit(state, worker->loader->layout.decoder_max);
        worker->decoder_states[f] = state;
    }
    return ITER_OK;
}

iter_status iter__worker_start(iter__worker *worker, iter_error *err) {
    iter_loader *loader = worker->loader;
    const size_t bytes = iter__worker_bytes(&loader->plan, &loader->layout);
    worker->memory = iter__alloc(1, bytes);
    if (!worker->memory)
        return iter__fail(err, ITER_ENOMEM, "worker: no memory for %zu bytes", bytes);
    lay_out(&loader->plan, &loader->layout, worker, worker->memory);
    ITER_TRY(start_transforms(worker, err));
    return start_decoders(worker, err);
}

iter_status iter__worker_begin(iter__worker *worker, iter_error *err) {
    const iter_dataset *dataset = worker->loader->dataset;
    if (!dataset->ops || !dataset->ops->start || worker->begun) return ITER_OK;
    const iter_loader *outer = iter__in_callback_of;
    iter__in_callback_of = worker->loader;
    iter__activity_begins(worker, ACTIVITY_GET, ITER_UNKNOWN);
    const iter_status status = dataset->ops->start(dataset->user, &worker->user_state, err);
    iter__activity_set(worker, ACTIVITY_IDLE, ITER_UNKNOWN);
    iter__in_callback_of = outer;
    if (status < 0) return iter__fail_in(err, status, "%s: start", dataset->name);
    worker->begun = true;
    return ITER_OK;
}

void iter__worker_end(iter__worker *worker) {
    const iter_dataset *dataset = worker->loader->dataset;
    if (worker->begun) dataset->ops->stop(dataset->user, worker->user_state);
    worker->begun = false;
}

void iter__worker_stop(iter__worker *worker) {
    const iter_loader *loader = worker->loader;
    const iter__plan *plan = &loader->plan;
    iter__pictures_free(worker);
    for (int32_t f = 0; worker->transform_states && f < plan->n_fields; f++) {
        for (int32_t s = 0; s < plan->fields[f].n_steps; s++) {
            const iter__step *step = &plan->fields[f].steps[s];
            void *state = step->pack ? NULL : worker->transform_states[step->state];
            if (!state) continue;
            if (step->stage->ops->stop) step->stage->ops->stop(state);
            iter__free(state);
        }
    }
    iter__free(worker->transform_states);
    for (int32_t f = 0; f < loader->dataset->desc.n_fields; f++) {
        void *state = worker->decoder_states[f];
        if (!state) continue;
        if (loader->dataset->desc.fields[f].decoder->stop)
            loader->dataset->desc.fields[f].decoder->stop(state);
        iter__free(state);
    }
    iter__free(worker->memory);
}
