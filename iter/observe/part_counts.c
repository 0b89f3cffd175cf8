/* part_counts.c - counts what each part of a dataset has given. */
#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/runtime/loader_state.h"

iter_status iter__parts_create(iter_loader *loader, iter_error *err) {
    const iter_description *desc = &loader->dataset->desc;
    iter__part_counts *parts = &loader->parts;
    if (!desc->parts) return ITER_OK;
    const size_t n = (size_t)desc->n_parts;
    parts->first = iter__alloc(n + 1, sizeof(*parts->first));
    parts->samples = iter__alloc(n, sizeof(*parts->samples));
    parts->failures = iter__alloc(n, sizeof(*parts->failures));
    if (!parts->first || !parts->samples || !parts->failures)
        return iter__fail(err, ITER_ENOMEM, "loader: out of memory");
    for (size_t i = 0; i < n; i++)
        parts->first[i + 1] = parts->first[i] + desc->parts[i].n_samples;
    return ITER_OK;
}

void iter__parts_free(iter_loader *loader) {
    iter__free(loader->parts.first);
    iter__free(loader->parts.samples);
    iter__free(loader->parts.failures);
}

void iter__parts_count(iter_loader *loader, const iter_batch *batch) {
    const iter__part_counts *parts = &loader->parts;
    const int32_t n = loader->dataset->desc.n_parts;
    for (uint32_t row = 0; row < batch->info.n_rows; row++) {
        const uint64_t index = batch->index[row];
        int32_t low = 0, high = n;
        if (row < batch->info.first_valid || row >= batch->info.first_valid + batch->info.n_valid)
            continue;
        while (high - low > 1) {
            const int32_t middle = low + (high - low) / 2;
            if (parts->first[middle] <= index)
                low = middle;
            else
                high = middle;
        }
        atomic_fetch_add_explicit(&parts->samples[low], 1, memory_order_relaxed);
        if (iter__row_state_get(batch, row) != ROW_FINE)
            atomic_fetch_add_explicit(&parts->failures[low], 1, memory_order_relaxed);
    }
}

int32_t iter_loader_parts(const iter_loader *loader, iter_part_stats *out, int32_t capacity) {
    const iter_description *desc = &loader->dataset->desc;
    const iter__part_counts *parts = &loader->parts;
    for (int32_t i = 0; i < desc->n_parts && i < capacity; i++) {
        const iter_part *part = &desc->parts[i];
        out[i] = (iter_part_stats){part->name, part->weight, part->n_samples,
                                   atomic_load_explicit(&parts->samples[i], memory_order_relaxed),
                                   atomic_load_explicit(&parts->failures[i], memory_order_relaxed)};
    }
    return desc->parts ? desc->n_parts : 0;
}
