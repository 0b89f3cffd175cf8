/*
 * gpu_plain.c - the link to a GPU by plain copies.
 *
 * Calls the driver directly (iter/device/cuda_driver.c is compiled into iterbench once more), so
 * that the library is measured against code that it has no part in.
 */
#include "bench/measure/gpu_plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_util.h"
#include "iter/device/cuda_driver.h"

/* copies between two readings of the clock, at first; and at most QUEUED_BYTES */
#define QUEUED       64
#define QUEUED_BYTES 268435456.0
#define QUEUED_MAX   4096
/* about so long, so that waiting for the last copy does not show */
#define ROUND_S 0.02

struct gpu_plain {
    iter__cuda_driver driver;
    CUdevice device;
    CUcontext context; /* the primary one, retained */
    CUstream stream;
    uint32_t n_buffers;
    gpu_plain_copy *buffers;
};

/* ---- Context --------------------------------------------------------------------------------- */

static iter_status enter(gpu_plain *c, iter_error *err) {
    const CUresult result = c->driver.cuCtxPushCurrent(c->context);
    return result == CUDA_SUCCESS ? ITER_OK
                                  : iter__cuda_fail(&c->driver, err, result, "cuCtxPushCurrent");
}

static void leave(gpu_plain *c) {
    CUcontext popped;
    (void)c->driver.cuCtxPopCurrent(&popped);
}

/* `result` as a status, after the context is popped. */
static iter_status done(gpu_plain *c, CUresult result, const char *what, iter_error *err) {
    leave(c);
    return result == CUDA_SUCCESS ? ITER_OK : iter__cuda_fail(&c->driver, err, result, "%s", what);
}

/* ---- Open and close -------------------------------------------------------------------------- */

static iter_status retain(gpu_plain *c, int32_t ordinal, iter_error *err) {
    CUresult result = c->driver.cuDeviceGet(&c->device, ordinal);
    if (result == CUDA_ERROR_INVALID_DEVICE)
        return bench_fail(err, ITER_EUNSUPPORTED, "there is no GPU number %d", ordinal);
    if (result == CUDA_SUCCESS) result = c->driver.cuDevicePrimaryCtxRetain(&c->context, c->device);
    if (result != CUDA_SUCCESS) {
        c->context = NULL;
        return iter__cuda_fail(&c->driver, err, result, "the context of GPU %d", ordinal);
    }
    iter_status s = enter(c, err);
    if (s < 0) return s;
    result = c->driver.cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) c->stream = NULL;
    return done(c, result, "cuStreamCreate", err);
}

iter_status gpu_plain_open(int32_t ordinal, gpu_plain **out, iter_error *err) {
    *out = NULL;
    gpu_plain *c = calloc(1, sizeof(*c));
    if (c == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for the GPU's copies");
    iter_status s = iter__cuda_open(&c->driver, err);
    if (s < 0) {
        free(c);
        return s;
    }
    s = retain(c, ordinal, err);
    if (s < 0)
        gpu_plain_close(c);
    else
        *out = c;
    return s;
}

static void drop_buffers(gpu_plain *c) {
    for (uint32_t i = 0; i < c->n_buffers; i++) {
        if (c->buffers[i].to != 0) (void)c->driver.cuMemFree(c->buffers[i].to);
        if (c->buffers[i].from != NULL)
            (void)c->driver.cuMemFreeHost((void *)(uintptr_t)c->buffers[i].from);
    }
    free(c->buffers);
    c->buffers = NULL;
    c->n_buffers = 0;
}

void gpu_plain_close(gpu_plain *c) {
    if (c == NULL) return;
    if (c->context != NULL && enter(c, NULL) == ITER_OK) {
        if (c->stream != NULL) {
            (void)c->driver.cuStreamSynchronize(c->stream);
            (void)c->driver.cuStreamDestroy(c->stream);
        }
        drop_buffers(c);
        leave(c);
    }
    if (c->context != NULL) (void)c->driver.cuDevicePrimaryCtxRelease(c->device);
    iter__cuda_close(&c->driver);
    free(c);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static CUresult make_pair(gpu_plain *c, size_t bytes, gpu_plain_copy *out) {
    void *host = NULL;
    CUdeviceptr device = 0;
    CUresult result = c->driver.cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE);
    if (result != CUDA_SUCCESS) return result;
    out->from = memset(host, 0, bytes);
    result = c->driver.cuMemAlloc(&device, bytes);
    if (result == CUDA_SUCCESS) out->to = device;
    return result;
}

iter_status gpu_plain_buffers(gpu_plain *c, size_t bytes, uint32_t n, gpu_plain_copy *out,
                              iter_error *err) {
    iter_status s = gpu_plain_wait(c, err);
    if (s == ITER_OK) s = enter(c, err);
    if (s < 0) return s;
    drop_buffers(c);
    CUresult result = CUDA_SUCCESS;
    c->buffers = calloc(n, sizeof(*c->buffers));
    if (c->buffers == NULL) {
        leave(c);
        return bench_fail(err, ITER_ENOMEM, "no memory for the GPU's copies");
    }
    for (; result == CUDA_SUCCESS && c->n_buffers < n; c->n_buffers++) {
        c->buffers[c->n_buffers].bytes = bytes;
        result = make_pair(c, bytes, &c->buffers[c->n_buffers]);
    }
    memcpy(out, c->buffers, n * sizeof(*out));
    leave(c);
    return result == CUDA_SUCCESS ? ITER_OK
                                  : iter__cuda_fail(&c->driver, err, result,
                                                    "%u buffers of %zu bytes to copy", n, bytes);
}

iter_status gpu_plain_queue(gpu_plain *c, const gpu_plain_copy *copy, iter_error *err) {
    iter_status s = enter(c, err);
    if (s < 0) return s;
    const CUresult result =
        c->driver.cuMemcpyHtoDAsync(copy->to, copy->from, copy->bytes, c->stream);
    return done(c, result, "cuMemcpyHtoDAsync", err);
}

iter_status gpu_plain_wait(gpu_plain *c, iter_error *err) {
    iter_status s = enter(c, err);
    return s < 0 ? s
                 : done(c, c->driver.cuStreamSynchronize(c->stream), "cuStreamSynchronize", err);
}

iter_status gpu_plain_rate(gpu_plain *c, const gpu_plain_copy *copies, uint32_t n, double seconds,
                           double *out_bytes_per_s, iter_error *err) {
    uint64_t bytes = 0, number = 0;
    iter_status s = enter(c, err);
    if (s < 0) return s;
    CUresult result = CUDA_SUCCESS;
    double begin = bench_now(), now = begin;
    const uint64_t first =
        (uint64_t)fmin(QUEUED, fmax(QUEUED_BYTES / (double)(copies->bytes + 1), 2));
    uint64_t queued = first;
    /* The first round wakes the link up and is not counted. */
    for (int round = 0; result == CUDA_SUCCESS && (round < 2 || now - begin < seconds); round++) {
        for (uint64_t i = 0; result == CUDA_SUCCESS && i < queued; i++) {
            const gpu_plain_copy *copy = &copies[number++ % n];
            result = c->driver.cuMemcpyHtoDAsync(copy->to, copy->from, copy->bytes, c->stream);
            if (round > 0) bytes += copy->bytes;
        }
        if (result == CUDA_SUCCESS) result = c->driver.cuStreamSynchronize(c->stream);
        now = bench_now();
        if (round > 0) continue;
        queued = (uint64_t)fmin(fmax((double)first * ROUND_S / (now - begin), 2), QUEUED_MAX);
        begin = now;
    }
    *out_bytes_per_s = (double)bytes / (now - begin);
    return done(c, result, "plain copies to the GPU", err);
}

iter_status gpu_plain_fetch(gpu_plain *c, void *to, const void *from, size_t bytes,
                            iter_error *err) {
    iter_status s = enter(c, err);
    if (s < 0) return s;
    const CUresult result =
        c->driver.cuMemcpyDtoHAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, c->stream);
    return done(c, result == CUDA_SUCCESS ? c->driver.cuStreamSynchronize(c->stream) : result,
                "a copy back from the GPU", err);
}
