/*
 * cuda_driver.h - CUDA's driver, opened at run time: a table of its calls, and its errors as text.
 *
 * Needs only libc and <iter/status.h>, because the trainer's library compiles its own copy of
 * cuda_driver.c. The table is in the caller's memory; nothing is allocated.
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

/* Opens and initialises the driver. *out is zeroed if it fails. Errors: EUNSUPPORTED (no driver, or
 * a driver that is too old, or no device; the message says which, and what is required), EDEVICE
 * (the driver does not start). Any thread, any number of times. */
iter_status iter__cuda_open(iter__cuda_driver *out, iter_error *err);
/* Idempotent. The library stays in the process, because its threads outlive this call. */
void iter__cuda_close(iter__cuda_driver *driver);

/* Writes a result as text, "CUDA_ERROR_OUT_OF_MEMORY (out of memory)", to out; returns out. */
const char *iter__cuda_text(const iter__cuda_driver *driver, CUresult result, char *out,
                            size_t capacity);
/* Fills err with what was tried and the result: "cuMemAlloc of 4096 bytes: CUDA_ERROR_OUT_OF_MEMORY
 * (out of memory)". Returns ENOMEM for CUDA_ERROR_OUT_OF_MEMORY, else EDEVICE. */
iter_status iter__cuda_fail(const iter__cuda_driver *driver, iter_error *err, CUresult result,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
/* True if the error is permanent: the context is unusable from then on. */
bool iter__cuda_is_lost(CUresult result);
/* True if the call failed because a stream is being captured. */
bool iter__cuda_is_capture(CUresult result);

#endif
