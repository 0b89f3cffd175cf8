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
    bool is_off; /* making one failed: do without */
} iter__resident_set;

/* Changed by device_slots.c. */
typedef struct iter__loader_device {
    iter__device *handle; /* NULL = slots are plain host memory */
    bool pinned;          /* the slots' mapping is page-locked */
    /* the slots' twins, one after the other; 0 = batches stay on the host */
    iter__device_address twins;
    size_t twin_bytes;
    iter__resident_set set;
    bool no_kernels;          /* they cannot be loaded */
    iter__device_event *last; /* for a thread that waits until the loader's stream is idle */
    atomic_ullong n_copies, copied_bytes, wait_ns;
    /* Guarded by loader.lock: */
    iter_batch *oldest, *newest; /* RELEASED batches, in order */
    uint32_t n_released;
    bool awaited; /* a worker naps until one of them has passed */
} iter__loader_device;

/* ---- device_slots.c -------------------------------------------------------------------------- */

iter_status iter__device_slots_open(iter_loader *loader,
                                    iter_error *err);                     /* the device, if asked */
iter_status iter__device_slots_pin(iter_loader *loader, iter_error *err); /* after the mapping */
iter_status iter__device_slots_make(iter_loader *loader, iter_error *err); /* twins and events */
/* Waits at most grace_ms until no stream reads a slot, except slots of held batches. On ETIMEDOUT
 * the caller must leak the memory. No thread may work on the loader. */
iter_status iter__device_slots_settle(iter_loader *loader, iter_error *err);
void iter__device_slots_free(iter_loader *loader); /* all of it settled, or the device lost */
/* The batch's tensors in the twin, from those on the host. EINVAL if one lies elsewhere. */
iter_status iter__device_tensors(iter_loader *loader, iter_batch *batch, iter_error *err);
/* Queues the copies of a finished batch. A failure is the batch's error. */
void iter__batch_send(iter_loader *loader, iter_batch *batch);
/* With loader.lock held, which is released in between. reclaim: looks at released slots without
 * waiting; true = the free list has one. await: until there is one, at most timeout_ns (< 0: for
 * ever), or until `work` is signaled. */
void iter__slot_put_released(iter_loader *loader, iter_batch *batch);
bool iter__slots_reclaim(iter_loader *loader);
void iter__slots_await(iter_loader *loader, int64_t timeout_ns);

/* ---- device_rows.c --------------------------------------------------------------------------- */

/* Chooses ways, as asked; after iter__plan_make(). */
iter_status iter__device_rows_plan(iter_loader *loader, iter_error *err);
/* Describes rows [first, first + n) for the kernel; a row that failed becomes zeros. */
void iter__device_rows_make(iter_loader *loader, iter__worker *worker, iter_batch *batch,
                            uint32_t first, uint32_t n);
void iter__device_row_blank(iter_loader *loader, iter_batch *batch, uint32_t row);
/* Bytes [*out_first, *out_end) of the slot that go to the twin for such a field, part 0 or 1. */
bool iter__device_rows_span(const iter_batch *batch, const iter__field_plan *field, int part,
                            size_t *out_first, size_t *out_end);
/* After the copies of a batch: one launch per field. `twin` is the address of the slot's. */
iter_status iter__device_rows_launch(iter_loader *loader, const iter_batch *batch,
                                     iter__device_address twin, iter_error *err);

/* ---- resident.c, resident_set.c -------------------------------------------------------------- */

typedef iter_status iter__loader_open(iter_dataset *dataset, const iter_loader_options *options,
                                      iter_loader **out, iter_error *err);
/* Makes device.set for the fields whose way is SET or GATHER; `open` makes the loader that reads
 * the rows. On an error there is no set. */
iter_status iter__resident_upload(iter_loader *loader, iter__loader_open *open, iter_error *err);
/* Rows of samples that could not be read fail for the reason that they had then. */
void iter__resident_fail(iter_loader *loader, iter_batch *batch, uint32_t first, uint32_t n);
void iter__resident_free(iter_loader *loader);

#endif
