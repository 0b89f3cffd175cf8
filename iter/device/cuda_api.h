/*
 * cuda_api.h - the part of CUDA's driver API that we use, declared here, so that the build does not
 * need CUDA. Names, values and parameters are those of NVIDIA's cuda.h; tests/check_cuda_headers.sh
 * compiles them against it (tests/fake/cuda_headers.c).
 *
 * It has no dependencies, because the trainer's library uses it too.
 */
#ifndef ITER_DEVICE_CUDA_API_H
#define ITER_DEVICE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#define ITER_CUDA_LIBRARY "libcuda.so.1"
/* Minimum version of the driver; also the version of the calls below, and of our kernels' PTX
 * 8.0. */
#define ITER_CUDA_MIN_VERSION 12000

/* Handles: pointers to objects of the driver. */
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;

/* All values: X(name, value). */
#define ITER_CUDA_CONSTANTS(X)                          \
    X(CUDA_SUCCESS, 0)                                  \
    X(CUDA_ERROR_INVALID_VALUE, 1)                      \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                      \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                    \
    X(CUDA_ERROR_DEINITIALIZED, 4)                      \
    X(CUDA_ERROR_STUB_LIBRARY, 34)                      \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                \
    X(CUDA_ERROR_NO_DEVICE, 100)                        \
    X(CUDA_ERROR_INVALID_DEVICE, 101)                   \
    X(CUDA_ERROR_INVALID_IMAGE, 200)                    \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                  \
    X(CUDA_ERROR_MAP_FAILED, 205)                       \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214)                \
    X(CUDA_ERROR_INVALID_PTX, 218)                      \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220)             \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221)           \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)          \
    X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223)         \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304)                 \
    X(CUDA_ERROR_INVALID_HANDLE, 400)                   \
    X(CUDA_ERROR_ILLEGAL_STATE, 401)                    \
    X(CUDA_ERROR_NOT_FOUND, 500)                        \
    X(CUDA_ERROR_NOT_READY, 600)                        \
    X(CUDA_ERROR_CONTAINED, 226)                        \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721)               \
    X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810)            \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                  \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701)          \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                   \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)             \
    X(CUDA_ERROR_ASSERT, 710)                           \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)   \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)       \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)             \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)              \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)               \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)            \
    X(CUDA_ERROR_INVALID_PC, 718)                       \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                    \
    X(CUDA_ERROR_NOT_PERMITTED, 800)                    \
    X(CUDA_ERROR_NOT_SUPPORTED, 801)                    \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802)                 \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)           \
    X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)   \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)       \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)       \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902)             \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903)         \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)          \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905)         \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)          \
    X(CUDA_ERROR_CAPTURED_EVENT, 907)                   \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)      \
    X(CUDA_ERROR_EXTERNAL_DEVICE, 911)                  \
    X(CUDA_ERROR_UNKNOWN, 999)                          \
    X(CU_CTX_SCHED_AUTO, 0)                             \
    X(CU_STREAM_DEFAULT, 0)                             \
    X(CU_STREAM_NON_BLOCKING, 1)                        \
    X(CU_EVENT_DEFAULT, 0)                              \
    X(CU_EVENT_BLOCKING_SYNC, 1)                        \
    X(CU_EVENT_DISABLE_TIMING, 2)                       \
    X(CU_EVENT_WAIT_DEFAULT, 0)                         \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                 \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)               \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)          \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                 \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)           \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                      \
    X(CU_MEMHOSTREGISTER_PORTABLE, 1)                   \
    X(CU_MEMHOSTREGISTER_DEVICEMAP, 2)                  \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                  \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)              \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)           \
    X(CU_MEMORYTYPE_HOST, 1)                            \
    X(CU_MEMORYTYPE_DEVICE, 2)                          \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)     \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                       \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)            \
    X(CU_GET_PROC_ADDRESS_DEFAULT, 0)                   \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0)

#ifndef ITER_CUDA_REAL_HEADER /* the check uses NVIDIA's own */
enum {
#define ITER_X(name, value) name = (value),
    ITER_CUDA_CONSTANTS(ITER_X)
#undef ITER_X
};
typedef unsigned CUresult;
typedef unsigned CUstreamCaptureStatus;
typedef unsigned CUstreamCaptureMode;
typedef unsigned CUpointer_attribute;
typedef unsigned CUdevice_attribute;
typedef unsigned CUjit_option;
typedef unsigned CUdriverProcAddressQueryResult;
typedef struct CUuuid {
    char bytes[16];
} CUuuid;
#define CU_STREAM_LEGACY ((CUstream)1) /* same as NULL */
#endif

/* All calls: X(name, version, parameters). The library exports name##version, and
 * cuGetProcAddress(name, ITER_CUDA_MIN_VERSION) finds the same one. */
#define ITER_CUDA_CALLS(X)                                                                       \
    X(cuInit, , (unsigned flags))                                                                \
    X(cuDriverGetVersion, , (int *version))                                                      \
    X(cuGetErrorName, , (CUresult result, const char **text))                                    \
    X(cuGetErrorString, , (CUresult result, const char **text))                                  \
    X(cuDeviceGetCount, , (int *count))                                                          \
    X(cuDeviceGet, , (CUdevice * device, int ordinal))                                           \
    X(cuDeviceGetName, , (char *name, int capacity, CUdevice device))                            \
    X(cuDeviceGetUuid, _v2, (CUuuid * id, CUdevice device))                                      \
    X(cuDeviceGetAttribute, , (int *value, CUdevice_attribute attribute, CUdevice device))       \
    X(cuDevicePrimaryCtxRetain, , (CUcontext * context, CUdevice device))                        \
    X(cuDevicePrimaryCtxRelease, _v2, (CUdevice device))                                         \
    X(cuDevicePrimaryCtxGetState, , (CUdevice device, unsigned *flags, int *active))             \
    X(cuCtxGetCurrent, , (CUcontext * context))                                                  \
    X(cuCtxSetCurrent, , (CUcontext context))                                                    \
    X(cuCtxPushCurrent, _v2, (CUcontext context))                                                \
    X(cuCtxPopCurrent, _v2, (CUcontext * context))                                               \
    X(cuCtxGetDevice, , (CUdevice * device))                                                     \
    X(cuCtxSynchronize, , (void))                                                                \
    X(cuMemGetInfo, _v2, (size_t * free_bytes, size_t * total_bytes))                            \
    X(cuMemAlloc, _v2, (CUdeviceptr * memory, size_t bytes))                                     \
    X(cuMemFree, _v2, (CUdeviceptr memory))                                                      \
    X(cuMemHostAlloc, , (void **memory, size_t bytes, unsigned flags))                           \
    X(cuMemFreeHost, , (void *memory))                                                           \
    X(cuMemHostRegister, _v2, (void *memory, size_t bytes, unsigned flags))                      \
    X(cuMemHostUnregister, , (void *memory))                                                     \
    X(cuPointerGetAttribute, , (void *out, CUpointer_attribute attribute, CUdeviceptr pointer))  \
    X(cuMemcpyDtoH, _v2, (void *to, CUdeviceptr from, size_t bytes))                             \
    X(cuMemcpyHtoDAsync, _v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
    X(cuMemcpyDtoHAsync, _v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))       \
    X(cuMemcpyDtoDAsync, _v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(cuMemsetD8Async, , (CUdeviceptr to, unsigned char value, size_t n, CUstream stream))       \
    X(cuMemsetD32Async, , (CUdeviceptr to, unsigned value, size_t n, CUstream stream))           \
    X(cuStreamCreate, , (CUstream * stream, unsigned flags))                                     \
    X(cuStreamDestroy, _v2, (CUstream stream))                                                   \
    X(cuStreamSynchronize, , (CUstream stream))                                                  \
    X(cuStreamQuery, , (CUstream stream))                                                        \
    X(cuStreamWaitEvent, , (CUstream stream, CUevent event, unsigned flags))                     \
    X(cuStreamIsCapturing, , (CUstream stream, CUstreamCaptureStatus * status))                  \
    X(cuStreamBeginCapture, _v2, (CUstream stream, CUstreamCaptureMode mode))                    \
    X(cuStreamEndCapture, , (CUstream stream, CUgraph * graph))                                  \
    X(cuThreadExchangeStreamCaptureMode, , (CUstreamCaptureMode * mode))                         \
    X(cuEventCreate, , (CUevent * event, unsigned flags))                                        \
    X(cuEventDestroy, _v2, (CUevent event))                                                      \
    X(cuEventRecord, , (CUevent event, CUstream stream))                                         \
    X(cuEventQuery, , (CUevent event))                                                           \
    X(cuEventSynchronize, , (CUevent event))                                                     \
    X(cuEventElapsedTime, , (float *milliseconds, CUevent start, CUevent end))                   \
    X(cuModuleLoadDataEx, ,                                                                      \
      (CUmodule * module, const void *image, unsigned n_options, CUjit_option *options,          \
       void **values))                                                                           \
    X(cuModuleUnload, , (CUmodule module))                                                       \
    X(cuModuleGetFunction, , (CUfunction * function, CUmodule module, const char *name))         \
    X(cuLaunchKernel, ,                                                                          \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,               \
       void **parameters, void **extra))                                                         \
    X(cuGraphInstantiateWithFlags, ,                                                             \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                             \
    X(cuGraphLaunch, , (CUgraphExec exec, CUstream stream))                                      \
    X(cuGraphExecDestroy, , (CUgraphExec exec))                                                  \
    X(cuGraphDestroy, , (CUgraph graph))

/* Looked up with dlsym; finds the other calls. */
typedef CUresult (*iter_cuda_get_proc_address)(const char *name, void **out, int version,
                                               uint64_t flags,
                                               CUdriverProcAddressQueryResult *found);

#endif
