/*
 * gpu_consumer.h - a program with streams on the fake GPU that trains on a loader's batches. It
 * queues checks on a stream. When the stream runs one, the check compares the batch's bytes on the
 * device with the expected ones.
 */
#ifndef TESTS_SUPPORT_GPU_CONSUMER_H
#define TESTS_SUPPORT_GPU_CONSUMER_H

#include <stdatomic.h>

#include <iter/iter.h>

#include "iter/device/cuda_driver.h"
#include "tests/fake/fake_cuda.h"

#define GPU_STREAMS 9

typedef struct gpu_consumer {
    const fake_cuda *fake;
    iter__cuda_driver cuda;
    CUcontext context;
    CUstream streams[GPU_STREAMS];
    atomic_long n_looked, n_wrong; /* batches, on any stream */
} gpu_consumer;

/* Returns false if this process does not find the fake driver (LD_LIBRARY_PATH). Ends the program
 * on any other error. The context is not current in the calling thread. */
bool gpu_open(gpu_consumer *gpu);
/* Resets the fake: no delay, no planned failure. The consumer stays usable. */
void gpu_reset(gpu_consumer *gpu);
/* Waits for the streams. */
void gpu_close(gpu_consumer *gpu);

/* Queues on streams[i] a kernel that reads the whole batch on the device and compares it with what
 * is on the host now. */
void gpu_look(gpu_consumer *gpu, int i, const iter_batch *batch);

/* Waits, looks, releases and drops the batch. Returns the first error, if any. */
iter_status gpu_train(gpu_consumer *gpu, int i, iter_batch *batch, iter_error *err);

/* Lists what is alive in the driver, as a text that is valid until the next call; NULL =
 * nothing. */
const char *gpu_leaks(const fake_cuda *fake);

#endif
