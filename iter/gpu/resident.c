/*
 * resident.c - all rows of a dataset on the device, uploaded once, when the loader is created.
 *
 * A second loader over the same dataset reads the rows, in order and without a chain. So the same
 * code reads, decodes and checks the files, and a sample fails here for the reason that its batch
 * would give. The second loader's slots are page-locked if possible. Two are in use at a time: one
 * is made while the other is copied. Fields that a kernel only copies are finished before the
 * upload.
 *
 * A set belongs to its loader: two loaders over one dataset upload it twice.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/runtime/loader_state.h"

#define BATCH_BYTES ((size_t)4 << 20)
#define BATCH_MOST  4096
#define IN_FLIGHT   2

typedef struct upload {
    iter_loader *to;              /* gets the set */
    iter_loader *from;            /* reads the rows */
    uint8_t *finished[IN_FLIGHT]; /* rows of the fields that are finished here */
    uint8_t *scratch;
    size_t finished_bytes; /* of all those fields, a row */
    iter__device_event *copied[IN_FLIGHT];
    iter_batch *batches[IN_FLIGHT];
} upload;

/* Bytes of a row on the device. */
static size_t set_row_bytes(const iter__field_plan *field) {
    return field->way == ITER_WAY_SET ? iter_desc_bytes(&field->source) : field->row_bytes;
}

/* Whether the field's rows are finished before the upload. */
static bool is_finished_here(const iter__field_plan *field) {
    return field->way == ITER_WAY_GATHER && field->n_steps > 0 && !field->copies;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static iter_status alloc_set(iter_loader *loader, iter_error *err) {
    iter__resident_set *set = &loader->device.set;
    const size_t n = (size_t)loader->dataset->desc.n_samples + 1;
    size_t bytes = 0, offsets[ITER_MAX_OUT];
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        size_t field;
        offsets[f] = bytes;
        if (__builtin_mul_overflow(set_row_bytes(&loader->plan.fields[f]), n, &field) ||
            field > SIZE_MAX / 4 || bytes > SIZE_MAX / 4)
            return iter__fail(err, ITER_ENOMEM, "the set is larger than any memory");
        /* 64 more: kernels may load the word that a row ends in. */
        bytes += iter__align_up_size(field + 64, 256);
    }
    const iter_status status = iter__device_alloc(loader->device.handle, bytes, &set->memory, err);
    if (status < 0)
        return iter__fail_in(err, status, "%llu rows of the set, %zu bytes",
                             (unsigned long long)loader->dataset->desc.n_samples, bytes);
    set->bytes = bytes;
    set->n_rows = n - 1;
    iter__alloc_book(ITER_ALLOC_DEVICE, (long long)bytes);
    for (int32_t f = 0; f < loader->plan.n_fields; f++)
        set->fields[f] = set->memory + offsets[f];
    return ITER_OK;
}

static iter_status open_reader(upload *up, iter__loader_open *open, iter_error *err) {
    const iter_loader *to = up->to;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    size_t row = 1;
    for (int32_t f = 0; f < to->plan.n_fields; f++)
        row += iter_desc_bytes(&to->plan.fields[f].source);
    const uint64_t n = to->dataset->desc.n_samples, fit = BATCH_BYTES / row;
    opt.batch_size = (uint32_t)(fit < 1 ? 1 : fit < BATCH_MOST ? fit : BATCH_MOST);
    if (opt.batch_size > n) opt.batch_size = (uint32_t)(n ? n : 1);
    opt.workers = to->opt.workers;
    opt.max_held = IN_FLIGHT;
    opt.last_batch = ITER_LAST_KEEP;
    opt.epochs = 1;
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    opt.reading.source = to->opt.reading.source;
    opt.reading.ops = to->opt.reading.ops;
    opt.reading.o_direct = to->opt.reading.o_direct;
    opt.reading.max_sample_bytes = to->opt.reading.max_sample_bytes;
    opt.memory.limit = to->opt.memory.limit;
    opt.sampler.registry = to->opt.sampler.registry;
    /* Each file is read once, so preloading it would gain nothing. */
    if (opt.reading.source == ITER_SOURCE_AUTO && !iter__dataset_is_preloaded(to->dataset))
        opt.reading.source = ITER_SOURCE_RING;
    opt.memory.kind = ITER_MEMORY_PINNED;
    opt.memory.device = to->opt.memory.device;
    const iter_status status = open(to->dataset, &opt, &up->from, err);
    if (status == ITER_OK) return ITER_OK;
    opt.memory.kind = ITER_MEMORY_HOST; /* works, only slower */
    return open(to->dataset, &opt, &up->from, err);
}

static iter_status make_staging(upload *up, iter_error *err) {
    const iter__plan *plan = &up->to->plan;
    for (int32_t f = 0; f < plan->n_fields; f++) {
        if (is_finished_here(&plan->fields[f])) up->finished_bytes += plan->fields[f].row_bytes;
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        ITER_TRY(iter__device_event_new(up->to->device.handle, &up->copied[i], err));
        up->finished[i] = iter__alloc(up->from->opt.batch_size, up->finished_bytes + 64);
        if (!up->finished[i]) return iter__fail(err, ITER_ENOMEM, "out of memory");
    }
    up->scratch = iter__alloc(1, plan->scratch_bytes + 64);
    return up->scratch ? ITER_OK : iter__fail(err, ITER_ENOMEM, "out of memory");
}

/* Waits until no copy uses batch `i`, then gives it back. */
static iter_status settle(upload *up, int i, iter_error *err) {
    iter_status status = ITER_OK;
    if (up->batches[i]) status = iter__device_sync(up->to->device.handle, up->copied[i], err);
    iter_batch_unref(up->batches[i]);
    up->batches[i] = NULL;
    return status;
}

static void end(upload *up) {
    for (int i = 0; i < IN_FLIGHT; i++) {
        if (up->batches[i]) (void)settle(up, i, NULL);
        iter__device_event_free(up->to->device.handle, up->copied[i]);
        iter__free(up->finished[i]);
    }
    iter__free(up->scratch);
    iter_loader_unref(up->from);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static iter_status copy(upload *up, iter__device_address at, const void *from, size_t bytes,
                        iter_error *err) {
    iter__loader_device *device = &up->to->device;
    ITER_TRY(iter__device_copy(device->handle, at, from, bytes, err));
    atomic_fetch_add_explicit(&device->n_copies, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&device->copied_bytes, bytes, memory_order_relaxed);
    return ITER_OK;
}

static iter_status note_failures(upload *up, const iter_batch *batch, iter_error *err) {
    iter__resident_set *set = &up->to->device.set;
    for (uint32_t row = 0; row < batch->info.n_rows; row++) {
        if (!iter__row_failed(batch, row)) continue;
        if (set->n_failed == set->failed_capacity) {
            const size_t more = set->failed_capacity ? 2 * set->failed_capacity : 16;
            iter_failure *failed = iter__realloc(set->failed, more * sizeof(*failed));
            if (!failed) return iter__fail(err, ITER_ENOMEM, "out of memory");
            set->failed = failed;
            set->failed_capacity = more;
        }
        set->failed[set->n_failed++] = iter__row_reason(batch, row);
    }
    return ITER_OK;
}

/* The rows of one field in the form that the device gets. */
static const uint8_t *finish(upload *up, int i, size_t *used, const iter__field_plan *field,
                             const iter_batch *batch, const uint8_t *in) {
    if (!is_finished_here(field)) return in;
    const iter__pack_sample sample = {0}; /* nothing is drawn */
    const size_t in_bytes = iter_desc_bytes(&field->source);
    uint8_t *const rows = up->finished[i] + *used;
    for (uint32_t row = 0; row < batch->info.n_rows; row++)
        iter__packer.run(field->steps[0].pack, in + row * in_bytes, rows + row * field->row_bytes,
                         &sample, up->scratch, NULL);
    *used += batch->info.n_rows * field->row_bytes;
    return rows;
}

/* The reader's field that comes from the same field of the dataset. */
static const iter_tensor *read_field(const upload *up, const iter_batch *batch, int32_t in) {
    for (int32_t f = 0; f < up->from->plan.n_fields; f++) {
        if (up->from->plan.fields[f].in == in) return &batch->tensors[f];
    }
    return NULL;
}

static iter_status send(upload *up, int i, uint64_t first, iter_error *err) {
    const iter_loader *to = up->to;
    const iter_batch *batch = up->batches[i];
    size_t used = 0;
    ITER_TRY(note_failures(up, batch, err));
    for (int32_t f = 0; f < to->plan.n_fields; f++) {
        const iter__field_plan *field = &to->plan.fields[f];
        const uint8_t *rows =
            finish(up, i, &used, field, batch, read_field(up, batch, field->in)->data);
        const size_t bytes = set_row_bytes(field);
        ITER_TRY(copy(up, to->device.set.fields[f] + first * bytes, rows,
                      batch->info.n_rows * bytes, err));
    }
    return ITER_OK;
}

/* Uploads the row of zeros that blank rows are gathered from. */
static iter_status send_zeros(upload *up, iter_error *err) {
    const iter__plan *plan = &up->to->plan;
    const iter__resident_set *set = &up->to->device.set;
    size_t most = 1;
    for (int32_t f = 0; f < plan->n_fields; f++) {
        const size_t bytes = set_row_bytes(&plan->fields[f]);
        most = bytes > most ? bytes : most;
    }
    uint8_t *zeros = iter__alloc(1, most);
    if (!zeros) return iter__fail(err, ITER_ENOMEM, "out of memory");
    iter_status status = ITER_OK;
    for (int32_t f = 0; f < plan->n_fields && status == ITER_OK; f++) {
        const size_t bytes = set_row_bytes(&plan->fields[f]);
        status = copy(up, set->fields[f] + set->n_rows * bytes, zeros, bytes, err);
    }
    /* Waits: the copies must have read the zeros before these are freed. */
    if (status == ITER_OK) status = iter__device_mark(up->to->device.handle, up->copied[0], err);
    if (status == ITER_OK) status = iter__device_sync(up->to->device.handle, up->copied[0], err);
    iter__free(zeros);
    return status;
}

static iter_status send_all(upload *up, iter_error *err) {
    uint64_t first = 0;
    for (int i = 0;; i = (i + 1) % IN_FLIGHT) {
        ITER_TRY(settle(up, i, err));
        const iter_status status = iter_loader_next(up->from, &up->batches[i], err);
        if (status == ITER_END) break;
        if (status != ITER_OK) return status;
        const iter_status sent = send(up, i, first, err);
        /* Also if a copy failed: those before it are in flight. */
        const iter_status marked =
            iter__device_mark(up->to->device.handle, up->copied[i], sent == ITER_OK ? err : NULL);
        if (sent < 0) return sent;
        if (marked < 0) return marked;
        first += up->batches[i]->info.n_rows;
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        ITER_TRY(settle(up, i, err));
    return send_zeros(up, err);
}

iter_status iter__resident_upload(iter_loader *loader, iter__loader_open *open, iter_error *err) {
    upload up = {.to = loader};
    iter_status status = alloc_set(loader, err);
    if (status == ITER_OK) status = open_reader(&up, open, err);
    if (status == ITER_OK) status = make_staging(&up, err);
    if (status == ITER_OK) status = send_all(&up, err);
    for (int i = 0; up.from && i < ITER_PATH_COUNT; i++) {
        atomic_fetch_add_explicit(
            &loader->reading.path_bytes[i],
            atomic_load_explicit(&up.from->reading.path_bytes[i], memory_order_relaxed),
            memory_order_relaxed);
    }
    if (status < 0) iter__resident_free(loader); /* the driver waits for copies in flight */
    end(&up);
    return status;
}
