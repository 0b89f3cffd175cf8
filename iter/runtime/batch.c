/*
 * batch.c - slots: the memory of batches, their free list, and the consumer's calls on a batch. For
 * slots that a GPU reads, see device_slots.c.
 *
 * All slots lie in one mapping. The free list is last-in first-out: if the consumer releases each
 * batch before it takes the next, the loader keeps to one slot, which stays hot in the caches.
 */
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/observe/batch_profile.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/loader_state.h"

/* Takes n * size bytes, aligned to 64, from a block. A block is laid out twice: first with base
 * NULL, to count its bytes, then in its memory. */
static void *carve(uint8_t *base, size_t *at, size_t n, size_t size) {
    const size_t offset = iter__align_up_size(*at, 64);
    *at = offset + n * size;
    return base ? base + offset : NULL;
}

static size_t lay_out(const iter__plan *plan, const iter_description *desc, uint32_t batch_size,
                      const iter__layout *layout, iter_batch *batch, uint8_t *base) {
    const size_t rows = batch_size;
    const size_t extents = plan->needs_bytes ? rows * (size_t)desc->n_extents : 0;
    size_t at = 0;
    batch->index = carve(base, &at, rows, sizeof(*batch->index));
    batch->asked = desc->by_epoch ? carve(base, &at, rows, sizeof(*batch->asked)) : batch->index;
    batch->position = carve(base, &at, rows, sizeof(*batch->position));
    batch->row_epoch = carve(base, &at, rows, sizeof(*batch->row_epoch));
    batch->valid = carve(base, &at, rows, sizeof(*batch->valid));
    batch->row_state = carve(base, &at, rows, sizeof(*batch->row_state));
    batch->chunks = carve(base, &at, layout->max_chunks, sizeof(*batch->chunks));
    batch->extents = carve(base, &at, extents, sizeof(*batch->extents));
    batch->bytes = carve(base, &at, extents, sizeof(*batch->bytes));
    const size_t issued = layout->bytes == BYTES_READ ? extents : 0;
    batch->reads = carve(base, &at, issued, sizeof(*batch->reads));
    return at;
}

static iter_status no_memory(const iter_loader *loader, iter_error *err) {
    return iter__fail(err, ITER_ENOMEM, "no memory for %u slots of %zu bytes",
                      loader->layout.n_slots, loader->plan.slot_bytes);
}

size_t iter__books_bytes(const iter__plan *plan, const iter_description *desc, uint32_t batch_size,
                         const iter__layout *layout) {
    iter_batch none;
    return lay_out(plan, desc, batch_size, layout, &none, NULL) + sizeof(none);
}

iter_status iter__slots_map(iter_loader *loader, iter_error *err) {
    if (loader->slots.memory) return ITER_OK;
    loader->slots.bytes = loader->plan.slot_bytes * loader->layout.n_slots;
    loader->slots.memory = iter__map(loader->slots.bytes ? loader->slots.bytes : 1);
    if (!loader->slots.memory) return no_memory(loader, err);
    return loader->device.handle ? iter__device_slots_pin(loader, err) : ITER_OK;
}

iter_status iter__batches_create(iter_loader *loader, iter_error *err) {
    const iter__plan *plan = &loader->plan;
    ITER_TRY(iter__slots_map(loader, err));
    loader->slots.batches = iter__alloc(loader->layout.n_slots, sizeof(*loader->slots.batches));
    if (!loader->slots.batches) return no_memory(loader, err);
    for (uint32_t i = loader->layout.n_slots; i-- > 0;) {
        iter_batch *batch = &loader->slots.batches[i];
        const iter_description *desc = &loader->dataset->desc;
        const uint32_t rows = loader->opt.batch_size;
        const size_t bytes = lay_out(plan, desc, rows, &loader->layout, batch, NULL);
        uint8_t *book = iter__alloc(1, bytes);
        if (!book)
            return iter__fail(err, ITER_ENOMEM, "no memory for %zu bytes of bookkeeping per slot",
                              bytes);
        lay_out(plan, desc, rows, &loader->layout, batch, book);
        batch->loader = loader;
        batch->slot = i;
        batch->memory = loader->slots.memory + i * plan->slot_bytes;
        for (uint32_t c = 0; c < loader->layout.max_chunks; c++)
            batch->chunks[c].batch = batch;
        for (int32_t f = 0; f < plan->n_fields; f++) {
            const iter__field_plan *field = &plan->fields[f];
            if (field->variable)
                batch->lengths[f] = (int32_t *)(void *)(batch->memory + field->lengths_offset);
        }
        iter__queue_put_free(&loader->queue, batch);
    }
    return loader->device.handle ? iter__device_slots_create(loader, err) : ITER_OK;
}

void iter__batches_free(iter_loader *loader) {
    for (uint32_t i = 0; loader->slots.batches && i < loader->layout.n_slots; i++) {
        iter_batch *batch = &loader->slots.batches[i];
        if (batch->chunks) iter__failures_clear(batch);
        iter__free(batch->index);
    }
    iter__free(loader->slots.batches);
    iter__unmap(loader->slots.memory, loader->slots.bytes ? loader->slots.bytes : 1);
}

void iter__batch_give_back(iter_batch *batch) {
    iter_loader *loader = batch->loader;
    const bool is_read = loader->device.handle && (batch->device.arrives || batch->device.marked);
    batch->dropped = false;
    iter__failures_clear(batch);
    if (is_read) {
        iter__slot_put_released(loader, batch);
    } else {
        iter__queue_put_free(&loader->queue, batch);
    }
    /* While workers have other work, waking one costs the caller more than it gains. So one is
     * woken only if half of the slots are free or the queue is nearly empty. A worker that naps
     * until a GPU has passed a slot checks this one by itself. */
    const uint32_t n = loader->queue.n_free + loader->device.n_released;
    if (loader->workers.sleepers && !(is_read && loader->device.awaited) &&
        (2 * n >= loader->layout.n_slots || loader->queue.count <= 1)) {
        iter__event_wake(&loader->work, 1);
    }
    iter__reading_wake(loader);
}

static void profile_held(const iter_batch *batch) {
    iter__profile_record record =
        iter__profile_span(batch, PROFILE_HELD, batch->taken_ns, iter__now_ns());
    record.type = ITER_PROFILE_ASYNC;
    iter__profile_put(&record);
}

/* ---- Public ---------------------------------------------------------------------------------- */

iter_batch *iter_batch_ref(iter_batch *batch) {
    atomic_fetch_add_explicit(&batch->refs, 1, memory_order_relaxed);
    return batch;
}

void iter_batch_unref(iter_batch *batch) {
    if (!batch) return;
    /* acq_rel: the slot is written again only after all holders' reads. */
    if (atomic_fetch_sub_explicit(&batch->refs, 1, memory_order_acq_rel) != 1) return;
    iter_loader *loader = batch->loader;
    if (iter__is_orphan(loader)) return; /* a child of fork() must not use the locks */
    if (batch->taken_ns && iter__profiling()) profile_held(batch);
    pthread_mutex_lock(&loader->lock);
    loader->consumer.n_held--;
    iter__batch_give_back(batch);
    pthread_mutex_unlock(&loader->lock);
    iter__loader_hold_drop(loader);
}

const iter_tensor *iter_batch_tensor(const iter_batch *batch, int32_t i) {
    return i >= 0 && i < batch->loader->plan.n_fields ? &batch->tensors[i] : NULL;
}

bool iter_batch_is_view(const iter_batch *batch) {
    return batch->is_view;
}

const iter_tensor *iter_batch_find(const iter_batch *batch, const char *name) {
    for (int32_t i = 0; i < batch->loader->plan.n_fields; i++) {
        if (strcmp(batch->loader->plan.fields[i].out.name, name) == 0) return &batch->tensors[i];
    }
    return NULL;
}

iter_batch_info iter_batch_describe(const iter_batch *batch) {
    return batch->info;
}

const uint64_t *iter_batch_index(const iter_batch *batch) {
    return batch->index;
}

const uint64_t *iter_batch_position(const iter_batch *batch) {
    return batch->position;
}

const uint32_t *iter_batch_row_epoch(const iter_batch *batch) {
    return batch->row_epoch;
}

const uint8_t *iter_batch_valid(const iter_batch *batch) {
    return batch->valid;
}

const int32_t *iter_batch_lengths(const iter_batch *batch, int32_t i) {
    return i >= 0 && i < batch->loader->plan.n_fields ? batch->lengths[i] : NULL;
}
