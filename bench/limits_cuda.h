/*
 * limits_cuda.h - the link to a GPU by plain copies: what it gives at best, and copies for replays.
 *
 * Page-locked memory to the device, one stream, nothing between the driver and the clock. The driver
 * is opened at run time, apart from the library's own use of it.
 */
#ifndef LIMITS_CUDA_H
#define LIMITS_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

typedef struct limits_cuda limits_cuda;

/** One copy to the device. */
typedef struct limits_cuda_copy {
    uint64_t to; /* device address */
    const void *from;
    size_t bytes;
} limits_cuda_copy;

/**
 * Opens GPU number `ordinal` with a stream of its own.
 *
 * Errors  EUNSUPPORTED (no driver, too old a one, no such GPU), EDEVICE, ENOMEM.
 * Threads one at a time.
 */
iter_status limits_cuda_open(int32_t ordinal, limits_cuda **out, iter_error *err);
/** Waits for what is queued. NULL is ignored. */
void limits_cuda_close(limits_cuda *cuda);

/**
 * Makes n pairs of buffers of `bytes`, one page-locked, one on the device, in place of those of the
 * last call, and describes them.
 *
 *   out  [n]
 *
 * Errors  ENOMEM, EDEVICE.
 */
iter_status limits_cuda_buffers(limits_cuda *cuda, size_t bytes, uint32_t n, limits_cuda_copy *out,
                                iter_error *err);

/** Queues one copy on the stream; waits for all that is queued there. Errors: EDEVICE. */
iter_status limits_cuda_queue(limits_cuda *cuda, const limits_cuda_copy *copy, iter_error *err);
iter_status limits_cuda_wait(limits_cuda *cuda, iter_error *err);

/** Does the copies in turns for about `seconds`, and says bytes a second. Errors: EDEVICE. */
iter_status limits_cuda_rate(limits_cuda *cuda, const limits_cuda_copy *copies, uint32_t n,
                             double seconds, double *out_bytes_per_s, iter_error *err);

/** Copies `bytes` back from the device, and waits for them. Errors: EDEVICE. */
iter_status limits_cuda_fetch(limits_cuda *cuda, void *to, const void *from, size_t bytes,
                              iter_error *err);

#endif
