/*
 * stored_rows.c - rows that come as they lie in memory: whole batches as views, others by one
 * gather.
 *
 * A field is stored if its rows lie in memory as the batch has them: an array or a preloaded set,
 * and no stage that changes them. If all fields are stored and a batch's rows follow one another,
 * its tensors point into the set and the batch is READY when it is opened: no row can fail, and
 * there is nothing to do. The set outlives the batch, because a held batch keeps the loader, and
 * the loader its dataset.
 */
#include <iter/loader.h>

#include "iter/core/gather.h"
#include "iter/runtime/loader_state.h"

/* Whether all labels are within their limit, so that they need not be checked row by row. */
static bool are_within(const iter_field *in, const iter__resident *rows, uint64_t n) {
    for (uint64_t i = 0; in->limit && i < n; i++)
        if (iter__scalar_value(rows->base + i * rows->stride, in->desc.dtype) >= in->limit)
            return false;
    return true;
}

static bool is_stored(const iter_loader *loader, const iter__field_plan *field) {
    if (field->lengths_of >= 0 || field->from != ITER_ROW_RESIDENT || field->variable) return false;
    if (field->way != ITER_WAY_HOST || (field->n_made && !field->copies)) return false;
    const iter__resident *rows = &loader->loaded.resident[field->in];
    return rows->base && field->made_bytes == field->row_bytes &&
           are_within(&loader->dataset->desc.fields[field->in], rows,
                      loader->dataset->desc.n_samples);
}

/* Whether a tensor may begin at any of these rows. */
static bool can_be_viewed(const iter_loader *loader, const iter__field_plan *field) {
    const iter__resident *rows = &loader->loaded.resident[field->in];
    return rows->stride == field->row_bytes && field->row_bytes && !field->n_batch_steps &&
           (uintptr_t)rows->base % iter_dtype_bytes(field->row.dtype) == 0;
}

void iter__stored_rows_find(iter_loader *loader) {
    const iter_loader_options *opt = &loader->opt;
    iter__loaded *loaded = &loader->loaded;
    loaded->all_stored = !opt->reading.only_reads && !loader->plan.has_ways &&
                         loader->slots.kind == ITER_MEMORY_HOST && !loader->device.handle;
    loaded->views = loaded->all_stored && opt->views == ITER_VIEWS_AUTO && !opt->collate;
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        loaded->is_stored[f] = is_stored(loader, field);
        loaded->all_stored &= loaded->is_stored[f];
        loaded->views &= loaded->is_stored[f] && can_be_viewed(loader, field);
    }
}

void iter__stored_rows_ahead(const iter_loader *loader, const iter_batch *batch, uint32_t n) {
    if (!loader->loaded.all_stored || loader->workers.n > 0) return;
    if (loader->loaded.views && n > 1 && batch->index[1] == batch->index[0] + 1) return;
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        const iter__resident *rows = &loader->loaded.resident[field->in];
        iter__gather_ahead(rows->base, rows->stride, field->made_bytes, batch->index, n);
    }
}

void iter__stored_rows_copy(const iter_loader *loader, const iter_batch *batch,
                            const iter__field_plan *field, uint32_t first, uint32_t n) {
    const iter__resident *rows = &loader->loaded.resident[field->in];
    iter__gather(batch->memory + field->slot_offset + (size_t)first * field->made_bytes, rows->base,
                 rows->stride, field->made_bytes, batch->index + first, n,
                 batch->info.n_rows - first);
}

bool iter__batch_view(const iter_loader *loader, iter_batch *batch) {
    const uint32_t n_rows = batch->info.n_rows;
    if (!loader->loaded.views || n_rows == 0) return false;
    const uint64_t *index = batch->index;
    if (index[n_rows - 1] != index[0] + n_rows - 1) return false; /* most shuffled batches */
    uint64_t differ = 0;
    for (uint32_t i = 0; i < n_rows; i++)
        differ |= index[i] ^ (index[0] + i);
    if (differ) return false;
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__resident *rows = &loader->loaded.resident[loader->plan.fields[f].in];
        batch->tensors[f].data = (uint8_t *)(uintptr_t)(rows->base + index[0] * rows->stride);
    }
    return true;
}
