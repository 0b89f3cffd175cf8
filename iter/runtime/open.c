/*
 * open.c - opens batches: strictly in order, one short lock each.
 *
 * Opening takes a slot, asks the sampler which samples, asks the format where their bytes are, and
 * freezes all of it in the slot. From then on any thread may work on the batch's chunks. Between
 * epochs an END stands in the queue, so that the consumer sees epochs end in order while the next
 * one's batches are made.
 */
#include <assert.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/runtime/runtime.h"

/* ---- Queue ----------------------------------------------------------------------------------- */

iter_entry *iter__queue_at(iter_loader *loader, uint32_t i) {
    return &loader->queue[(loader->queue_first + i) % loader->queue_capacity];
}

static void push(iter_loader *loader, const iter_entry *entry) {
    *iter__queue_at(loader, loader->queue_count) = *entry;
    loader->queue_count++;
}

void iter__queue_pop(iter_loader *loader) {
    loader->queue_first = (loader->queue_first + 1) % loader->queue_capacity;
    loader->queue_count--;
}

/* Takes one batch out of play: what nobody works on is done with, the rest ends as it ends. */
static void drop_batch(iter_loader *loader, iter_batch *batch) {
    batch->dropped = true;
    if (batch->state == BATCH_READY) {
        iter__batch_give_back(batch);
        return;
    }
    uint32_t n = 0;
    const uint32_t n_chunks = atomic_load_explicit(&batch->n_chunks, memory_order_relaxed);
    for (uint32_t c = 0; c < n_chunks; c++) {
        iter_chunk *chunk = &batch->chunks[c];
        int expected = CHUNK_READY;
        bool won = atomic_compare_exchange_strong(&chunk->state, &expected, CHUNK_DONE);
        if (won) iter__io_release(loader, chunk);
        expected = CHUNK_NEW;
        won = won || atomic_compare_exchange_strong(&chunk->state, &expected, CHUNK_DONE);
        n += won;
    }
    if (n && atomic_fetch_sub(&batch->chunks_left, n) == n) {
        if (loader->stream) loader->stream_busy = false;
        iter__batch_give_back(batch);
    }
}

void iter__queue_clear(iter_loader *loader) {
    while (loader->queue_count) {
        iter_batch *batch = iter__queue_at(loader, 0)->batch;
        iter__queue_pop(loader);
        if (batch) drop_batch(loader, batch);
    }
}

void iter__queue_drop(iter_loader *loader, uint32_t n) {
    for (; n; n--) {
        iter_batch *batch = iter__queue_at(loader, 0)->batch;
        iter__queue_pop(loader);
        drop_batch(loader, batch);
    }
}

/* ---- What may be opened ---------------------------------------------------------------------- */

bool iter__may_open(const iter_loader *loader) {
    if (loader->opener_done || loader->stopping || loader->stream_busy) return false;
    if (loader->queue_count == loader->queue_capacity) return false;
    for (uint32_t i = 0; i < loader->queue_count; i++) {
        const iter_entry *entry =
            &loader->queue[(loader->queue_first + i) % loader->queue_capacity];
        if (!entry->batch && (entry->empty || loader->opt.lookahead == ITER_LOOKAHEAD_EPOCH))
            return false;
    }
    return true;
}

static void push_end(iter_loader *loader) {
    iter_cursor *opener = &loader->opener;
    iter_entry entry = {.epoch = opener->epoch, .empty = !loader->opener_any, .after = *opener};
    entry.after.ended = true;
    push(loader, &entry);
    if (loader->queue_count == 1 && loader->consumer_waits) pthread_cond_signal(&loader->ready);

    const uint32_t next = opener->epoch + 1;
    loader->opener_any = loader->opener_epoch_begun = loader->stream_ended = false;
    loader->opener_number = 0;
    if (next == 0 || (loader->opt.epochs && next >= loader->opt.epochs)) {
        loader->opener_done = true;
    } else {
        *opener = iter__cut_epoch(&loader->cut, next);
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Which sample each row is, by a pure sampler: runs of neighbouring positions in one call. */
static void rows_by_position(iter_loader *loader, iter_batch *batch, const iter_span *span) {
    for (uint32_t r = 0; r < span->n_rows;) {
        uint32_t epoch;
        uint64_t position;
        iter__cut_row(&loader->cut, span, r, &epoch, &position);
        const uint64_t left = loader->cut.n - position;
        const uint32_t run = left < span->n_rows - r ? (uint32_t)left : span->n_rows - r;
        loader->sampler->index(loader->sampler_state, epoch, position, run, batch->index + r);
        for (uint32_t i = 0; i < run; i++) {
            batch->position[r + i] = position + i;
            batch->row_epoch[r + i] = epoch;
        }
        r += run;
    }
    if (!loader->subset) return;
    for (uint32_t r = 0; r < span->n_rows; r++)
        batch->index[r] = loader->subset[batch->index[r]];
}

/* The same by a sequential sampler, which has just drawn the global batch. */
static void rows_as_drawn(iter_loader *loader, iter_batch *batch, const iter_span *span,
                          uint64_t first) {
    for (uint32_t r = 0; r < span->n_rows; r++) {
        const uint64_t drawn = loader->drawn ? loader->drawn[first + r] : span->start + r;
        batch->index[r] = loader->subset && loader->drawn ? loader->subset[drawn] : drawn;
        batch->position[r] = span->start + r;
        batch->row_epoch[r] = span->epoch;
    }
}

/* Where every row's bytes are; in memory already, if the files are. */
static void locate_rows(iter_loader *loader, iter_batch *batch, uint32_t n_rows) {
    const iter_dataset *dataset = loader->dataset;
    const int32_t n_extents = dataset->desc.n_extents;
    const iter_preload *preload = loader->preload;
    for (uint32_t r = 0; r < n_rows; r++) {
        iter_extent *extents = batch->extents + (size_t)r * n_extents;
        dataset->format->locate(dataset->state, batch->index[r], extents);
        for (int32_t e = 0; preload && e < n_extents; e++) {
            batch->bytes[(size_t)r * n_extents + e] =
                preload->memory + preload->object_base[extents[e].object] + extents[e].offset;
        }
    }
}

static void set_tensors(iter_loader *loader, iter_batch *batch, uint32_t n_rows) {
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter_field_plan *field = &loader->plan.fields[f];
        iter_tensor *tensor = &batch->tensors[f];
        tensor->data = field->way == ITER_WAY_HOST ? batch->memory + field->slot_offset : NULL;
        tensor->desc = field->out.desc;
        if (field->lengths_of < 0) { /* as it is before the batch stages */
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

/* Cuts the rows into chunks and lets them be claimed. */
static void set_chunks(iter_loader *loader, iter_batch *batch, uint32_t n_rows) {
    const uint32_t rows = loader->stream ? loader->opt.batch_size : loader->chunk_rows;
    const uint32_t n_chunks = (n_rows + rows - 1) / rows;
    const bool read = loader->plan.needs_bytes && !loader->preload;
    atomic_store_explicit(&batch->chunks_left, n_chunks, memory_order_relaxed);
    atomic_store_explicit(&batch->n_chunks, n_chunks, memory_order_relaxed);
    for (uint32_t c = 0; c < n_chunks; c++) {
        iter_chunk *chunk = &batch->chunks[c];
        chunk->first = c * rows;
        chunk->n = n_rows - chunk->first < rows ? n_rows - chunk->first : rows;
        chunk->n_made = 0;
        chunk->region = 0;
        chunk->n_reads = 0;
        /* release: whoever claims the chunk sees its rows and the batch's. */
        atomic_store_explicit(&chunk->state, read ? CHUNK_NEW : CHUNK_READY, memory_order_release);
    }
}

/* ---- Opening --------------------------------------------------------------------------------- */

static iter_batch *take_slot(iter_loader *loader, const iter_span *span) {
    iter_batch *batch = loader->free_list;
    loader->free_list = batch->next_free;
    loader->n_free--;
    batch->state = BATCH_OPEN;
    batch->dropped = false;
    batch->status = ITER_OK;
    batch->sampler_after_bytes = 0;
    batch->serial = ++loader->n_opened;
    batch->info = (iter_batch_info){.epoch = span->epoch,
                                    .number = span->number,
                                    .slot = batch->slot,
                                    .n_rows = span->n_rows,
                                    .pad = span->pad,
                                    .first_valid = span->first_valid,
                                    .n_valid = span->n_valid};
    memset(batch->valid, 1, span->n_rows);
    memset(batch->row_status, 0, span->n_rows * sizeof(*batch->row_status));
    return batch;
}

static void publish_in_queue(iter_loader *loader, iter_batch *batch) {
    const uint32_t n_rows = batch->info.n_rows;
    set_tensors(loader, batch, n_rows);
    loader->opener_any = true;
    const iter_entry entry = {.batch = batch, .epoch = batch->info.epoch};
    push(loader, &entry);
    if (n_rows == 0 || batch->status < 0) {
        atomic_store_explicit(&batch->n_chunks, 0, memory_order_relaxed);
        batch->state = BATCH_READY;
        if (loader->queue_count == 1 && loader->consumer_waits) pthread_cond_signal(&loader->ready);
        return;
    }
    if (loader->plan.needs_bytes) locate_rows(loader, batch, n_rows);
    batch->opened_ns = iter__now_ns();
    set_chunks(loader, batch, n_rows);
}

static void open_pure(iter_loader *loader) {
    iter_span span;
    if (!iter__cut_batch(&loader->cut, &loader->opener, &span)) {
        push_end(loader);
        return;
    }
    iter_batch *batch = take_slot(loader, &span);
    rows_by_position(loader, batch, &span);
    batch->after = iter__cut_after(&loader->cut, &loader->opener);
    loader->opener = batch->after;
    publish_in_queue(loader, batch);
}

/* What a sampler says is wrong, with its name. */
static iter_status in_sampler(const iter_loader *loader, iter_status status, iter_error *err) {
    if (status >= 0) return status;
    return iter__fail_in(err, status, "sampler %s", loader->sampler->base.name);
}

static iter_status ask(iter_loader *loader, uint32_t *out_n, iter_error *err) {
    const iter_status status = loader->sampler->next_batch(
        loader->sampler_state, (uint32_t)loader->cut.global, loader->drawn, out_n, err);
    return in_sampler(loader, status, err);
}

/* The next global batch of a sequential sampler; *out_n = 0 at the epoch's end. */
static iter_status draw(iter_loader *loader, uint32_t *out_n, iter_error *err) {
    *out_n = 0;
    if (!loader->opener_epoch_begun) {
        ITER_TRY(in_sampler(
            loader, loader->sampler->begin(loader->sampler_state, loader->opener.epoch, err), err));
        loader->opener_epoch_begun = true;
    }
    const uint32_t capacity = (uint32_t)loader->cut.global;
    for (; loader->replay; loader->replay--) {
        ITER_TRY(ask(loader, out_n, err));
        if (*out_n == 0) { /* the epoch is shorter than it was */
            loader->replay = 0;
            return ITER_OK;
        }
    }
    ITER_TRY(ask(loader, out_n, err));
    if (*out_n > capacity) {
        return iter__fail(err, ITER_EINVAL, "sampler %s: drew %u samples where %u fit",
                          loader->sampler->base.name, *out_n, capacity);
    }
    for (uint32_t i = 0; i < *out_n; i++) {
        const uint64_t n = loader->subset ? loader->opt.n_subset : loader->dataset->desc.n_samples;
        if (loader->drawn[i] < n) continue;
        return iter__fail(err, ITER_EINVAL, "sampler %s: drew sample %llu of %llu",
                          loader->sampler->base.name, (unsigned long long)loader->drawn[i],
                          (unsigned long long)n);
    }
    return ITER_OK;
}

static void open_sequential(iter_loader *loader) {
    iter_error error = {.status = ITER_OK};
    uint32_t m = 0;
    const iter_status status = loader->opener.ended ? ITER_OK : draw(loader, &m, &error);
    if (status == ITER_OK && m == 0) {
        push_end(loader);
        return;
    }
    uint64_t first = 0;
    iter_span span = {.epoch = loader->opener.epoch, .number = loader->opener_number++};
    span.n_rows = span.n_valid = status < 0 ? 0 : iter__cut_share(&loader->cut, m, &first);
    span.start = loader->opener.sample + first;
    iter_batch *batch = take_slot(loader, &span);
    if (status < 0) {
        batch->status = status;
        batch->error = error;
        loader->opener.ended = true; /* what the sampler would do next is nobody's guess */
    }
    rows_as_drawn(loader, batch, &span, first);
    loader->opener.sample += m;
    batch->after = loader->opener;
    if (status == ITER_OK && loader->sampler->save) {
        const iter_status saved =
            loader->sampler->save(loader->sampler_state, batch->sampler_after, ITER_SAMPLER_BLOB,
                                  &batch->sampler_after_bytes);
        if (saved < 0) batch->sampler_after_bytes = 0;
    }
    publish_in_queue(loader, batch);
}

/* A batch of a stream: how many rows it has is known when it is made, so only one is open at a
 * time. */
static void open_stream(iter_loader *loader) {
    if (loader->opener.ended || loader->stream_ended) {
        push_end(loader);
        return;
    }
    iter_span span = {.epoch = loader->opener.epoch,
                      .number = loader->opener_number++,
                      .start = loader->opener.sample};
    span.n_rows = span.n_valid = loader->opt.batch_size;
    iter_batch *batch = take_slot(loader, &span);
    rows_as_drawn(loader, batch, &span, 0);
    batch->rewinds = !loader->opener_epoch_begun;
    loader->opener_epoch_begun = true;
    batch->skip = loader->replay;
    loader->replay = 0;
    loader->stream_busy = true;
    publish_in_queue(loader, batch);
}

void iter__open_next(iter_loader *loader) {
    const int64_t start = iter__now_ns();
    const iter_loader *outer = iter__in_callback_of;
    iter__in_callback_of = loader; /* a user's sampler may not call back */
    if (loader->stream) {
        open_stream(loader);
    } else if (loader->sampler->index) {
        open_pure(loader);
    } else {
        open_sequential(loader);
    }
    iter__in_callback_of = outer;
    const int64_t end = iter__now_ns();
    atomic_fetch_add_explicit(&loader->open_ns, (unsigned long long)(end - start),
                              memory_order_relaxed);
    if (!iter__profiling()) return;
    const iter_batch *batch = iter__queue_at(loader, loader->queue_count - 1)->batch;
    if (!batch) return; /* an END */
    const iter_profile_record record = iter__profile_span(batch, PROFILE_OPEN, start, end);
    iter__profile_put(&record);
}
