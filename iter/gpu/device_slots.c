/*
 * device_slots.c - slots that a GPU reads: page-locked, with twins on the device. A slot is copied
 * when its batch is finished, and written again when no stream reads it any more.
 *
 * A slot that is given back is RELEASED while its copy, or the consumer's streams, may still read
 * it. The slot holds the events that mark the end of both. The driver does not report when an event
 * has passed. A thread that needs a slot and finds none free therefore queries the events of
 * released slots. It holds no lock then, and has taken those batches off the list.
 *
 * If no event has passed and there is nothing else to do, one thread backs off: it naps and asks
 * again, with naps of at most an eighth of the wait so far. It does not sleep in the driver until
 * the oldest event has passed, although that would cost nothing. There it would not notice that
 * another slot was given back or has passed earlier, that bytes have come, or that the loader is
 * canceled. One stream that is stuck with one slot must not block the other slots.
 *
 * Twins are in one block of device memory, slot after slot, so addresses depend on the slot's
 * number alone. Copies run on the loader's own stream, in the order in which batches are finished.
 *
 * If the driver fails while a batch is copied, that batch fails. If it fails while an event is
 * queried, it is unknown whether a slot may be written; from then on each next() fails with that
 * error.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/runtime/loader_state.h"

#define ASK_MAX 8 /* released slots to query at a time; busy ones go to the end of the list */
/* If two parts of a slot are at most so many bytes apart, they are one copy. Another copy takes 1
 * to 2 us to queue and begin, and a link moves as many bytes in that time. */
#define COPY_GAP ((size_t)32 << 10)
#define NAP_NS   100000
/* Naps of a thread that waits for a slot. The shortest is about what any nap takes; the longest is
 * short enough that a GPU with a few batches in store does not run dry. */
#define NAP_LEAST_NS 50000
#define NAP_MOST_NS  1000000
#define SETTLE_ASKS  3 /* after so many errors of the driver the device is lost */

#define HERE(member)         atomic_load_explicit(&(member), memory_order_relaxed)
#define SET(member, value)   atomic_store_explicit(&(member), value, memory_order_relaxed)
#define COUNT(member, value) atomic_fetch_add_explicit(&(member), value, memory_order_relaxed)

/* ---- Making ---------------------------------------------------------------------------------- */

/* For AUTO: uses plain host memory instead. */
static iter_status do_without(iter_loader *loader, const iter_error *why) {
    char text[160];
    snprintf(text, sizeof(text), "memory: %.110s; batches are not page-locked", why->message);
    iter__fallback(loader, text);
    iter__device_slots_free(loader);
    loader->slots.kind = ITER_MEMORY_HOST;
    return ITER_OK;
}

static bool is_auto(const iter_loader *loader) {
    return loader->opt.memory.kind == ITER_MEMORY_AUTO;
}

iter_status iter__device_slots_open(iter_loader *loader, iter_error *err) {
    const iter_loader_options *opt = &loader->opt;
    loader->slots.kind = ITER_MEMORY_HOST;
    if (opt->memory.kind != ITER_MEMORY_DEVICE &&
        (opt->memory.finish == ITER_FINISH_DEVICE || opt->memory.resident == ITER_RESIDENT_YES))
        return iter__fail(err, ITER_EINVAL, "options: %s needs memory = ITER_MEMORY_DEVICE",
                          opt->memory.resident == ITER_RESIDENT_YES ? "resident" : "finish");
    if (opt->memory.kind == ITER_MEMORY_HOST || (is_auto(loader) && !iter__device_current()))
        return ITER_OK;
    iter_error why = {.status = ITER_OK};
    const iter_status status = iter__device_open(opt->memory.device, &loader->device.handle, &why);
    if (status < 0 && is_auto(loader)) return do_without(loader, &why);
    if (status < 0) {
        if (err) *err = why;
        return iter__fail_in(err, status, "memory: %s",
                             opt->memory.kind == ITER_MEMORY_DEVICE ? "device" : "pinned");
    }
    loader->slots.kind = is_auto(loader) ? ITER_MEMORY_PINNED : opt->memory.kind;
    return ITER_OK;
}

iter_status iter__device_slots_pin(iter_loader *loader, iter_error *err) {
    iter__loader_device *device = &loader->device;
    if (!loader->slots.bytes) return ITER_OK;
    iter_error why = {.status = ITER_OK};
    const iter_status status =
        iter__device_pin(device->handle, loader->slots.memory, loader->slots.bytes, &why);
    if (status == ITER_OK) {
        device->pinned = true;
        iter__alloc_book(ITER_ALLOC_HOST, -(long long)loader->slots.bytes);
        iter__alloc_book(ITER_ALLOC_PINNED, (long long)loader->slots.bytes);
        return ITER_OK;
    }
    if (is_auto(loader)) return do_without(loader, &why);
    /* The driver copies from any memory, only slower. */
    if (loader->slots.kind == ITER_MEMORY_DEVICE) {
        char text[160];
        snprintf(text, sizeof(text), "slots are not page-locked: %.120s", why.message);
        iter__fallback(loader, text);
        return ITER_OK;
    }
    if (err) *err = why;
    return iter__fail_in(err, status, "%u slots of %zu bytes", loader->layout.n_slots,
                         loader->plan.slot_bytes);
}

static iter_status make_events(iter_loader *loader, iter_error *err) {
    iter__loader_device *device = &loader->device;
    for (uint32_t i = 0; i < loader->layout.n_slots; i++) {
        iter__slot_device *slot = &loader->slots.batches[i].device;
        for (int s = 0; s < ITER_STREAMS_MAX; s++)
            ITER_TRY(iter__device_event_new(device->handle, &slot->released[s], err));
        if (loader->slots.kind == ITER_MEMORY_DEVICE)
            ITER_TRY(iter__device_event_new(device->handle, &slot->arrived, err));
    }
    if (loader->slots.kind != ITER_MEMORY_DEVICE) return ITER_OK;
    return iter__device_event_new(device->handle, &device->last, err);
}

static iter_status make_twins(iter_loader *loader, iter_error *err) {
    iter__loader_device *device = &loader->device;
    const size_t n_fields = (size_t)loader->plan.n_fields;
    iter_tensor *tensors = iter__alloc(loader->layout.n_slots * n_fields, sizeof(*tensors));
    if (!tensors) return iter__fail(err, ITER_ENOMEM, "loader: out of memory");
    for (uint32_t i = 0; i < loader->layout.n_slots; i++)
        loader->slots.batches[i].device.tensors = tensors + i * n_fields;
    const size_t bytes = loader->plan.device_slot_bytes * loader->layout.n_slots;
    const iter_status status =
        iter__device_alloc(device->handle, bytes ? bytes : 1, &device->twins, err);
    if (status < 0) {
        return iter__fail_in(err, status,
                             "%u slots of %zu bytes on the device (max_held + prefetch + 1, of "
                             "batch_size rows)",
                             loader->layout.n_slots, loader->plan.device_slot_bytes);
    }
    device->twin_bytes = bytes;
    iter__alloc_book(ITER_ALLOC_DEVICE, (long long)bytes);
    return ITER_OK;
}

iter_status iter__device_slots_create(iter_loader *loader, iter_error *err) {
    iter_error why = {.status = ITER_OK};
    iter_status status = make_events(loader, &why);
    if (status < 0 && is_auto(loader)) return do_without(loader, &why);
    if (status == ITER_OK && loader->slots.kind == ITER_MEMORY_DEVICE)
        status = make_twins(loader, &why);
    if (status < 0 && err) *err = why;
    return status;
}

static void free_events(iter_loader *loader) {
    iter__loader_device *device = &loader->device;
    for (uint32_t i = 0; loader->slots.batches && i < loader->layout.n_slots; i++) {
        iter__slot_device *slot = &loader->slots.batches[i].device;
        for (int s = 0; s < ITER_STREAMS_MAX; s++) {
            if (slot->released[s]) iter__device_event_free(device->handle, slot->released[s]);
        }
        if (slot->arrived) iter__device_event_free(device->handle, slot->arrived);
        if (i == 0) iter__free(slot->tensors); /* one block for all */
        memset(slot, 0, sizeof(*slot));
    }
    if (device->last) iter__device_event_free(device->handle, device->last);
    device->last = NULL;
}

void iter__device_slots_free(iter_loader *loader) {
    iter__loader_device *device = &loader->device;
    if (!device->handle) return;
    free_events(loader);
    iter__resident_free(loader);
    if (device->twins) iter__device_free(device->handle, device->twins);
    iter__alloc_book(ITER_ALLOC_DEVICE, -(long long)device->twin_bytes);
    if (device->pinned) {
        iter__device_unpin(device->handle, loader->slots.memory);
        iter__alloc_book(ITER_ALLOC_PINNED, -(long long)loader->slots.bytes);
        iter__alloc_book(ITER_ALLOC_HOST, (long long)loader->slots.bytes);
    }
    iter__device_close(device->handle);
    device->handle = NULL;
    device->twins = 0;
    device->twin_bytes = 0;
    device->pinned = false;
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Bytes [*out_first, *out_end) of the slot that a tensor covers; none if the two are equal. False
 * if some are outside its field. */
static bool span_of(const iter_batch *batch, const iter__field_plan *field,
                    const iter_tensor *tensor, size_t *out_first, size_t *out_end) {
    const int64_t element = (int64_t)iter_dtype_bytes(tensor->desc.dtype);
    int64_t low = 0, high = element;
    *out_first = *out_end = field->slot_offset;
    for (int32_t d = 0; d < tensor->desc.n_dims; d++) {
        int64_t reach;
        if (tensor->desc.dims[d] <= 0) return tensor->desc.dims[d] == 0;
        if (__builtin_mul_overflow(tensor->desc.dims[d] - 1, tensor->strides[d], &reach) ||
            __builtin_mul_overflow(reach, element, &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
            return false;
    }
    const int64_t at = (int64_t)((uintptr_t)tensor->data - (uintptr_t)batch->memory);
    const int64_t begin = (int64_t)field->slot_offset, end = begin + (int64_t)field->slot_bytes;
    if (at < begin || at > end || low < begin - at || high > end - at) return false;
    *out_first = (size_t)(at + low);
    *out_end = (size_t)(at + high);
    return true;
}

static iter__device_address twin_of(const iter_loader *loader, const iter_batch *batch) {
    return loader->device.twins + batch->slot * (uint64_t)loader->plan.device_slot_bytes;
}

iter_status iter__device_tensors(iter_loader *loader, iter_batch *batch, iter_error *err) {
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        const iter_tensor *host = &batch->tensors[f];
        iter_tensor *tensor = &batch->device.tensors[f];
        size_t first, end;
        if (field->way != ITER_WAY_HOST) { /* a kernel writes to the place in the plan */
            *tensor = *host;
            tensor->data = (void *)(uintptr_t)(twin_of(loader, batch) + field->device_offset);
            continue;
        }
        if (!span_of(batch, field, host, &first, &end)) {
            return iter__fail(err, ITER_EINVAL,
                              "field '%s' was moved out of its place in the batch, %zu bytes",
                              field->out.name, field->slot_bytes);
        }
        const size_t offset =
            first == end ? 0 : (size_t)((uint8_t *)host->data - batch->memory) - field->slot_offset;
        *tensor = *host;
        tensor->data = (void *)(uintptr_t)(twin_of(loader, batch) + field->device_offset + offset);
    }
    return ITER_OK;
}

/* Copies bytes [first, end) of the slot to the twin, `shift` bytes further on. */
static iter_status copy_part(iter_loader *loader, iter_batch *batch, size_t first, size_t end,
                             size_t shift, iter_error *err) {
    iter__loader_device *device = &loader->device;
    if (first == end) return ITER_OK;
    SET(batch->device.arrives, true); /* even if the driver fails: it may have begun */
    ITER_TRY(iter__device_copy(device->handle, twin_of(loader, batch) + (first + shift),
                               batch->memory + first, end - first, err));
    COUNT(device->n_copies, 1);
    COUNT(device->copied_bytes, end - first);
    return ITER_OK;
}

/* The bytes of the slot to copy for a field, in up to two parts; false = none. */
static bool part_of(const iter_batch *batch, const iter__field_plan *field, int part,
                    size_t *out_first, size_t *out_end) {
    if (field->way != ITER_WAY_HOST)
        return iter__device_rows_span(batch, field, part, out_first, out_end);
    const iter_tensor *tensor = &batch->tensors[field - batch->loader->plan.fields];
    return part == 0 && span_of(batch, field, tensor, out_first, out_end) && *out_first < *out_end;
}

/* Copies the parts that fields use; parts that are close together are one copy. */
static iter_status copy_parts(iter_loader *loader, iter_batch *batch, iter_error *err) {
    size_t first = 0, end = 0, shift = 0;
    for (int32_t i = 0; i < 2 * loader->plan.n_fields; i++) {
        const iter__field_plan *field = &loader->plan.fields[i / 2];
        const bool as_it_lies = field->way != ITER_WAY_HOST;
        const size_t further = as_it_lies ? 0 : field->device_offset - field->slot_offset;
        size_t from, to;
        if (!part_of(batch, field, i % 2, &from, &to)) continue;
        if (first < end && further == shift && from >= end && from - end <= COPY_GAP) {
            end = to;
            continue;
        }
        ITER_TRY(copy_part(loader, batch, first, end, shift, err));
        first = from;
        end = to;
        shift = further;
    }
    return copy_part(loader, batch, first, end, shift, err);
}

/* From now on each next() fails with this error. loader.lock held. */
static void lose(iter_loader *loader, const iter_error *error) {
    if (loader->ending.broken) return;
    loader->ending.broken = true;
    loader->ending.broken_error = *error;
    iter__event_wake(&loader->ready, ITER_WAKE_ALL);
}

void iter__batch_send(iter_loader *loader, iter_batch *batch) {
    iter__device *handle = loader->device.handle;
    iter_status status = iter__device_tensors(loader, batch, &batch->error);
    if (status == ITER_OK) status = copy_parts(loader, batch, &batch->error);
    if (status == ITER_OK && loader->plan.has_ways)
        status = iter__device_rows_launch(loader, batch, twin_of(loader, batch), &batch->error);
    if (HERE(batch->device.arrives)) {
        iter_error error = {.status = ITER_OK};
        iter_status marked = iter__device_mark(handle, batch->device.arrived, &error);
        if (marked < 0 && status == ITER_OK) {
            status = marked;
            batch->error = error;
        }
        /* Tries once more: without the mark it is unknown when the slot may be written again. */
        if (marked < 0) marked = iter__device_mark(handle, batch->device.arrived, &error);
        if (marked < 0) {
            pthread_mutex_lock(&loader->lock);
            lose(loader, &error);
            pthread_mutex_unlock(&loader->lock);
        }
    }
    if (status < 0) {
        batch->status =
            iter__fail_in(&batch->error, status, "to the device (batch %llu of epoch %u)",
                          (unsigned long long)batch->info.number, batch->info.epoch);
    }
}

/* ---- Released slots -------------------------------------------------------------------------- */

/* OK if no stream reads the slot any more, PENDING if one may. No other thread may use the slot.
 * Events that have passed are not queried again. */
static iter_status ask(iter_loader *loader, iter_batch *batch, iter_error *err) {
    iter__device *handle = loader->device.handle;
    iter__slot_device *slot = &batch->device;
    if (HERE(slot->arrives)) {
        const iter_status status = iter__device_query(handle, slot->arrived, err);
        if (status != ITER_OK) return status;
        SET(slot->arrives, false);
    }
    for (unsigned left; (left = HERE(slot->marked)) != 0;) {
        const iter_status status =
            iter__device_query(handle, slot->released[__builtin_ctz(left)], err);
        if (status != ITER_OK) return status;
        SET(slot->streams[__builtin_ctz(left)], 0);
        SET(slot->marked, left & (left - 1));
    }
    return ITER_OK;
}

/* With loader.lock held. */
static iter_batch *take_oldest(iter__loader_device *device) {
    iter_batch *batch = device->oldest;
    if (!batch) return NULL;
    device->oldest = batch->next_free;
    device->n_released--;
    return batch;
}

void iter__slot_put_released(iter_loader *loader, iter_batch *batch) {
    iter__loader_device *device = &loader->device;
    batch->state = BATCH_RELEASED;
    batch->next_free = NULL;
    *(device->oldest ? &device->newest->next_free : &device->oldest) = batch;
    device->newest = batch;
    device->n_released++;
}

bool iter__slots_reclaim(iter_loader *loader) {
    iter__loader_device *device = &loader->device;
    iter_batch *asked = NULL, **end = &asked;
    for (int n = 0; n < ASK_MAX && device->oldest; n++) {
        *end = take_oldest(device);
        end = &(*end)->next_free;
    }
    *end = NULL;
    pthread_mutex_unlock(&loader->lock);
    iter_error error = {.status = ITER_OK};
    iter_status status = ITER_OK;
    iter_batch *passed = NULL, **passed_end = &passed, *busy = NULL, **busy_end = &busy;
    while (asked) {
        iter_batch *batch = asked;
        asked = batch->next_free;
        if (status >= 0) status = ask(loader, batch, &error);
        iter_batch ***to = status == ITER_OK ? &passed_end : &busy_end;
        **to = batch;
        *to = &batch->next_free;
    }
    *passed_end = *busy_end = NULL;
    pthread_mutex_lock(&loader->lock);
    if (status < 0) lose(loader, &error);
    for (iter_batch *batch = passed, *next; batch; batch = next) {
        next = batch->next_free;
        iter__queue_put_free(&loader->queue, batch);
    }
    for (iter_batch *batch = busy, *next; batch; batch = next) {
        next = batch->next_free;
        iter__slot_put_released(loader, batch);
    }
    return loader->queue.free_list != NULL;
}

void iter__slots_await(iter_loader *loader, int64_t timeout_ns) {
    const int64_t start = iter__now_ns();
    loader->device.awaited = true;
    for (;;) {
        const unsigned seen = iter__event_look(&loader->work);
        if (iter__slots_reclaim(loader) || loader->ending.broken || iter__is_canceled(loader))
            break;
        const int64_t waited = iter__now_ns() - start;
        if (timeout_ns >= 0 && waited >= timeout_ns) break;
        int64_t nap = waited / 8 < NAP_LEAST_NS ? NAP_LEAST_NS : waited / 8;
        if (nap > NAP_MOST_NS) nap = NAP_MOST_NS;
        if (timeout_ns >= 0 && nap > timeout_ns - waited) nap = timeout_ns - waited;
        loader->workers.sleepers++;
        pthread_mutex_unlock(&loader->lock);
        iter__event_wait(&loader->work, seen, iter__now_ns() + nap);
        pthread_mutex_lock(&loader->lock);
        loader->workers.sleepers--;
        if (iter__event_look(&loader->work) != seen) break;
    }
    loader->device.awaited = false;
}

/* ---- At the end ------------------------------------------------------------------------------ */

/* Queries an event until it has passed or the deadline is over. Tolerates the first errors. */
static iter_status settle_event(iter_loader *loader, iter__device_event *event, int64_t deadline) {
    const struct timespec nap = {.tv_nsec = NAP_NS};
    for (int n_errors = 0;;) {
        const iter_status status = iter__device_query(loader->device.handle, event, NULL);
        if (status == ITER_OK) return status;
        if (status < 0 && ++n_errors == SETTLE_ASKS) return status;
        if (status == ITER_PENDING && iter__now_ns() >= deadline) return status;
        nanosleep(&nap, NULL);
    }
}

static iter_status settle_batch(iter_loader *loader, iter_batch *batch, int64_t deadline) {
    iter__slot_device *slot = &batch->device;
    for (unsigned left; (left = HERE(slot->marked)) != 0;) {
        const iter_status status =
            settle_event(loader, slot->released[__builtin_ctz(left)], deadline);
        if (status != ITER_OK) return status;
        SET(slot->streams[__builtin_ctz(left)], 0);
        SET(slot->marked, left & (left - 1));
    }
    SET(slot->arrives, false); /* the loader's stream is done */
    return ITER_OK;
}

iter_status iter__device_slots_settle(iter_loader *loader, iter_error *err) {
    iter__loader_device *device = &loader->device;
    const int64_t deadline = iter__now_ns() + loader->ending.grace_ms * 1000000;
    iter_status status = ITER_OK;
    if (device->last) {
        status = iter__device_mark(device->handle, device->last, NULL);
        if (status < 0) status = iter__device_mark(device->handle, device->last, NULL);
        if (status == ITER_OK) status = settle_event(loader, device->last, deadline);
    }
    while (status == ITER_OK) {
        pthread_mutex_lock(&loader->lock);
        iter_batch *batch = take_oldest(device);
        pthread_mutex_unlock(&loader->lock);
        if (!batch) return ITER_OK;
        status = settle_batch(loader, batch, deadline);
        pthread_mutex_lock(&loader->lock);
        if (status == ITER_OK) {
            iter__queue_put_free(&loader->queue, batch);
        } else {
            iter__slot_put_released(loader, batch);
        }
        pthread_mutex_unlock(&loader->lock);
    }
    if (status < 0) return ITER_OK; /* the device is lost, so no stream reads any more */
    return iter__fail(
        err, ITER_ETIMEDOUT,
        "stop: streams of %s still read batches after %lld ms; their slots, page-locked "
        "and on the device, are leaked",
        iter__device_text(device->handle), (long long)loader->ending.grace_ms);
}

/* ---- Public ---------------------------------------------------------------------------------- */

static iter_status check(const iter_batch *batch, bool on_device, iter_error *err) {
    const iter_loader *loader = batch->loader;
    if (*(volatile uint32_t *)loader->alive != 1)
        return iter__fail(err, ITER_ESTATE, "batch: its loader was made before fork()");
    if (on_device && !batch->device.tensors) {
        return iter__fail(err, ITER_ESTATE, "batch: it is in host memory alone, not on a device");
    }
    if (!loader->device.handle) {
        return iter__fail(err, ITER_ESTATE,
                          "batch: its memory is neither page-locked nor on a device, so there is "
                          "nothing to release");
    }
    return ITER_OK;
}

uint32_t iter_batch_slot(const iter_batch *batch) {
    return batch->slot;
}

const iter_tensor *iter_batch_device_tensor(const iter_batch *batch, int32_t i) {
    if (!batch->device.tensors || i < 0 || i >= batch->loader->plan.n_fields) return NULL;
    return &batch->device.tensors[i];
}

iter_status iter_batch_wait(iter_batch *batch, void *stream, iter_error *err) {
    ITER_TRY(check(batch, true, err));
    return iter__device_wait(batch->loader->device.handle, batch->device.arrived, stream, err);
}

iter_status iter_batch_release(iter_batch *batch, void *stream, iter_error *err) {
    ITER_TRY(check(batch, false, err));
    iter__slot_device *slot = &batch->device;
    const uintptr_t name = (uintptr_t)stream + 1;
    unsigned marked = HERE(slot->marked), bit;
    for (unsigned left = marked; left != 0; left &= left - 1) {
        const int i = __builtin_ctz(left); /* the same stream again: its mark moves on */
        if (HERE(slot->streams[i]) == name)
            return iter__device_mark_on(batch->loader->device.handle, slot->released[i], stream,
                                        err);
    }
    do {
        bit = ~marked & (marked + 1); /* the lowest free one */
        if (bit >= 1u << ITER_STREAMS_MAX) {
            return iter__fail(err, ITER_ESTATE, "batch: %d streams have released it already",
                              ITER_STREAMS_MAX);
        }
    } while (!atomic_compare_exchange_weak(&slot->marked, &marked, marked | bit));
    const iter_status status = iter__device_mark_on(
        batch->loader->device.handle, slot->released[__builtin_ctz(bit)], stream, err);
    if (status < 0)
        atomic_fetch_and(&slot->marked, ~bit);
    else
        SET(slot->streams[__builtin_ctz(bit)], name);
    return status;
}

iter_status iter_batch_synchronize(iter_batch *batch, iter_error *err) {
    ITER_TRY(check(batch, true, err));
    if (!HERE(batch->device.arrives)) return ITER_OK;
    ITER_TRY(iter__device_sync(batch->loader->device.handle, batch->device.arrived, err));
    SET(batch->device.arrives, false);
    return ITER_OK;
}
