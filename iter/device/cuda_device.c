/*
 * cuda_device.c - iter/device/device.h with the driver API: contexts, memory, copies and order.
 * Kernels are in cuda_kernels.c.
 *
 * Copies run on a stream of the loader's own, which is independent of the default stream. Events
 * connect it to other streams. They have no timing, and a thread that waits for one sleeps.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/device/cuda_device.h"

#define MIB (1024.0 * 1024.0)

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Keeps the first permanent error. */
static void remember(iter__device *device, const char *message) {
    int none = 0;
    if (!atomic_compare_exchange_strong_explicit(&device->lost, &none, 1, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    snprintf(device->lost_message, sizeof device->lost_message, "%s", message);
    atomic_store_explicit(&device->lost, 2, memory_order_release); /* the message is written */
}

iter_status iter__cuda_failed(iter__device *device, iter_error *err, CUresult result,
                              const char *format, ...) {
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    iter_error own;
    const iter_status status =
        iter__cuda_fail(&device->cuda, &own, result, "GPU %d: %s", device->number, what);
    if (iter__cuda_is_lost(result)) remember(device, own.message);
    if (err) *err = own;
    return status;
}

/* Enters even a lost device, because resources are released there too. */
static iter_status enter_any(iter__device *device, iter__cuda_scope *scope, iter_error *err) {
    scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result = device->cuda.cuThreadExchangeStreamCaptureMode(&scope->mode);
    if (result != CUDA_SUCCESS)
        return iter__cuda_failed(device, err, result, "cuThreadExchangeStreamCaptureMode");
    result = device->cuda.cuCtxPushCurrent(device->context);
    if (result == CUDA_SUCCESS) return ITER_OK;
    device->cuda.cuThreadExchangeStreamCaptureMode(&scope->mode);
    return iter__cuda_failed(device, err, result, "cuCtxPushCurrent");
}

/* Enters in order to release. Tries twice, because what is not released now never is. If the device
 * is marked lost, its events could not be waited for; if the driver still works, this waits for
 * everything. */
static bool enter_to_release(iter__device *device, iter__cuda_scope *scope) {
    if (enter_any(device, scope, NULL) < 0 && enter_any(device, scope, NULL) < 0) return false;
    if (atomic_load_explicit(&device->lost, memory_order_relaxed)) device->cuda.cuCtxSynchronize();
    return true;
}

iter_status iter__cuda_enter(iter__device *device, iter__cuda_scope *scope, iter_error *err) {
    if (atomic_load_explicit(&device->lost, memory_order_acquire) == 2)
        return iter__fail(err, ITER_EDEVICE, "%s", device->lost_message);
    return enter_any(device, scope, err);
}

void iter__cuda_leave(iter__device *device, iter__cuda_scope *scope) {
    CUcontext ours;
    device->cuda.cuCtxPopCurrent(&ours);
    device->cuda.cuThreadExchangeStreamCaptureMode(&scope->mode);
}

/* A call on a stream of the caller's failed: ESTATE if a capture is the reason. */
static iter_status stream_failed(iter__device *device, iter_error *err, CUresult result,
                                 const char *call) {
    if (iter__cuda_is_capture(result)) {
        char text[160];
        return iter__fail(err, ITER_ESTATE, "%s: %s: the stream is being captured", call,
                          iter__cuda_text(&device->cuda, result, text, sizeof text));
    }
    if (result == CUDA_ERROR_INVALID_HANDLE)
        return iter__cuda_failed(device, err, result,
                                 "%s on a stream that is of another context or gone", call);
    return iter__cuda_failed(device, err, result, "%s", call);
}

static iter_status refuse_capture(iter__device *device, CUstream stream, iter_error *err) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = device->cuda.cuStreamIsCapturing(stream, &capture);
    if (result != CUDA_SUCCESS) return stream_failed(device, err, result, "cuStreamIsCapturing");
    if (capture == CU_STREAM_CAPTURE_STATUS_NONE) return ITER_OK;
    return iter__fail(err, ITER_ESTATE,
                      "the stream is being captured: what orders batches stays outside of a graph");
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Takes the context that is current in this thread, if there is one. If it is the primary context,
 * it is retained; otherwise the caller must keep it. */
static iter_status adopt_current(iter__device *device, bool *found, iter_error *err) {
    const iter__cuda_driver *cuda = &device->cuda;
    CUcontext current = NULL, primary = NULL;
    unsigned flags;
    int active = 0;
    *found = false;
    CUresult result = cuda->cuCtxGetCurrent(&current);
    if (result != CUDA_SUCCESS) return iter__cuda_failed(device, err, result, "cuCtxGetCurrent");
    if (current == NULL) return ITER_OK;
    result = cuda->cuCtxGetDevice(&device->number);
    if (result != CUDA_SUCCESS) return iter__cuda_failed(device, err, result, "cuCtxGetDevice");
    result = cuda->cuDevicePrimaryCtxGetState(device->number, &flags, &active);
    if (result != CUDA_SUCCESS)
        return iter__cuda_failed(device, err, result, "cuDevicePrimaryCtxGetState");
    if (active) { /* otherwise, retaining the primary context would create it */
        result = cuda->cuDevicePrimaryCtxRetain(&primary, device->number);
        if (result != CUDA_SUCCESS)
            return iter__cuda_failed(device, err, result, "cuDevicePrimaryCtxRetain");
        device->retained = primary == current;
        if (!device->retained) cuda->cuDevicePrimaryCtxRelease(device->number);
    }
    device->context = current;
    *found = true;
    return ITER_OK;
}

static iter_status retain_primary(iter__device *device, int ordinal, iter_error *err) {
    const iter__cuda_driver *cuda = &device->cuda;
    int n = 0;
    CUresult result = cuda->cuDeviceGetCount(&n);
    if (result != CUDA_SUCCESS) return iter__cuda_failed(device, err, result, "cuDeviceGetCount");
    if (ordinal >= n)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "there is no GPU %d: the driver sees %d, numbered from 0", ordinal, n);
    result = cuda->cuDeviceGet(&device->number, ordinal);
    if (result != CUDA_SUCCESS)
        return iter__cuda_failed(device, err, result, "cuDeviceGet of GPU %d", ordinal);
    result = cuda->cuDevicePrimaryCtxRetain(&device->context, device->number);
    if (result != CUDA_SUCCESS) {
        device->context = NULL;
        return iter__cuda_failed(device, err, result, "cuDevicePrimaryCtxRetain");
    }
    device->retained = true;
    return ITER_OK;
}

static iter_status choose_context(iter__device *device, int32_t wanted, iter_error *err) {
    bool found = false;
    if (wanted == 0) ITER_TRY(adopt_current(device, &found, err));
    return found ? ITER_OK : retain_primary(device, wanted == 0 ? 0 : wanted - 1, err);
}

static iter_status describe(iter__device *device, iter_error *err) {
    const iter__cuda_driver *cuda = &device->cuda;
    char name[64] = "";
    int major = 0, minor = 0;
    CUresult result = cuda->cuDeviceGetName(name, sizeof name, device->number);
    if (result != CUDA_SUCCESS) return iter__cuda_failed(device, err, result, "cuDeviceGetName");
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } wanted[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
                  {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
                  {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device->n_multiprocessors}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        result = cuda->cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, device->number);
        if (result != CUDA_SUCCESS)
            return iter__cuda_failed(device, err, result, "cuDeviceGetAttribute");
    }
    device->capability = 10 * major + minor;
    snprintf(device->text, sizeof device->text, "%s, sm_%d, driver %d.%d", name, device->capability,
             cuda->version / 1000, cuda->version % 1000 / 10);
    return ITER_OK;
}

/* Runs in relaxed capture mode. */
static iter_status open_relaxed(iter__device *device, int32_t wanted, iter_error *err) {
    iter__cuda_scope scope;
    ITER_TRY(choose_context(device, wanted, err));
    ITER_TRY(describe(device, err));
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    const CUresult result = device->cuda.cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING);
    iter__cuda_leave(device, &scope);
    if (result == CUDA_SUCCESS) return ITER_OK;
    device->stream = NULL;
    return iter__cuda_failed(device, err, result, "cuStreamCreate");
}

iter_status iter__device_open(int32_t device, iter__device **out, iter_error *err) {
    *out = NULL;
    if (device < 0)
        return iter__fail(err, ITER_EINVAL, "device %d: ITER_DEVICE(n) is 1 or more", device);
    iter__device *own = iter__alloc(1, sizeof *own);
    if (own == NULL) return iter__fail(err, ITER_ENOMEM, "out of memory");
    iter_status status = iter__cuda_open(&own->cuda, err);
    if (status != ITER_OK) {
        iter__free(own);
        return status;
    }
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const CUresult result = own->cuda.cuThreadExchangeStreamCaptureMode(&mode);
    if (result == CUDA_SUCCESS) {
        status = open_relaxed(own, device, err);
        own->cuda.cuThreadExchangeStreamCaptureMode(&mode);
    } else {
        status = iter__cuda_failed(own, err, result, "cuThreadExchangeStreamCaptureMode");
    }
    if (status != ITER_OK) {
        iter__device_close(own);
        return status;
    }
    *out = own;
    return ITER_OK;
}

void iter__device_close(iter__device *device) {
    if (device == NULL) return;
    iter__cuda_scope scope;
    /* If the context cannot be entered, it is gone with everything in it. */
    if (device->context && enter_to_release(device, &scope)) {
        if (device->stream) {
            device->cuda.cuStreamSynchronize(device->stream);
            device->cuda.cuStreamDestroy(device->stream);
        }
        if (device->module) device->cuda.cuModuleUnload(device->module);
        iter__cuda_leave(device, &scope);
    }
    if (device->retained) device->cuda.cuDevicePrimaryCtxRelease(device->number);
    iter__cuda_close(&device->cuda);
    iter__free(device);
}

const char *iter__device_text(const iter__device *device) {
    return device->text;
}

int32_t iter__device_ordinal(const iter__device *device) {
    return device->number;
}

/* ---- Memory and events ----------------------------------------------------------------------- */

iter_status iter__device_pin(iter__device *device, void *memory, size_t bytes, iter_error *err) {
    iter__cuda_scope scope;
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    const CUresult result = device->cuda.cuMemHostRegister(
        memory, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    iter__cuda_leave(device, &scope);
    if (result == CUDA_SUCCESS) return ITER_OK;
    const iter_status status = iter__cuda_failed(
        device, err, result, "cuMemHostRegister of %.1f MiB of host memory", (double)bytes / MIB);
    if (err && status == ITER_ENOMEM) {
        const size_t end = strlen(err->message);
        snprintf(err->message + end, sizeof err->message - end,
                 "; lower batch_size, prefetch or max_held, or raise the limit of locked memory");
    }
    return status;
}

void iter__device_unpin(iter__device *device, void *memory) {
    iter__cuda_scope scope;
    if (memory == NULL || !enter_to_release(device, &scope)) return;
    device->cuda.cuStreamSynchronize(device->stream); /* after an error a copy may be in flight */
    device->cuda.cuMemHostUnregister(memory);
    iter__cuda_leave(device, &scope);
}

iter_status iter__device_alloc(iter__device *device, size_t bytes, iter__device_address *out,
                               iter_error *err) {
    iter__cuda_scope scope;
    CUdeviceptr memory = 0;
    size_t free_bytes = 0, total_bytes = 0;
    *out = 0;
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    const CUresult result = device->cuda.cuMemAlloc(&memory, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY &&
        device->cuda.cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        free_bytes = total_bytes = 0;
    iter__cuda_leave(device, &scope);
    if (result == CUDA_SUCCESS) {
        assert(memory % 256 == 0);
        *out = memory;
        return ITER_OK;
    }
    const iter_status status =
        iter__cuda_failed(device, err, result, "cuMemAlloc of %.1f MiB", (double)bytes / MIB);
    if (err && status == ITER_ENOMEM) {
        const size_t end = strlen(err->message);
        snprintf(err->message + end, sizeof err->message - end,
                 "; %.1f of %.1f MiB are free: lower batch_size, prefetch or max_held, or keep the "
                 "set on the host",
                 (double)free_bytes / MIB, (double)total_bytes / MIB);
    }
    return status;
}

void iter__device_free(iter__device *device, iter__device_address memory) {
    iter__cuda_scope scope;
    if (memory == 0 || !enter_to_release(device, &scope)) return;
    device->cuda.cuStreamSynchronize(device->stream);
    device->cuda.cuMemFree(memory);
    iter__cuda_leave(device, &scope);
}

iter_status iter__device_room(iter__device *device, size_t *out_free, iter_error *err) {
    iter__cuda_scope scope;
    size_t total_bytes;
    *out_free = 0;
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    const CUresult result = device->cuda.cuMemGetInfo(out_free, &total_bytes);
    iter__cuda_leave(device, &scope);
    if (result == CUDA_SUCCESS) return ITER_OK;
    return iter__cuda_failed(device, err, result, "cuMemGetInfo");
}

iter_status iter__device_event_new(iter__device *device, iter__device_event **out,
                                   iter_error *err) {
    iter__cuda_scope scope;
    *out = NULL;
    iter__device_event *event = iter__alloc(1, sizeof *event);
    if (event == NULL) return iter__fail(err, ITER_ENOMEM, "out of memory");
    iter_status status = iter__cuda_enter(device, &scope, err);
    if (status == ITER_OK) {
        const CUresult result = device->cuda.cuEventCreate(
            &event->event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
        iter__cuda_leave(device, &scope);
        if (result != CUDA_SUCCESS)
            status = iter__cuda_failed(device, err, result, "cuEventCreate");
    }
    if (status != ITER_OK) {
        iter__free(event);
        return status;
    }
    *out = event;
    return ITER_OK;
}

void iter__device_event_free(iter__device *device, iter__device_event *event) {
    iter__cuda_scope scope;
    if (event == NULL) return;
    if (enter_to_release(device, &scope)) {
        device->cuda.cuEventDestroy(event->event);
        iter__cuda_leave(device, &scope);
    }
    iter__free(event);
}

/* ---- Copies and order ------------------------------------------------------------------------ */

iter_status iter__device_copy(iter__device *device, iter__device_address to, const void *from,
                              size_t bytes, iter_error *err) {
    iter__cuda_scope scope;
    if (bytes == 0) return ITER_OK;
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    const CUresult result = device->cuda.cuMemcpyHtoDAsync(to, from, bytes, device->stream);
    iter__cuda_leave(device, &scope);
    if (result == CUDA_SUCCESS) return ITER_OK;
    return iter__cuda_failed(device, err, result, "cuMemcpyHtoDAsync of %zu bytes", bytes);
}

iter_status iter__device_mark(iter__device *device, iter__device_event *event, iter_error *err) {
    iter__cuda_scope scope;
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    const CUresult result = device->cuda.cuEventRecord(event->event, device->stream);
    iter__cuda_leave(device, &scope);
    if (result == CUDA_SUCCESS) return ITER_OK;
    return iter__cuda_failed(device, err, result, "cuEventRecord");
}

iter_status iter__device_mark_on(iter__device *device, iter__device_event *event, void *stream,
                                 iter_error *err) {
    iter__cuda_scope scope;
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    iter_status status = refuse_capture(device, stream, err);
    if (status == ITER_OK) {
        const CUresult result = device->cuda.cuEventRecord(event->event, stream);
        if (result != CUDA_SUCCESS) status = stream_failed(device, err, result, "cuEventRecord");
    }
    iter__cuda_leave(device, &scope);
    return status;
}

iter_status iter__device_query(iter__device *device, iter__device_event *event, iter_error *err) {
    iter__cuda_scope scope;
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    const CUresult result = device->cuda.cuEventQuery(event->event);
    iter__cuda_leave(device, &scope);
    if (result == CUDA_SUCCESS) return ITER_OK;
    if (result == CUDA_ERROR_NOT_READY) return ITER_PENDING;
    return iter__cuda_failed(device, err, result, "cuEventQuery");
}

iter_status iter__device_sync(iter__device *device, iter__device_event *event, iter_error *err) {
    iter__cuda_scope scope;
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    const CUresult result = device->cuda.cuEventSynchronize(event->event);
    iter__cuda_leave(device, &scope);
    if (result == CUDA_SUCCESS) return ITER_OK;
    return iter__cuda_failed(device, err, result, "cuEventSynchronize");
}

iter_status iter__device_wait(iter__device *device, iter__device_event *event, void *stream,
                              iter_error *err) {
    iter__cuda_scope scope;
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    iter_status status = refuse_capture(device, stream, err);
    if (status == ITER_OK) {
        const CUresult result =
            device->cuda.cuStreamWaitEvent(stream, event->event, CU_EVENT_WAIT_DEFAULT);
        if (result != CUDA_SUCCESS)
            status = stream_failed(device, err, result, "cuStreamWaitEvent");
    }
    iter__cuda_leave(device, &scope);
    return status;
}
