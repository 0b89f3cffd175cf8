/*
 * nccl_api.h - the part of NCCL 2 that we use, declared here; see cudnn_api.h.
 */
#ifndef ENGINE_CUDA_NCCL_API_H
#define ENGINE_CUDA_NCCL_API_H

#include <stddef.h>

#include "iter/device/cuda_api.h"

#define NCCL_LIBRARY "libnccl.so.2"

#define NCCL_CONSTANTS(X)     \
    X(ncclSuccess, 0)         \
    X(ncclSystemError, 2)     \
    X(ncclInvalidArgument, 4) \
    X(ncclInvalidUsage, 5)    \
    X(ncclRemoteError, 6)     \
    X(ncclInProgress, 7)      \
    X(ncclInt8, 0)

#ifndef ITER_CUDA_REAL_HEADER /* the check uses NVIDIA's own */
enum {
#define ITER_X(name, value) name = (value),
    NCCL_CONSTANTS(ITER_X)
#undef ITER_X
};
typedef struct ncclComm *ncclComm_t;
typedef unsigned ncclResult_t;
typedef unsigned ncclDataType_t;
typedef struct ncclUniqueId {
    char internal[128];
} ncclUniqueId;
#endif

/* All calls: X(name, parameters). */
#define NCCL_CALLS(X)                                                                        \
    X(ncclGetVersion, (int *version))                                                        \
    X(ncclGetUniqueId, (ncclUniqueId * id))                                                  \
    X(ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))           \
    X(ncclCommDestroy, (ncclComm_t comm))                                                    \
    X(ncclCommAbort, (ncclComm_t comm))                                                      \
    X(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                        \
    X(ncclGroupStart, (void))                                                                \
    X(ncclGroupEnd, (void))                                                                  \
    X(ncclSend, (const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, \
                 CUstream stream))                                                           \
    X(ncclRecv,                                                                              \
      (void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream))

#endif
