/*
 * gpu_plain.h - the link to a GPU by plain copies: its best rate, and copies for replays.
 *
 * Copies go from page-locked memory to the device in one stream, with nothing between the driver
 * and the clock. The driver is opened at run time, apart from the library's own use of it.
 */
#ifndef GPU_PLAIN_H
#define GPU_PLAIN_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

typedef struct gpu_plain gpu_plain;

/** One copy to the device. */
typedef struct gpu_plain_copy {
    uint64_t to; /* device address */
    const void *from;
    size_t bytes;
} gpu_plain_copy;

/**
 * Opens GPU number `ordinal` with a stream of its own.
 *
 * Errors  EUNSUPPORTED (no driver, too old a driver, no such GPU), EDEVICE, ENOMEM.
 * Threads one at a time.
 */
iter_status gpu_plain_open(int32_t ordinal, gpu_plain **out, iter_error *err);
/** Waits for queued copies. NULL is ignored. */
void gpu_plain_close(gpu_plain *cuda);

/**
 * Makes n pairs of buffers of `bytes`, one page-locked, one on the device, and describes them. They
 * replace those of the last call.
 *
 *   out  [n]
 *
 * Errors  ENOMEM, EDEVICE.
 */
iter_status gpu_plain_buffers(gpu_plain *cuda, size_t bytes, uint32_t n, gpu_plain_copy *out,
                              iter_error *err);

/** Queues one copy on the stream; waits for all queued copies. Errors: EDEVICE. */
iter_status gpu_plain_queue(gpu_plain *cuda, const gpu_plain_copy *copy, iter_error *err);
iter_status gpu_plain_wait(gpu_plain *cuda, iter_error *err);

/** Repeats the copies in turn for about `seconds`, and returns bytes a second. Errors: EDEVICE. */
iter_status gpu_plain_rate(gpu_plain *cuda, const gpu_plain_copy *copies, uint32_t n,
                           double seconds, double *out_bytes_per_s, iter_error *err);

/** Copies `bytes` back from the device, and waits for them. Errors: EDEVICE. */
iter_status gpu_plain_fetch(gpu_plain *cuda, void *to, const void *from, size_t bytes,
                            iter_error *err);

#endif
