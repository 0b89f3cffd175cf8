/*
 * gpu.h - slots that a GPU reads, rows that a kernel finishes, a set that stays on the device.
 *
 * A slot's way through the device, beside batch.h's:
 *
 *     READY --copies queued, `arrived` marked--> HELD --streams mark `released`--> RELEASED
 *     RELEASED --every marked event has passed--> FREE
 *
 * No thread waits for a GPU under a lock. The device's calls run without any lock of the loader.
 */
#ifndef ITER_GPU_GPU_H
#define ITER_GPU_GPU_H

#include <stdatomic.h>

#include "iter/device/device.h"
#include "iter/runtime/batch.h"

typedef struct iter__worker iter__worker;

/* All rows of a dataset on the device. Made by resident.c while the loader is created, read-only
 * afterwards. */
typedef struct iter__resident_set {
    iter__device_address memory; /* 0 = there is none */
    size_t bytes;
    iter__device_address fields[ITER_MAX_OUT]; /* [n_rows + 1] rows each; the last one is zero */
    uint64_t n_rows;
    iter_failure *failed; /* [n_failed] samples without a row, by index */
    size_t n_failed, failed_capacity;
    bool is_off; /* there is no set and none will be made */
} iter__resident_set;

/* Changed by device_slots.c. */
typedef struct iter__loader_device {
    iter__device *handle; /* NULL = slots are plain host memory */
    bool pinned;          /* the slots' mapping is page-locked */
    /* the slots' twins, one after the other; 0 = batches stay on the host */
    iter__device_address twins;
    size_t twin_bytes;
    iter__resident_set set;
    bool no_kernels;          /* they could not be loaded */
    iter__device_event *last; /* for a thread that waits until the loader's stream is idle */
    atomic_ullong n_copies, copied_bytes, wait_ns;
    /* Guarded by loader.lock: */
    iter_batch *oldest, *newest; /* RELEASED batches, in order */
    uint32_t n_released;
    bool awaited; /* a worker waits until the streams of one have passed */
} iter__loader_device;

/* ---- device_slots.c -------------------------------------------------------------------------- */

/* In this order. open: the device, if options.memory asks for one. pin: locks the slots' pages,
 * after they are mapped. make: twins and events. */
iter_status iter__device_slots_open(iter_loader *loader, iter_error *err);
iter_status iter__device_slots_pin(iter_loader *loader, iter_error *err);
iter_status iter__device_slots_create(iter_loader *loader, iter_error *err);
/* Waits at most grace_ms until no stream reads a slot, except slots of held batches. On ETIMEDOUT
 * the caller must leak the memory. No worker may run any more. */
iter_status iter__device_slots_settle(iter_loader *loader, iter_error *err);
/* Every slot must be settled, or the device lost. */
void iter__device_slots_free(iter_loader *loader);
/* Makes the batch's tensors in the twin from those on the host. EINVAL if one of these points
 * outside its field. */
iter_status iter__device_tensors(iter_loader *loader, iter_batch *batch, iter_error *err);
/* Queues the copies and kernels of a finished batch. A failure is the batch's error. */
void iter__batch_send(iter_loader *loader, iter_batch *batch);
/* With loader.lock held; reclaim and await release it in between. reclaim: asks for released slots
 * without waiting; true = the free list has a slot. await: waits until it has one, at most
 * timeout_ns (< 0: for ever), or until `work` is signaled, the loader is canceled or the device is
 * lost. */
void iter__slot_put_released(iter_loader *loader, iter_batch *batch);
bool iter__slots_reclaim(iter_loader *loader);
void iter__slots_await(iter_loader *loader, int64_t timeout_ns);

/* ---- device_rows.c --------------------------------------------------------------------------- */

/* Chooses each field's way, as options.memory asks. Call it after iter__plan_create(). */
iter_status iter__device_rows_plan(iter_loader *loader, iter_error *err);
/* Describes rows [first, first + n) for the kernel, except rows that failed; _blank makes one
 * zero. */
void iter__device_rows_make(iter__worker *worker, iter_batch *batch, uint32_t first, uint32_t n);
void iter__device_row_blank(iter_loader *loader, iter_batch *batch, uint32_t row);
/* Bytes [*out_first, *out_end) of the slot to copy for a field whose way is not HOST: part 0 = what
 * workers made, part 1 = kernel rows. False = none. */
bool iter__device_rows_span(const iter_batch *batch, const iter__field_plan *field, int part,
                            size_t *out_first, size_t *out_end);
/* Queues one kernel per field, after the batch's copies. `twin` is the address of the slot's
 * twin. */
iter_status iter__device_rows_launch(iter_loader *loader, const iter_batch *batch,
                                     iter__device_address twin, iter_error *err);

/* ---- resident.c, resident_set.c -------------------------------------------------------------- */

typedef iter_status iter__loader_open(iter_dataset *dataset, const iter_loader_options *options,
                                      iter_loader **out, iter_error *err);
/* Makes device.set for the fields whose way is SET or GATHER; `open` makes the loader that reads
 * the rows. On an error there is no set. */
iter_status iter__resident_upload(iter_loader *loader, iter__loader_open *open, iter_error *err);
/* Fails the rows whose samples could not be read during the upload, with the reason from then. */
void iter__resident_fail(iter_loader *loader, iter_batch *batch, uint32_t first, uint32_t n);
void iter__resident_free(iter_loader *loader);

#endif
