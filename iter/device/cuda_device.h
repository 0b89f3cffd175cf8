/*
 * cuda_device.h - what the files of device/cuda share: the device, and how a call is made on it.
 *
 * Every call stands between enter() and leave(), in any thread: the device's context is pushed, and
 * the thread's capture mode is relaxed, so that a capture of the caller's, in whatever mode, is not
 * broken by us; both are put back.
 *
 *     iter__cuda_scope scope;
 *     ITER_TRY(iter__cuda_enter(device, &scope, err));
 *     const CUresult result = device->cuda.cuEventQuery(event);
 *     iter__cuda_leave(device, &scope);
 *     if (result != CUDA_SUCCESS) return iter__cuda_failed(device, err, result, "cuEventQuery");
 */
#ifndef ITER_DEVICE_CUDA_DEVICE_H
#define ITER_DEVICE_CUDA_DEVICE_H

#include <stdatomic.h>

#include "iter/device/cuda_driver.h"
#include "iter/device/device.h"

#define ITER_CUDA_FUNCTIONS 16

/* Written while it is opened and by load(); read by all threads. */
struct iter__device {
    iter__cuda_driver cuda;
    CUdevice number; /* the driver's ordinal */
    CUcontext context;
    bool retained; /* the primary context is ours to release */
    CUstream stream;
    int capability, n_multiprocessors; /* 90 = sm_90 */
    char text[96];

    /* iter__device_load(): close() unloads the module. */
    CUmodule module;
    CUfunction functions[ITER_CUDA_FUNCTIONS];

    /* The first error that is not forgotten: 0 = none, 1 = being written, 2 = there. Whoever brings 0
     * to 1 writes the message and releases it by 2; readers acquire. */
    atomic_int lost;
    char lost_message[sizeof((iter_error *)0)->message];
};

struct iter__device_event {
    CUevent event;
};

/* What a thread was before. */
typedef struct iter__cuda_scope {
    CUstreamCaptureMode mode;
} iter__cuda_scope;

/* Errors: EDEVICE; the thread is left as it was. */
iter_status iter__cuda_enter(iter__device *device, iter__cuda_scope *scope, iter_error *err);
void iter__cuda_leave(iter__device *device, iter__cuda_scope *scope);
/* As iter__cuda_fail(), with the device's name before it; remembers what the driver does not
 * forget. */
iter_status iter__cuda_failed(iter__device *device, iter_error *err, CUresult result,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
