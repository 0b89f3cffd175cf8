/*
 * cuda_device.h - shared by the files of iter/device: the device, and how to make a call on it.
 *
 * Every call must be between enter() and leave(); any thread may make it. enter() pushes the
 * device's context and sets the thread's capture mode to relaxed, so that our calls do not break a
 * capture of the caller's. leave() restores both.
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

/* Written by open() and load(); read by all threads. */
struct iter__device {
    iter__cuda_driver cuda;
    CUdevice number; /* the driver's ordinal */
    CUcontext context;
    bool retained; /* we must release the primary context */
    CUstream stream;
    int capability, n_multiprocessors; /* 90 = sm_90 */
    char text[96];

    /* Set by iter__device_load(); close() unloads the module. */
    CUmodule module;
    CUfunction functions[ITER_CUDA_FUNCTIONS];

    /* The first error that makes the device unusable: 0 = none, 1 = being written, 2 = written. The
     * thread that changes 0 to 1 writes the message and then stores 2 with release; readers
     * acquire. */
    atomic_int lost;
    char lost_message[sizeof((iter_error *)0)->message];
};

struct iter__device_event {
    CUevent event;
};

/* State of the calling thread before enter(). */
typedef struct iter__cuda_scope {
    CUstreamCaptureMode mode;
} iter__cuda_scope;

/* Errors: EDEVICE; the thread's state is then unchanged. */
iter_status iter__cuda_enter(iter__device *device, iter__cuda_scope *scope, iter_error *err);
void iter__cuda_leave(iter__device *device, iter__cuda_scope *scope);
/* As iter__cuda_fail(), with the device's name before the message. If the error makes the device
 * unusable, remembers it. */
iter_status iter__cuda_failed(iter__device *device, iter_error *err, CUresult result,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
