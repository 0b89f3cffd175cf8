/*
 * open.c - opens batches, strictly in order: begin, open, commit. See opener.h.
 *
 * Opening takes a slot, asks the sampler for samples (order.c), asks the format for the places of
 * their bytes, and fixes all of it in the slot. From then on any thread may work on the batch's
 * chunks. An END is queued between epochs: the consumer sees epochs end in order while workers
 * already make batches of the next.
 */
#include <assert.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/observe/activity.h"
#include "iter/observe/batch_profile.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/loader_state.h"

bool iter__may_open(const iter_loader *loader) {
    const iter__opener *opener = &loader->opener;
    if (opener->done || opener->busy || opener->stream_busy || iter__is_canceled(loader))
        return false;
    if (loader->queue.count == loader->layout.queue_capacity) return false;
    for (uint32_t i = 0; i < loader->queue.count; i++) {
        const iter__entry *entry =
            &loader->queue.entries[(loader->queue.first + i) % loader->layout.queue_capacity];
        if (!entry->batch && (entry->empty || loader->opt.lookahead == ITER_LOOKAHEAD_EPOCH))
            return false;
    }
    return true;
}

/* ---- Begin ----------------------------------------------------------------------------------- */

/* Takes a free slot, preferably one that this worker wrote last: the lines of any other are
 * modified in another core's cache. Else the slot that was freed last. */
static iter_batch *take_slot(const iter__worker *worker) {
    iter_batch *batch = iter__queue_take_free(&worker->loader->queue, worker->number + 1);
    batch->writer = worker->number + 1;
    batch->state = BATCH_OPENING;
    batch->dropped = false;
    batch->status = ITER_OK;
    batch->sampler_after_bytes = 0;
    return batch;
}

static void begin(const iter__worker *worker, iter__opening *out) {
    iter_loader *loader = worker->loader;
    iter__opener *opener = &loader->opener;
    opener->busy = true;
    *out = (iter__opening){.batch = take_slot(worker),
                           .moves = atomic_load(&opener->moves),
                           .at = opener->at,
                           .number = opener->number,
                           .replay = opener->replay,
                           .epoch_begun = opener->epoch_begun};
    out->at.ended |= opener->stream_ended;
}

/* ---- Open ------------------------------------------------------------------------------------ */

/* Whether the extent covers its rows. When files are preloaded, it must also lie in its file. */
static bool has_bytes(const iter_loader *loader, const iter_extent *extent, int32_t e) {
    if (extent->size < loader->plan.least_extent[e]) return false;
    const uint64_t file = loader->dataset->desc.files[extent->object].bytes;
    return !loader->loaded.preload ||
           (extent->size <= file && extent->offset <= file - extent->size);
}

/* Asks where each row's bytes are. When files are preloaded, also sets the rows' addresses. */
static iter_status locate_rows(iter_loader *loader, iter_batch *batch, uint32_t n_rows,
                               iter_error *err) {
    const iter_dataset *dataset = loader->dataset;
    const int32_t n_extents = dataset->desc.n_extents;
    const iter__preload *preload = loader->loaded.preload;
    for (uint32_t r = 0; r < n_rows; r++) {
        const size_t at = (size_t)r * (size_t)n_extents;
        iter_extent *extents = batch->extents + at;
        bool fine = iter__dataset_locate(dataset, batch->index[r], extents);
        for (int32_t e = 0; e < n_extents && fine; e++) {
            fine = has_bytes(loader, &extents[e], e);
            if (preload && fine)
                batch->bytes[at + (size_t)e] =
                    preload->memory + preload->object_base[extents[e].object] + extents[e].offset;
        }
        if (!fine) return iter__dataset_mislocated(dataset, batch->index[r], err);
    }
    return ITER_OK;
}

static void set_tensors(iter_loader *loader, iter_batch *batch, uint32_t n_rows) {
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        iter_tensor *tensor = &batch->tensors[f];
        tensor->data = field->way == ITER_WAY_HOST ? batch->memory + field->slot_offset : NULL;
        tensor->desc = field->out.desc;
        if (field->lengths_of < 0) { /* its shape before the batch stages */
            tensor->desc.n_dims = field->row.n_dims + 1;
            memcpy(tensor->desc.dims + 1, field->row.dims,
                   sizeof(int64_t) * (size_t)field->row.n_dims);
            if (field->variable) tensor->desc.dims[1] = field->row.capacity;
        }
        tensor->desc.dims[0] = n_rows;
        tensor->desc.capacity = 0;
        int64_t stride = 1;
        for (int32_t d = tensor->desc.n_dims - 1; d >= 0; d--) {
            tensor->strides[d] = stride;
            stride *= tensor->desc.dims[d];
        }
    }
    if (batch->device.tensors) {
        const iter_status status = iter__device_tensors(loader, batch, NULL);
        assert(status == ITER_OK && "the plan's own tensors lie in the slot");
        (void)status;
    }
}

/* Fills in a batch that no other thread sees yet. */
static void fill(iter_loader *loader, iter__opening *opening) {
    loader->sampling.order->open(loader, opening);
    if (opening->ends) return;
    iter_batch *batch = opening->batch;
    const iter__span *span = &opening->span;
    if (batch->status >= 0) iter__stored_rows_ahead(loader, batch, span->n_rows);
    batch->info = (iter_batch_info){.epoch = span->epoch,
                                    .number = span->number,
                                    .slot = batch->slot,
                                    .n_rows = span->n_rows,
                                    .pad = span->pad,
                                    .first_valid = span->first_valid,
                                    .first_row = span->first_row,
                                    .global_rows = span->global_rows,
                                    .n_valid = span->n_valid};
    memset(batch->valid, 1, span->n_rows);
    memset((void *)batch->row_state, ROW_FINE, span->n_rows);
    set_tensors(loader, batch, span->n_rows);
    batch->is_view = batch->status >= 0 && iter__batch_view(loader, batch);
    if (batch->status < 0 || !loader->plan.needs_bytes) return;
    iter__error_clear(&batch->error);
    batch->status = locate_rows(loader, batch, span->n_rows, &batch->error);
}

/* ---- Commit ---------------------------------------------------------------------------------- */

/* Queues the END of the opener's epoch and begins the next one, unless it was the last. */
static void push_end(iter_loader *loader) {
    iter__opener *opener = &loader->opener;
    iter__entry entry = {.epoch = opener->at.epoch, .empty = !opener->any, .after = opener->at};
    entry.after.ended = true;
    iter__queue_push(loader, &entry);

    const uint32_t next = opener->at.epoch + 1;
    opener->any = opener->epoch_begun = opener->stream_ended = false;
    opener->number = 0;
    if (next == 0 || (loader->opt.epochs && next >= loader->opt.epochs)) {
        opener->done = true;
    } else {
        opener->at = iter__cut_epoch(&loader->cut, next);
    }
}

/* Cuts the rows into chunks, which any thread may claim from then on. */
static void set_chunks(iter_loader *loader, iter_batch *batch, uint32_t n_rows) {
    const uint32_t rows = loader->layout.rows_a_chunk, n_chunks = (n_rows + rows - 1) / rows;
    const bool read = loader->plan.needs_bytes && !loader->loaded.preload;
    atomic_store_explicit(&batch->chunks_left, n_chunks, memory_order_relaxed);
    atomic_store_explicit(&batch->n_chunks, n_chunks, memory_order_relaxed);
    for (uint32_t c = 0; c < n_chunks; c++) {
        iter__chunk *chunk = &batch->chunks[c];
        chunk->first = c * rows;
        chunk->n = n_rows - chunk->first < rows ? n_rows - chunk->first : rows;
        chunk->n_made = 0;
        chunk->region = 0;
        chunk->n_reads = 0;
        /* release: the thread that claims the chunk sees its members and the batch's rows. */
        atomic_store_explicit(&chunk->state, read ? CHUNK_NEW : CHUNK_READY, memory_order_release);
    }
}

static void push_batch(iter_loader *loader, iter_batch *batch, const iter__opening *opening) {
    const uint32_t n_rows = batch->info.n_rows;
    batch->after = opening->after;
    batch->serial = ++loader->opener.n_opened;
    loader->opener.any = true;
    const bool is_made = n_rows == 0 || batch->status < 0 || batch->is_view;
    if (is_made) atomic_store_explicit(&batch->n_chunks, 0, memory_order_relaxed);
    batch->state = is_made ? BATCH_READY : BATCH_OPEN;
    batch->opened_ns = opening->opened_ns;
    if (!is_made) set_chunks(loader, batch, n_rows);
    loader->opener.stream_busy = loader->sampling.order->is_stream && !is_made;
    const iter__entry entry = {.batch = batch, .epoch = batch->info.epoch};
    iter__queue_push(loader, &entry);
}

static void commit(iter_loader *loader, const iter__opening *opening) {
    iter__opener *opener = &loader->opener;
    iter_batch *batch = opening->batch;
    opener->busy = false;
    if (opening->moves != atomic_load(&opener->moves)) { /* the loader went elsewhere */
        iter__batch_give_back(batch);
    } else {
        opener->number = opening->number;
        opener->replay = opening->replay;
        opener->epoch_begun = opening->epoch_begun;
        if (opening->ends) {
            iter__queue_put_free(&loader->queue, batch);
            push_end(loader);
        } else {
            opener->at = opening->after;
            push_batch(loader, batch, opening);
        }
    }
    if (opener->wanted && loader->workers.sleepers) iter__event_wake(&loader->work, 1);
    opener->wanted = false;
}

/* ---- All three ------------------------------------------------------------------------------- */

void iter__open_next(iter__worker *worker) {
    iter_loader *loader = worker->loader;
    iter__opening opening;
    begin(worker, &opening);
    pthread_mutex_unlock(&loader->lock);

    const int64_t start = iter__now_ns();
    const iter_loader *outer = iter__in_callback_of;
    iter__in_callback_of = loader; /* a user's sampler must not call the loader */
    iter__activity_of(worker, NULL, start);
    iter__activity_set(worker, ACTIVITY_OPEN, ITER_UNKNOWN);
    fill(loader, &opening);
    iter__activity_set(worker, ACTIVITY_IDLE, ITER_UNKNOWN);
    iter__in_callback_of = outer;
    const int64_t end = opening.opened_ns = iter__now_ns();
    atomic_fetch_add_explicit(&loader->stats.open_ns, (unsigned long long)(end - start),
                              memory_order_relaxed);
    /* Before the commit: afterwards another worker may make the rows, and a stream's worker changes
     * n_rows. */
    const bool profiling = iter__profiling() && !opening.ends;
    iter__profile_record record = {0};
    if (profiling) record = iter__profile_span(opening.batch, PROFILE_OPEN, start, end);
    pthread_mutex_lock(&loader->lock);
    commit(loader, &opening);
    if (!profiling || opening.batch->state == BATCH_FREE) return;
    record.serial = opening.batch->serial;
    iter__profile_put(&record);
}
