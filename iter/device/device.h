/*
 * device.h - a GPU for a loader: memory, copies, order. One iter__device per loader.
 *
 *     host slot (pinned) --copy--> twin on the device --mark--> event <--wait-- consumer's stream
 *
 * Implemented with CUDA's driver API, which is opened at run time: neither build, link nor start
 * needs CUDA. Any thread may call, with or without a context of its own: each call pushes the
 * device's context, pops it, and leaves the thread as it was. No function takes a lock, and only
 * those marked (create) allocate. Errors name the driver's call and its result. If an error is
 * permanent (an illegal address, a device that fell off the bus), every further call fails with
 * EDEVICE and the first error's message.
 */
#ifndef ITER_DEVICE_DEVICE_H
#define ITER_DEVICE_DEVICE_H

#include <stdbool.h>

#include <iter/loader.h>

#include "iter/spec/pack.h"

typedef struct iter__device iter__device;
typedef struct iter__device_event iter__device_event;
typedef uint64_t iter__device_address; /* address on the device; 0 = none */

/* True if the driver is loaded in this process and the calling thread has a context. Loads, opens
 * and initialises nothing. */
bool iter__device_current(void);
/* (create) Opens a device. If `device` is 0 and the calling thread has a current context, uses that
 * context; otherwise the primary context of device 0. ITER_DEVICE(n): the primary context of device
 * n. A primary context is retained until close; any other context must be kept by the caller.
 * Errors: EUNSUPPORTED (no driver, or a driver that is too old, or no such device; says which and
 * what is required), EDEVICE. */
iter_status iter__device_open(int32_t device, iter__device **out, iter_error *err);
/* Waits for what is in flight on its stream. NULL is ignored. */
void iter__device_close(iter__device *device);
/* "NVIDIA H200, sm_90, driver 13.0"; valid as long as the device. */
const char *iter__device_text(const iter__device *device);
/* The driver's number of the device, as needed for DLPack. */
int32_t iter__device_ordinal(const iter__device *device);

/* (create) Page-locks host memory from mmap(), and lets the device read it; it need not be aligned
 * to 64 KiB. Errors: ENOMEM (with the size, and what to lower), EDEVICE. */
iter_status iter__device_pin(iter__device *device, void *memory, size_t bytes, iter_error *err);
/* Waits for what is in flight on the loader's stream; so does free(). NULL is ignored. */
void iter__device_unpin(iter__device *device, void *memory);
/* (create) Allocates memory on the device, aligned to 256 bytes. Errors: ENOMEM with the size, what
 * is free, and what to lower. */
iter_status iter__device_alloc(iter__device *device, size_t bytes, iter__device_address *out,
                               iter_error *err);
void iter__device_free(iter__device *device, iter__device_address memory);
/* Memory of the device that is free now. Errors: EDEVICE. */
iter_status iter__device_room(iter__device *device, size_t *out_free, iter_error *err);
/* (create) Makes an event. sync() on it sleeps and uses no CPU. */
iter_status iter__device_event_new(iter__device *device, iter__device_event **out, iter_error *err);
void iter__device_event_free(iter__device *device, iter__device_event *event);

/* Queues a copy on the loader's stream. Host memory must not change until an event after it. */
iter_status iter__device_copy(iter__device *device, iter__device_address to, const void *from,
                              size_t bytes, iter_error *err);
/* Marks this point of the loader's stream, or of a stream of the caller's (NULL = CUDA's default
 * stream). mark_on: ESTATE if that stream is being captured. */
iter_status iter__device_mark(iter__device *device, iter__device_event *event, iter_error *err);
iter_status iter__device_mark_on(iter__device *device, iter__device_event *event, void *stream,
                                 iter_error *err);
/* Whether the event has passed: OK, PENDING, or an error. An event that was never marked has
 * passed. */
iter_status iter__device_query(iter__device *device, iter__device_event *event, iter_error *err);
/* Blocks the calling thread until the event has passed. */
iter_status iter__device_sync(iter__device *device, iter__device_event *event, iter_error *err);
/* Makes a stream of the caller's wait for the event (NULL = CUDA's default stream). ESTATE if that
 * stream is being captured. */
iter_status iter__device_wait(iter__device *device, iter__device_event *event, void *stream,
                              iter_error *err);

/* ---- Rows that a kernel finishes ------------------------------------------------------------- */

/* One launch on the loader's stream: n_rows rows of `program`. Each goes from its source row, by
 * its own geometry, to its place in `to`. Row r is read at `from` + rows[r].source * row bytes. */
typedef struct iter__device_pack_args {
    const iter__pack_program *program;
    iter__device_address from; /* rows of program->in */
    iter__device_address rows; /* [n_rows] iter__pack_row, on the device */
    iter__device_address to;   /* [n_rows] rows of program->out */
    uint32_t n_rows;
} iter__device_pack_args;

/* (create) Loads the kernels; must be called once per device, before the first pack() or gather().
 * Errors: EUNSUPPORTED (the driver or the device cannot run them, with the reason), EDEVICE. */
iter_status iter__device_load(iter__device *device, iter_error *err);
iter_status iter__device_pack(iter__device *device, const iter__device_pack_args *pack,
                              iter_error *err);
/* Copies rows of one size: row r from `from` + rows[r].source * row_bytes. For fields without a
 * program: labels, tables. */
iter_status iter__device_gather(iter__device *device, iter__device_address from, size_t row_bytes,
                                iter__device_address rows, iter__device_address to, uint32_t n_rows,
                                iter_error *err);

#endif
