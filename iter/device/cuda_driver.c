/*
 * cuda_driver.c - opens libcuda.so.1, checks its version, and fills the table of calls.
 *
 * Calls are looked up with cuGetProcAddress and the version that cuda_api.h was written for, so a
 * newer driver returns that version of each. If a driver lacks cuGetProcAddress, the name with its
 * version is looked up instead. The library is never closed: the driver has threads and exit
 * handlers, and unloading it under them crashes.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "iter/device/cuda_driver.h"

typedef struct entry {
    const char *name, *symbol;
    size_t offset;
} entry;

static const entry entries[] = {
#define ITER_X(name, suffix, parameters) {#name, #name #suffix, offsetof(iter__cuda_driver, name)},
    ITER_CUDA_CALLS(ITER_X)
#undef ITER_X
};

static iter_status fail(iter_error *err, iter_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static iter_status fail(iter_error *err, iter_status status, const char *format, ...) {
    if (err == NULL) return status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    err->status = status;
    return status;
}

/* Checks the version first, before anything that an old driver does not have. */
static iter_status check_version(iter__cuda_driver *driver, iter_error *err) {
    CUresult (*get_version)(int *version);
    void *symbol = dlsym(driver->library, "cuDriverGetVersion");
    if (symbol == NULL)
        return fail(err, ITER_EUNSUPPORTED, "%s is not a CUDA driver: it has no cuDriverGetVersion",
                    ITER_CUDA_LIBRARY);
    memcpy(&get_version, &symbol, sizeof symbol);
    const CUresult result = get_version(&driver->version);
    if (result == CUDA_ERROR_STUB_LIBRARY)
        return fail(err, ITER_EUNSUPPORTED,
                    "%s is the toolkit's stub: install NVIDIA's driver, or take the stub's folder "
                    "out of the library path",
                    ITER_CUDA_LIBRARY);
    if (result != CUDA_SUCCESS)
        return fail(err, ITER_EDEVICE, "cuDriverGetVersion: CUDA error %u", result);
    if (driver->version < ITER_CUDA_MIN_VERSION)
        return fail(
            err, ITER_EUNSUPPORTED,
            "the CUDA driver is too old: it is for CUDA %d.%d, and %d.%d or newer is needed",
            driver->version / 1000, driver->version % 1000 / 10, ITER_CUDA_MIN_VERSION / 1000,
            ITER_CUDA_MIN_VERSION % 1000 / 10);
    return ITER_OK;
}

static iter_status fill(iter__cuda_driver *driver, iter_error *err) {
    iter_cuda_get_proc_address get = NULL;
    void *symbol = dlsym(driver->library, "cuGetProcAddress_v2");
    if (symbol) memcpy(&get, &symbol, sizeof symbol);
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
        symbol = NULL;
        if (get == NULL || get(entries[i].name, &symbol, ITER_CUDA_MIN_VERSION,
                               CU_GET_PROC_ADDRESS_DEFAULT, &found) != CUDA_SUCCESS)
            symbol = NULL;
        if (symbol == NULL) symbol = dlsym(driver->library, entries[i].symbol);
        if (symbol == NULL)
            return fail(err, ITER_EUNSUPPORTED, "the CUDA driver (%d.%d) has no %s",
                        driver->version / 1000, driver->version % 1000 / 10, entries[i].symbol);
        memcpy((char *)driver + entries[i].offset, &symbol, sizeof symbol);
    }
    return ITER_OK;
}

static iter_status start(iter__cuda_driver *driver, iter_error *err) {
    int n = 0;
    CUresult result = driver->cuInit(0);
    if (result == CUDA_SUCCESS) result = driver->cuDeviceGetCount(&n);
    if (result == CUDA_ERROR_NO_DEVICE || (result == CUDA_SUCCESS && n == 0))
        return fail(err, ITER_EUNSUPPORTED,
                    "the CUDA driver (%d.%d) sees no GPU: there is none, or CUDA_VISIBLE_DEVICES "
                    "hides it",
                    driver->version / 1000, driver->version % 1000 / 10);
    if (result == CUDA_SUCCESS) return ITER_OK;
    char text[160];
    iter__cuda_text(driver, result, text, sizeof text);
    const bool other = result == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH ||
                       result == CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE;
    return fail(err, other ? ITER_EUNSUPPORTED : ITER_EDEVICE,
                "the CUDA driver (%d.%d) does not start: %s", driver->version / 1000,
                driver->version % 1000 / 10, text);
}

iter_status iter__cuda_open(iter__cuda_driver *out, iter_error *err) {
    memset(out, 0, sizeof *out);
    out->library = dlopen(ITER_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (out->library == NULL) {
        const char *why = dlerror();
        return fail(
            err, ITER_EUNSUPPORTED,
            "there is no CUDA driver (%s); NVIDIA's driver for CUDA %d.%d or newer is needed",
            why ? why : ITER_CUDA_LIBRARY, ITER_CUDA_MIN_VERSION / 1000,
            ITER_CUDA_MIN_VERSION % 1000 / 10);
    }
    iter_status status = check_version(out, err);
    if (status == ITER_OK) status = fill(out, err);
    if (status == ITER_OK) status = start(out, err);
    if (status != ITER_OK) iter__cuda_close(out);
    return status;
}

void iter__cuda_close(iter__cuda_driver *driver) {
    if (driver->library) dlclose(driver->library);
    memset(driver, 0, sizeof *driver);
}

const char *iter__cuda_text(const iter__cuda_driver *driver, CUresult result, char *out,
                            size_t capacity) {
    const char *name = NULL, *text = NULL;
    if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS) name = NULL;
    if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS) text = NULL;
    if (name && text) {
        snprintf(out, capacity, "%s (%s)", name, text);
    } else {
        snprintf(out, capacity, "CUDA error %u", result);
    }
    return out;
}

iter_status iter__cuda_fail(const iter__cuda_driver *driver, iter_error *err, CUresult result,
                            const char *format, ...) {
    const iter_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? ITER_ENOMEM : ITER_EDEVICE;
    char what[200], why[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return fail(err, status, "%s: %s", what, iter__cuda_text(driver, result, why, sizeof why));
}

bool iter__cuda_is_lost(CUresult result) {
    switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN: return true;
    default: return false;
    }
}

bool iter__cuda_is_capture(CUresult result) {
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}
