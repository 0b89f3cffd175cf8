/*
 * cuda_machine.h - a GPU for the cuda backend: the driver, cuDNN and cuBLAS, opened at run time,
 * one stream, and our kernels. One per trainer.
 *
 * Between iter__machine_enter() and iter__machine_leave() the device's context is current in the
 * calling thread; all other calls here must be made there. Errors name the call and its result. If
 * an error makes the device unusable for the process, every further call returns it again.
 */
#ifndef ENGINE_CUDA_CUDA_MACHINE_H
#define ENGINE_CUDA_CUDA_MACHINE_H

#include <stdbool.h>

#include <iter/status.h>

#include "engine/cuda/cublas_api.h"
#include "engine/cuda/cudnn_api.h"
#include "iter/device/cuda_driver.h"

/* Our kernels, with their names in engine_kernels.cu. */
#define ENGINE_KERNELS(X)     \
    X(engine_copy)            \
    X(engine_ids)             \
    X(engine_map)             \
    X(engine_map_back)        \
    X(engine_pool)            \
    X(engine_pool_back)       \
    X(engine_pool_back_apart) \
    X(engine_sums_inner)      \
    X(engine_sums_outer)      \
    X(engine_sums_end)        \
    X(engine_embedding)       \
    X(engine_embedding_find)  \
    X(engine_embedding_back)  \
    X(engine_steps_mean)      \
    X(engine_steps_back)      \
    X(engine_loss_classes)    \
    X(engine_loss_squares)    \
    X(engine_loss_end)        \
    X(engine_params)          \
    X(engine_scale)           \
    X(engine_tree_add)        \
    X(engine_tree_scale)

typedef enum engine_kernel {
#define ITER_X(name) kernel_##name,
    ENGINE_KERNELS(ITER_X)
#undef ITER_X
        N_ENGINE_KERNELS
} engine_kernel;

/* A call of a library, and where its address goes in a table. */
typedef struct cuda_symbol {
    const char *name;
    size_t offset;
} cuda_symbol;

typedef struct cuda_dnn {
    void *library;
    cudnnHandle_t handle;
    size_t version; /* 91500 = 9.15 */
    const char *(*text)(cudnnStatus_t status);
#define ITER_X(name, parameters) cudnnStatus_t(*name) parameters;
    CUDNN_CALLS(ITER_X)
#undef ITER_X
} cuda_dnn;

typedef struct cuda_blas {
    void *library;
    cublasHandle_t handle;
    int version; /* 130100 = 13.1 */
#define ITER_X(name, suffix, parameters) cublasStatus_t(*name) parameters;
    CUBLAS_CALLS(ITER_X)
#undef ITER_X
} cuda_blas;

typedef struct cuda_machine {
    iter__cuda_driver cuda;
    cuda_dnn dnn;   /* opened if the net needs it */
    cuda_blas blas; /* opened if the net needs it */
    CUdevice number;
    CUcontext context;
    bool retained; /* we must release the primary context */
    CUstream stream;
    CUmodule module;
    CUfunction kernels[N_ENGINE_KERNELS];
    int capability;  /* 90 = sm_90 */
    char device[64]; /* "NVIDIA H200, sm_90" */
    bool lost;
    iter_error lost_error;
} cuda_machine;

/* Fills in a table of calls. Errors: EUNSUPPORTED (names the first that `file` lacks). */
iter_status iter__cuda_symbols(void *library, const char *file, void *table,
                               const cuda_symbol *symbols, size_t n, iter_error *err);

/* `device` as in iter_loader_memory.device. The context is not current on return; after an error
 * everything is closed. Errors: EUNSUPPORTED (no driver or one that is too old, no such device;
 * cuDNN or cuBLAS missing or of another major version: names the file and what to install),
 * EDEVICE, ENOMEM. */
iter_status iter__machine_open(cuda_machine *machine, int32_t device, bool needs_dnn,
                               bool needs_blas, iter_error *err);
/* Waits for the stream. Memory must have been freed before. */
void iter__machine_close(cuda_machine *machine);

iter_status iter__machine_enter(cuda_machine *machine, iter_error *err);
/* Enters in order to free: tries twice, also if the device is lost. What is not freed now never is.
 * Returns false if the context is gone, with everything in it. */
bool iter__machine_enter_to_free(cuda_machine *machine);
void iter__machine_leave(cuda_machine *machine);

/* Fills err from the result of a call. If the device is lost, remembers that. */
iter_status iter__machine_failed(cuda_machine *machine, iter_error *err, CUresult result,
                                 const char *format, ...) __attribute__((format(printf, 4, 5)));
iter_status iter__cudnn_failed(cuda_machine *machine, iter_error *err, cudnnStatus_t status,
                               const char *call);
iter_status iter__blas_failed(cuda_machine *machine, iter_error *err, cublasStatus_t status,
                              const char *call);

/* For calls that must succeed: CUDA_CALL(machine, err, cuMemFree, (at)). */
#define CUDA_CALL(machine, err, call, arguments)                                 \
    do {                                                                         \
        const CUresult result_ = (machine)->cuda.call arguments;                 \
        if (result_ != CUDA_SUCCESS)                                             \
            return iter__machine_failed((machine), (err), result_, "%s", #call); \
    } while (0)
#define DNN_CALL(machine, err, call, arguments)                          \
    do {                                                                 \
        const cudnnStatus_t status_ = (machine)->dnn.call arguments;     \
        if (status_ != CUDNN_STATUS_SUCCESS)                             \
            return iter__cudnn_failed((machine), (err), status_, #call); \
    } while (0)
#define BLAS_CALL(machine, err, call, arguments)                        \
    do {                                                                \
        const cublasStatus_t status_ = (machine)->blas.call arguments;  \
        if (status_ != CUBLAS_STATUS_SUCCESS)                           \
            return iter__blas_failed((machine), (err), status_, #call); \
    } while (0)

/* A device address in the libraries' type. */
static inline void *iter__device_pointer(CUdeviceptr at) {
    return (void *)(uintptr_t)at;
}

/* Allocates memory of the device, aligned to 256 bytes. Errors: ENOMEM with the sizes, and what to
 * lower. */
iter_status iter__machine_alloc(cuda_machine *machine, size_t bytes, const char *what,
                                CUdeviceptr *out, iter_error *err);

/* Queues a kernel of `blocks` blocks with one struct of arguments. If blocks is 0, does nothing. */
iter_status iter__machine_launch(cuda_machine *machine, engine_kernel kernel, int64_t blocks,
                                 const void *arguments, iter_error *err);
/* As iter__machine_launch(), with one thread for each of n elements. */
iter_status iter__machine_launch_over(cuda_machine *machine, engine_kernel kernel, int64_t n,
                                      const void *arguments, iter_error *err);
iter_status iter__machine_sync(cuda_machine *machine, iter_error *err);
/* Copies that run after everything that was queued, and are done on return. */
iter_status iter__machine_read(cuda_machine *machine, void *to, CUdeviceptr from, size_t bytes,
                               iter_error *err);
iter_status iter__machine_write(cuda_machine *machine, CUdeviceptr to, const void *from,
                                size_t bytes, iter_error *err);

#endif
