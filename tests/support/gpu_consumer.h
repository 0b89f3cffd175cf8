/*
 * gpu_consumer.h - a program with streams on the fake GPU that trains on a loader's batches: what it queues on a stream looks, when the
 * stream comes to it, whether the batch's bytes are there on the device, and still there.
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
    atomic_long n_looked, n_wrong; /* batches; on any stream */
} gpu_consumer;

/* False where the fake driver is not the one that this process finds (LD_LIBRARY_PATH). Else ends the program on an error. The context is
 * not current in the calling thread. */
bool gpu_open(gpu_consumer *gpu);
/* The fake as it was: no delay, no failure to come. The consumer goes on. */
void gpu_reset(gpu_consumer *gpu);
/* Streams are waited for. */
void gpu_close(gpu_consumer *gpu);

/* Queues on streams[i] a kernel that reads the whole batch on the device and compares it with what is on the host now. */
void gpu_look(gpu_consumer *gpu, int i, const iter_batch *batch);

/* wait, look, release, unref; the first error, if there is one. */
iter_status gpu_train(gpu_consumer *gpu, int i, iter_batch *batch, iter_error *err);

/* What is alive in the driver, in words that live until the next call; NULL = nothing. */
const char *gpu_leaks(const fake_cuda *fake);

#endif
