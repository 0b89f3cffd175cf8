/*
 * gpu_link.c - the way to a GPU beside a loader.
 *
 * "The same size" is per batch: a loader sends adjacent rows of a slot as one copy, and so do the
 * copies here.
 */
#include "bench/measure/gpu_link.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_util.h"

#define TIMES   7
#define SLICE_S 0.04
/* the largest gap between fields that travel together, as in the loader */
#define GAP_MAX  ((size_t)32 << 10)
#define HELD_MAX 64

struct gpu_link {
    gpu_plain *cuda;
    uint8_t *rows[ITER_MAX_FIELDS];
    size_t capacity[ITER_MAX_FIELDS];
};

iter_status gpu_link_open(int32_t device, gpu_link **out, iter_error *err) {
    *out = NULL;
    gpu_link *l = calloc(1, sizeof(*l));
    if (l == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for the GPU's copies");
    iter_status s = gpu_plain_open(device - ITER_DEVICE(0), &l->cuda, err);
    if (s < 0)
        free(l);
    else
        *out = l;
    return s;
}

void gpu_link_close(gpu_link *l) {
    if (l == NULL) return;
    gpu_plain_close(l->cuda);
    for (int i = 0; i < ITER_MAX_FIELDS; i++)
        free(l->rows[i]);
    free(l);
}

gpu_plain *gpu_link_cuda(gpu_link *l) {
    return l->cuda;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Bytes from a tensor's first element to the end of its last one; false if strides go backwards. */
static bool span_of(const iter_tensor *tensor, size_t *out) {
    const size_t element = iter_dtype_bytes(tensor->desc.dtype);
    int64_t last = 0;
    *out = 0;
    for (int32_t d = 0; d < tensor->desc.n_dims; d++) {
        if (tensor->strides[d] < 0) return false;
        /* Rows of varying length have their capacity's stride. */
        if (tensor->desc.dims[d] == ITER_VARIABLE) {
            if (d == 0) return false;
            *out = (size_t)(tensor->desc.dims[0] * tensor->strides[0]) * element;
            return true;
        }
        if (tensor->desc.dims[d] == 0) return true;
        last += (tensor->desc.dims[d] - 1) * tensor->strides[d];
    }
    *out = ((size_t)last + 1) * element;
    return true;
}

uint32_t gpu_link_copies(const iter_batch *batch, int32_t n_fields,
                         gpu_plain_copy out[ITER_MAX_FIELDS]) {
    uint32_t n = 0;
    for (int32_t f = 0; f < n_fields; f++) {
        const iter_tensor *host = iter_batch_tensor(batch, f);
        const iter_tensor *device = iter_batch_device_tensor(batch, f);
        size_t bytes;
        if (host == NULL || host->data == NULL || device == NULL || !span_of(host, &bytes))
            return 0;
        const uint64_t to = (uint64_t)(uintptr_t)device->data;
        const uint64_t from = (uint64_t)(uintptr_t)host->data;
        gpu_plain_copy *before = n > 0 ? &out[n - 1] : NULL;
        const uint64_t end = before != NULL ? (uint64_t)(uintptr_t)before->from + before->bytes : 0;
        if (bytes == 0) continue;
        if (before != NULL && from >= end && from - end <= GAP_MAX &&
            to - before->to == from - (uint64_t)(uintptr_t)before->from)
            before->bytes = (size_t)(from + bytes - (uint64_t)(uintptr_t)before->from);
        else
            out[n++] = (gpu_plain_copy){to, host->data, bytes};
    }
    return n;
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static iter_status alternate(gpu_link *l, const gpu_plain_copy *plain, const gpu_plain_copy *slots,
                             uint32_t n_plain, uint32_t n_slots, gpu_link_rates *out,
                             iter_error *err) {
    double plains[TIMES], slot[TIMES] = {0}, ratios[TIMES];
    iter_status s = ITER_OK;
    for (int i = 0; s == ITER_OK && i < TIMES; i++) {
        s = gpu_plain_rate(l->cuda, plain, n_plain, SLICE_S, &plains[i], err);
        if (s == ITER_OK && n_slots > 0)
            s = gpu_plain_rate(l->cuda, slots, n_slots, SLICE_S, &slot[i], err);
        ratios[i] = slot[i] / plains[i];
    }
    if (s < 0) return s;
    out->plain_bytes_per_s = measure_median(plains, TIMES).median;
    if (n_slots == 0) return ITER_OK;
    out->slots_bytes_per_s = measure_median(slot, TIMES).median;
    out->slots_by_plain = measure_median(ratios, TIMES);
    return ITER_OK;
}

iter_status gpu_link_measure(gpu_link *l, iter_batch *const *batches, uint32_t n, int32_t n_fields,
                             double batch_bytes, gpu_link_rates *out, iter_error *err) {
    gpu_plain_copy *slots = calloc((size_t)HELD_MAX * ITER_MAX_FIELDS, sizeof(*slots));
    gpu_plain_copy plain[HELD_MAX];
    uint32_t n_slots = 0;
    uint64_t bytes = 0;
    *out = (gpu_link_rates)GPU_LINK_RATES_NONE;
    if (slots == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for the GPU's copies");
    if (n > HELD_MAX) n = HELD_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t more = gpu_link_copies(batches[i], n_fields, &slots[n_slots]);
        for (uint32_t k = 0; k < more; k++)
            bytes += slots[n_slots + k].bytes;
        n_slots += more;
    }
    out->batch_bytes = n_slots > 0 ? (double)bytes / n : batch_bytes;
    iter_status s = ITER_OK;
    if (out->batch_bytes >= 1) {
        const uint32_t n_plain = n > 0 ? n : 2;
        s = gpu_plain_buffers(l->cuda, (size_t)out->batch_bytes, n_plain, plain, err);
        if (s == ITER_OK) s = alternate(l, plain, slots, n_plain, n_slots, out, err);
    }
    free(slots);
    return s;
}

/* ---- Rows read back -------------------------------------------------------------------------- */

iter_status gpu_link_fetch(gpu_link *l, iter_batch *batch, int32_t n_fields, iter_tensor *out,
                           iter_error *err) {
    iter_status s = iter_batch_synchronize(batch, err);
    for (int32_t f = 0; s == ITER_OK && f < n_fields; f++) {
        const iter_tensor *device = iter_batch_device_tensor(batch, f);
        size_t bytes;
        if (!span_of(device, &bytes))
            return bench_fail(err, ITER_EUNSUPPORTED,
                              "field %d cannot be read back: its strides go backwards", f);
        if (bytes > l->capacity[f]) {
            free(l->rows[f]);
            l->rows[f] = malloc(bytes);
            l->capacity[f] = l->rows[f] != NULL ? bytes : 0;
            if (l->rows[f] == NULL)
                return bench_fail(err, ITER_ENOMEM, "no memory for %zu bytes of a batch", bytes);
        }
        out[f] = *device;
        out[f].data = l->rows[f];
        if (bytes > 0) s = gpu_plain_fetch(l->cuda, l->rows[f], device->data, bytes, err);
    }
    return s;
}
