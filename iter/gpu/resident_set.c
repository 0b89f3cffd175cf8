/* resident_set.c - a resident set after its upload: which samples have no row, and its end. */
#include "iter/core/alloc.h"
#include "iter/runtime/loader_state.h"

void iter__resident_free(iter_loader *loader) {
    iter__resident_set *set = &loader->device.set;
    if (set->memory) iter__device_free(loader->device.handle, set->memory);
    iter__alloc_book(ITER_ALLOC_DEVICE, -(long long)set->bytes);
    iter__free(set->failed);
    *set = (iter__resident_set){.is_off = set->is_off};
}

/* ---- Samples without a row ------------------------------------------------------------------- */

static const iter_failure *failure_of(const iter__resident_set *set, uint64_t index) {
    size_t low = 0, high = set->n_failed;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (set->failed[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->n_failed && set->failed[low].index == index ? &set->failed[low] : NULL;
}

void iter__resident_fail(iter_loader *loader, iter_batch *batch, uint32_t first, uint32_t n) {
    for (uint32_t row = first; row < first + n; row++) {
        const iter_failure *failure = failure_of(&loader->device.set, batch->index[row]);
        if (failure) iter__row_fail_as(batch, row, failure);
    }
}
