/*
 * cuda_machine.c - opens a GPU for a trainer, and makes calls on it.
 *
 * Libraries are found by the dynamic linker (LD_LIBRARY_PATH, its cache). They stay in the process,
 * because their threads and exit handlers may outlive the trainer. The stream does not wait for
 * CUDA's default stream.
 */
#include "engine/cuda/cuda_machine.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/kernel_args.h"
#include "engine/engine_error.h"

#define CUDA_MOST_DEVICES 64

extern const char iter__engine_ptx[]; /* engine_kernels.ptx, embedded by the build */

static const cuda_symbol dnn_symbols[] = {
#define ITER_X(name, parameters) {#name, offsetof(cuda_dnn, name)},
    CUDNN_CALLS(ITER_X)
#undef ITER_X
};

static const cuda_symbol blas_symbols[] = {
#define ITER_X(name, suffix, parameters) {#name #suffix, offsetof(cuda_blas, name)},
    CUBLAS_CALLS(ITER_X)
#undef ITER_X
};

static const char *const kernel_names[N_ENGINE_KERNELS] = {
#define ITER_X(name) #name,
    ENGINE_KERNELS(ITER_X)
#undef ITER_X
};

/* ---- Errors ---------------------------------------------------------------------------------- */

iter_status iter__machine_failed(cuda_machine *machine, iter_error *err, CUresult result,
                                 const char *format, ...) {
    char what[160], why[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    iter__cuda_text(&machine->cuda, result, why, sizeof(why));
    const bool lost = iter__cuda_is_lost(result);
    const iter_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? ITER_ENOMEM : ITER_EDEVICE;
    if (lost && !machine->lost) {
        machine->lost = true;
        iter__engine_fail(&machine->lost_error, status,
                          "%s: %s: %s; the device is of no use to this process any more",
                          machine->device[0] ? machine->device : "CUDA", what, why);
    }
    return iter__engine_fail(err, status, "%s: %s: %s%s",
                             machine->device[0] ? machine->device : "CUDA", what, why,
                             lost ? "; the device is of no use to this process any more" : "");
}

/* The libraries only report that a call failed; if the device is lost, the driver says why. */
static bool is_lost_now(cuda_machine *machine, iter_error *err, const char *call) {
    if (!machine->stream) return false;
    const CUresult result = machine->cuda.cuStreamQuery(machine->stream);
    if (!iter__cuda_is_lost(result)) return false;
    const iter_status status = iter__machine_failed(machine, err, result, "%s", call);
    return status < 0;
}

iter_status iter__cudnn_failed(cuda_machine *machine, iter_error *err, cudnnStatus_t status,
                               const char *call) {
    if (is_lost_now(machine, err, call)) return ITER_EDEVICE;
    const bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                        status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    const char *text = machine->dnn.text(status);
    const bool unsupported = status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
    return iter__engine_fail(
        err,
        memory        ? ITER_ENOMEM
        : unsupported ? ITER_EUNSUPPORTED
                      : ITER_EDEVICE,
        "%s: %s: %s%s", machine->device, call, text ? text : "an unknown error",
        status == CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH ? ": this cuDNN is not for this GPU"
                                                           : "");
}

iter_status iter__blas_failed(cuda_machine *machine, iter_error *err, cublasStatus_t status,
                              const char *call) {
    if (is_lost_now(machine, err, call)) return ITER_EDEVICE;
    const char *text = status == CUBLAS_STATUS_ALLOC_FAILED       ? "out of memory"
                       : status == CUBLAS_STATUS_ARCH_MISMATCH    ? "not for this GPU"
                       : status == CUBLAS_STATUS_INVALID_VALUE    ? "an invalid value"
                       : status == CUBLAS_STATUS_NOT_SUPPORTED    ? "not supported"
                       : status == CUBLAS_STATUS_NOT_INITIALIZED  ? "not initialised"
                       : status == CUBLAS_STATUS_EXECUTION_FAILED ? "the execution failed"
                                                                  : "an internal error";
    return iter__engine_fail(err,
                             status == CUBLAS_STATUS_ALLOC_FAILED ? ITER_ENOMEM
                             : status == CUBLAS_STATUS_ARCH_MISMATCH ||
                                     status == CUBLAS_STATUS_NOT_SUPPORTED
                                 ? ITER_EUNSUPPORTED
                                 : ITER_EDEVICE,
                             "%s: %s: %s (%u)", machine->device, call, text, (unsigned)status);
}

/* ---- Libraries ------------------------------------------------------------------------------- */

iter_status iter__cuda_symbols(void *library, const char *file, void *table,
                               const cuda_symbol *symbols, size_t n, iter_error *err) {
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found)
            return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                     "%s has no %s: another version of it is needed", file,
                                     symbols[i].name);
        memcpy((char *)table + symbols[i].offset, &found, sizeof(found));
    }
    return ITER_OK;
}

/* The library's name has no minor version, so its version is checked before anything else. */
static iter_status open_dnn(cuda_machine *machine, iter_error *err) {
    cuda_dnn *dnn = &machine->dnn;
    dnn->library = dlopen(CUDNN_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!dnn->library) {
        const char *why = dlerror();
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "cannot open cuDNN (%s): install cuDNN %d for this CUDA, and have "
                                 "its folder in LD_LIBRARY_PATH",
                                 why ? why : CUDNN_LIBRARY, CUDNN_MAJOR_WANTED);
    }
    size_t (*version)(void);
    void *found = dlsym(dnn->library, "cudnnGetVersion"),
         *text = dlsym(dnn->library, "cudnnGetErrorString");
    if (!found || !text)
        return iter__engine_fail(err, ITER_EUNSUPPORTED, "%s is not cuDNN", CUDNN_LIBRARY);
    memcpy(&version, &found, sizeof(version));
    memcpy(&dnn->text, &text, sizeof(dnn->text));
    dnn->version = version();
    if (dnn->version / 10000 != CUDNN_MAJOR_WANTED)
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "%s is cuDNN %zu.%zu, and %d is needed: install cuDNN %d",
                                 CUDNN_LIBRARY, dnn->version / 10000, dnn->version / 100 % 100,
                                 CUDNN_MAJOR_WANTED, CUDNN_MAJOR_WANTED);
    ENGINE_TRY(iter__cuda_symbols(dnn->library, CUDNN_LIBRARY, dnn, dnn_symbols,
                                  sizeof(dnn_symbols) / sizeof(dnn_symbols[0]), err));
    DNN_CALL(machine, err, cudnnCreate, (&dnn->handle));
    DNN_CALL(machine, err, cudnnSetStream, (dnn->handle, machine->stream));
    return ITER_OK;
}

static iter_status open_blas(cuda_machine *machine, iter_error *err) {
    static const char *const files[] = CUBLAS_LIBRARIES;
    cuda_blas *blas = &machine->blas;
    const char *file = NULL;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !blas->library; i++) {
        file = files[i];
        blas->library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    if (!blas->library) {
        const char *why = dlerror();
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "cannot open cuBLAS, neither %s nor %s (%s): install the one of "
                                 "this CUDA, and have its folder in LD_LIBRARY_PATH",
                                 files[0], files[1], why ? why : "");
    }
    ENGINE_TRY(iter__cuda_symbols(blas->library, file, blas, blas_symbols,
                                  sizeof(blas_symbols) / sizeof(blas_symbols[0]), err));
    BLAS_CALL(machine, err, cublasCreate, (&blas->handle));
    BLAS_CALL(machine, err, cublasGetVersion, (blas->handle, &blas->version));
    BLAS_CALL(machine, err, cublasSetStream, (blas->handle, machine->stream));
    return ITER_OK;
}

/* Loads the kernels' PTX for this device. */
static iter_status load_kernels(cuda_machine *machine, iter_error *err) {
    char log[256] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    const CUresult result =
        machine->cuda.cuModuleLoadDataEx(&machine->module, iter__engine_ptx, 2, options, values);
    switch (result) {
    case CUDA_SUCCESS: break;
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "%s: its driver (%d.%d) is too old for our kernels: CUDA 12.0 or "
                                 "newer is needed",
                                 machine->device, machine->cuda.version / 1000,
                                 machine->cuda.version % 1000 / 10);
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "%s: our kernels are for sm_80 and newer (%.120s)",
                                 machine->device, log);
    default: return iter__machine_failed(machine, err, result, "cuModuleLoadDataEx");
    }
    for (int i = 0; i < N_ENGINE_KERNELS; i++)
        CUDA_CALL(machine, err, cuModuleGetFunction,
                  (&machine->kernels[i], machine->module, kernel_names[i]));
    return ITER_OK;
}

/* ---- The device ------------------------------------------------------------------------------ */

static iter_status find_context(cuda_machine *machine, int32_t device, iter_error *err) {
    int n = 0;
    CUDA_CALL(machine, err, cuDeviceGetCount, (&n));
    if (device < 0 || device > n)
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "there is no GPU number %d: this machine has %d", device - 1, n);
    if (device == 0) CUDA_CALL(machine, err, cuCtxGetCurrent, (&machine->context));
    if (machine->context) {
        unsigned flags;
        int active = 0;
        CUcontext primary = NULL;
        CUDA_CALL(machine, err, cuCtxGetDevice, (&machine->number));
        CUDA_CALL(machine, err, cuDevicePrimaryCtxGetState, (machine->number, &flags, &active));
        if (!active) return ITER_OK;
        CUDA_CALL(machine, err, cuDevicePrimaryCtxRetain, (&primary, machine->number));
        machine->retained = primary == machine->context; /* if so, it can be retained */
        if (!machine->retained) machine->cuda.cuDevicePrimaryCtxRelease(machine->number);
        return ITER_OK;
    }
    CUDA_CALL(machine, err, cuDeviceGet, (&machine->number, device > 0 ? device - 1 : 0));
    CUDA_CALL(machine, err, cuDevicePrimaryCtxRetain, (&machine->context, machine->number));
    machine->retained = true;
    return ITER_OK;
}

/* cuDNN and cuBLAS stay in the process and hold on to what they made in the primary context, which
 * is reset with its last reference. So the process keeps one, until the device is lost. */
static atomic_bool kept[CUDA_MOST_DEVICES];

static void drop_context(cuda_machine *machine) {
    if (machine->number < CUDA_MOST_DEVICES && atomic_exchange(&kept[machine->number], false))
        machine->cuda.cuDevicePrimaryCtxRelease(machine->number);
}

static iter_status keep_context(cuda_machine *machine, iter_error *err) {
    CUcontext same = NULL;
    if (!machine->retained || machine->number >= CUDA_MOST_DEVICES) return ITER_OK;
    if (atomic_exchange(&kept[machine->number], true)) return ITER_OK;
    const CUresult result = machine->cuda.cuDevicePrimaryCtxRetain(&same, machine->number);
    if (result == CUDA_SUCCESS) return ITER_OK;
    atomic_store(&kept[machine->number], false);
    return iter__machine_failed(machine, err, result, "cuDevicePrimaryCtxRetain");
}

static iter_status name_device(cuda_machine *machine, iter_error *err) {
    char name[48] = "";
    int major = 0, minor = 0;
    CUDA_CALL(machine, err, cuDeviceGetName, (name, sizeof(name), machine->number));
    CUDA_CALL(machine, err, cuDeviceGetAttribute,
              (&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, machine->number));
    CUDA_CALL(machine, err, cuDeviceGetAttribute,
              (&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, machine->number));
    machine->capability = 10 * major + minor;
    snprintf(machine->device, sizeof(machine->device), "%s, sm_%d%d", name, major, minor);
    return ITER_OK;
}

/* The part of open that needs the context. */
static iter_status open_inside(cuda_machine *machine, bool needs_dnn, bool needs_blas,
                               iter_error *err) {
    CUDA_CALL(machine, err, cuStreamCreate, (&machine->stream, CU_STREAM_NON_BLOCKING));
    ENGINE_TRY(load_kernels(machine, err));
    if (needs_dnn || needs_blas) ENGINE_TRY(keep_context(machine, err));
    /* Must be first: it also loads the libcublasLt that cuDNN opens by name alone. */
    if (needs_blas) ENGINE_TRY(open_blas(machine, err));
    if (needs_dnn) ENGINE_TRY(open_dnn(machine, err));
    return ITER_OK;
}

static void close_inside(cuda_machine *machine) {
    if (machine->stream) machine->cuda.cuStreamSynchronize(machine->stream);
    if (machine->blas.handle) machine->blas.cublasDestroy(machine->blas.handle);
    if (machine->dnn.handle) machine->dnn.cudnnDestroy(machine->dnn.handle);
    if (machine->module) machine->cuda.cuModuleUnload(machine->module);
    if (machine->stream) machine->cuda.cuStreamDestroy(machine->stream);
}

iter_status iter__machine_open(cuda_machine *machine, int32_t device, bool needs_dnn,
                               bool needs_blas, iter_error *err) {
    memset(machine, 0, sizeof(*machine));
    ENGINE_TRY(iter__cuda_open(&machine->cuda, err));
    iter_status status = find_context(machine, device, err);
    if (status >= 0) status = name_device(machine, err);
    if (status >= 0) status = iter__machine_enter(machine, err);
    if (status >= 0) {
        status = open_inside(machine, needs_dnn, needs_blas, err);
        iter__machine_leave(machine);
    }
    if (status < 0) iter__machine_close(machine);
    return status;
}

void iter__machine_close(cuda_machine *machine) {
    if (!machine->cuda.library) return;
    if (iter__machine_enter_to_free(machine)) {
        close_inside(machine);
        iter__machine_leave(machine);
    }
    if (machine->lost) drop_context(machine);
    if (machine->retained) machine->cuda.cuDevicePrimaryCtxRelease(machine->number);
    if (machine->blas.library) dlclose(machine->blas.library);
    if (machine->dnn.library) dlclose(machine->dnn.library);
    iter__cuda_close(&machine->cuda);
    memset(machine, 0, sizeof(*machine));
}

iter_status iter__machine_enter(cuda_machine *machine, iter_error *err) {
    if (machine->lost) {
        if (err) *err = machine->lost_error;
        return machine->lost_error.status;
    }
    CUDA_CALL(machine, err, cuCtxPushCurrent, (machine->context));
    return ITER_OK;
}

bool iter__machine_enter_to_free(cuda_machine *machine) {
    bool entered = false;
    for (int i = 0; i < 2 && machine->context && !entered; i++)
        entered = machine->cuda.cuCtxPushCurrent(machine->context) == CUDA_SUCCESS;
    return entered;
}

void iter__machine_leave(cuda_machine *machine) {
    CUcontext was;
    machine->cuda.cuCtxPopCurrent(&was);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

iter_status iter__machine_alloc(cuda_machine *machine, size_t bytes, const char *what,
                                CUdeviceptr *out, iter_error *err) {
    *out = 0;
    const CUresult result = machine->cuda.cuMemAlloc(out, bytes ? bytes : 1);
    if (result == CUDA_SUCCESS) return ITER_OK;
    *out = 0;
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return iter__machine_failed(machine, err, result, "cuMemAlloc of %zu bytes", bytes);
    size_t left = 0, total = 0;
    if (machine->cuda.cuMemGetInfo(&left, &total) != CUDA_SUCCESS) left = total = 0;
    return iter__engine_fail(err, ITER_ENOMEM,
                             "%s: out of memory: %s take %zu MiB, and %zu of its %zu MiB are free; "
                             "lower the batch size",
                             machine->device, what, bytes >> 20, left >> 20, total >> 20);
}

iter_status iter__machine_launch(cuda_machine *machine, engine_kernel kernel, int64_t blocks,
                                 const void *arguments, iter_error *err) {
    void *parameters[] = {(void *)(uintptr_t)arguments};
    if (blocks == 0) return ITER_OK;
    const CUresult result =
        machine->cuda.cuLaunchKernel(machine->kernels[kernel], (unsigned)blocks, 1, 1, ENGINE_BLOCK,
                                     1, 1, 0, machine->stream, parameters, NULL);
    if (result == CUDA_SUCCESS) return ITER_OK;
    return iter__machine_failed(machine, err, result, "cuLaunchKernel of %s", kernel_names[kernel]);
}

iter_status iter__machine_launch_over(cuda_machine *machine, engine_kernel kernel, int64_t n,
                                      const void *arguments, iter_error *err) {
    return iter__machine_launch(machine, kernel, (n + ENGINE_BLOCK - 1) / ENGINE_BLOCK, arguments,
                                err);
}

iter_status iter__machine_sync(cuda_machine *machine, iter_error *err) {
    CUDA_CALL(machine, err, cuStreamSynchronize, (machine->stream));
    return ITER_OK;
}

iter_status iter__machine_read(cuda_machine *machine, void *to, CUdeviceptr from, size_t bytes,
                               iter_error *err) {
    CUDA_CALL(machine, err, cuMemcpyDtoHAsync, (to, from, bytes, machine->stream));
    return iter__machine_sync(machine, err);
}

iter_status iter__machine_write(cuda_machine *machine, CUdeviceptr to, const void *from,
                                size_t bytes, iter_error *err) {
    CUDA_CALL(machine, err, cuMemcpyHtoDAsync, (to, from, bytes, machine->stream));
    return iter__machine_sync(machine, err);
}
