/*
 * cublas_api.h - the part of cuBLAS 12 and 13 that we use, declared here; see cudnn_api.h.
 */
#ifndef ENGINE_CUDA_CUBLAS_API_H
#define ENGINE_CUDA_CUBLAS_API_H

#include <stddef.h>

#include "iter/device/cuda_api.h"

/* Tried in this order. */
#define CUBLAS_LIBRARIES \
    { "libcublas.so.13", "libcublas.so.12" }

#define CUBLAS_CONSTANTS(X)               \
    X(CUBLAS_STATUS_SUCCESS, 0)           \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1)   \
    X(CUBLAS_STATUS_ALLOC_FAILED, 3)      \
    X(CUBLAS_STATUS_INVALID_VALUE, 7)     \
    X(CUBLAS_STATUS_ARCH_MISMATCH, 8)     \
    X(CUBLAS_STATUS_EXECUTION_FAILED, 13) \
    X(CUBLAS_STATUS_INTERNAL_ERROR, 14)   \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15)    \
    X(CUBLAS_OP_N, 0)                     \
    X(CUBLAS_OP_T, 1)                     \
    X(CUBLAS_GEMM_DEFAULT, -1)            \
    X(CUBLAS_COMPUTE_32F, 68)             \
    X(CUBLAS_COMPUTE_32F_FAST_TF32, 77)   \
    X(CUDA_R_32F, 0)                      \
    X(CUDA_R_16F, 2)                      \
    X(CUDA_R_16BF, 14)

#ifndef ITER_CUDA_REAL_HEADER /* the check uses NVIDIA's own */
enum {
#define ITER_X(name, value) name = (value),
    CUBLAS_CONSTANTS(ITER_X)
#undef ITER_X
};
typedef struct cublasContext *cublasHandle_t;
typedef unsigned cublasStatus_t;
typedef unsigned cublasOperation_t;
typedef unsigned cudaDataType;
typedef unsigned cublasComputeType_t;
typedef int cublasGemmAlgo_t;
#endif

/* All calls: X(name, suffix of the symbol, parameters). */
#define CUBLAS_CALLS(X)                                                                           \
    X(cublasCreate, _v2, (cublasHandle_t * handle))                                               \
    X(cublasDestroy, _v2, (cublasHandle_t handle))                                                \
    X(cublasGetVersion, _v2, (cublasHandle_t handle, int *version))                               \
    X(cublasSetStream, _v2, (cublasHandle_t handle, CUstream stream))                             \
    X(cublasSetWorkspace, _v2, (cublasHandle_t handle, void *workspace, size_t bytes))            \
    X(cublasGemmEx, ,                                                                             \
      (cublasHandle_t handle, cublasOperation_t trans_a, cublasOperation_t trans_b, int m, int n, \
       int k, const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b,      \
       cudaDataType b_type, int ldb, const void *beta, void *c, cudaDataType c_type, int ldc,     \
       cublasComputeType_t compute, cublasGemmAlgo_t algo))

#endif
