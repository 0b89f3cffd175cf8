/*
 * gpu_link.h - the way to a GPU beside a loader: the copies of a batch, their speed alone, and rows
 * read back from the GPU.
 */
#ifndef BENCH_GPU_LINK_H
#define BENCH_GPU_LINK_H

#include <iter/loader.h>

#include "bench/measure/gpu_plain.h"
#include "bench/measure/measure.h"

/** Rates of copies to a GPU, in turns: those of a loader's slots, and plain ones of the same size.
 * NaN = unknown. */
typedef struct gpu_link_rates {
    double batch_bytes; /* that travel for a batch */
    double plain_bytes_per_s;
    double slots_bytes_per_s;        /* NaN if rows do not travel as they are delivered */
    measure_interval slots_by_plain; /* pair by pair */
} gpu_link_rates;
#define GPU_LINK_RATES_NONE  \
    {                        \
        NAN, NAN, NAN, {     \
            NAN, NAN, NAN, 0 \
        }                    \
    }

typedef struct gpu_link gpu_link;

/** Opens the GPU of ITER_DEVICE(n). Errors: those of gpu_plain_open(). */
iter_status gpu_link_open(int32_t device, gpu_link **out, iter_error *err);
/** NULL is ignored. */
void gpu_link_close(gpu_link *l);
gpu_plain *gpu_link_cuda(gpu_link *l);

/** Lists the copies of the batch's rows, from its slot to the device. Returns how many; 0 if the
 * rows in the slot are not those that travel. */
uint32_t gpu_link_copies(const iter_batch *batch, int32_t n_fields,
                         gpu_plain_copy out[ITER_MAX_FIELDS]);

/**
 * Measures plain copies of one batch's size, and those of the batches.
 *
 *   batches      [n] held by the caller; n may be 0
 *   batch_bytes  bytes that travel per batch, used if the batches do not tell; NaN = unknown
 *
 * Errors  ENOMEM, EDEVICE.
 */
iter_status gpu_link_measure(gpu_link *l, iter_batch *const *batches, uint32_t n, int32_t n_fields,
                             double batch_bytes, gpu_link_rates *out, iter_error *err);

/** Waits for the batch and copies all its tensors to host memory, which lives until the next call:
 * out[n_fields]. Errors: ENOMEM, EDEVICE, EUNSUPPORTED (strides that go backwards). */
iter_status gpu_link_fetch(gpu_link *l, iter_batch *batch, int32_t n_fields, iter_tensor *out,
                           iter_error *err);

#endif
