/*
 * cuda_driver.h - CUDA's driver, opened at run time: a table of its calls, and its errors in words.
 *
 * Needs libc and <iter/status.h> alone, since the trainer's library compiles cuda_driver.c a second
 * time for itself. The table lies in the caller's memory; nothing is allocated.
 */
#ifndef ITER_DEVICE_CUDA_DRIVER_H
#define ITER_DEVICE_CUDA_DRIVER_H

#include <stdbool.h>

#include <iter/status.h>

#include "iter/device/cuda_api.h"

typedef struct iter__cuda_driver {
    void *library;
    int version; /* 13000 = 13.0 */
#define ITER_X(name, suffix, parameters) CUresult(*name) parameters;
    ITER_CUDA_CALLS(ITER_X)
#undef ITER_X
} iter__cuda_driver;

/* Opens the driver and initialises it: *out is usable afterwards, and all zero on an error. Errors:
 * EUNSUPPORTED (no driver, too old a one, no device in this machine; the message says which, and what
 * would do), EDEVICE (it does not start). Any thread, any number of times. */
iter_status iter__cuda_open(iter__cuda_driver *out, iter_error *err);
/* Idempotent. The library itself stays in the process: its threads outlive what we know of. */
void iter__cuda_close(iter__cuda_driver *driver);

/* A result in words: "CUDA_ERROR_OUT_OF_MEMORY (out of memory)". Writes into out, returns it. */
const char *iter__cuda_text(const iter__cuda_driver *driver, CUresult result, char *out,
                            size_t capacity);
/* Fills err: "cuMemAlloc of 4096 bytes: CUDA_ERROR_OUT_OF_MEMORY (out of memory)", from what was
 * tried; returns ENOMEM for CUDA_ERROR_OUT_OF_MEMORY, else EDEVICE. */
iter_status iter__cuda_fail(const iter__cuda_driver *driver, iter_error *err, CUresult result,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
/* True for what the driver does not forget: the context is of no use any more. */
bool iter__cuda_is_lost(CUresult result);
/* True for the answers of a capture that stands in the way. */
bool iter__cuda_is_capture(CUresult result);

#endif
