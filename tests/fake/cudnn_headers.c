/*
 * cudnn_headers.c - engine/cuda/cudnn_api.h and cublas_api.h against NVIDIA's own headers: every
 * value, and every call's parameters. Compiled and run by tests/check_cuda_headers.sh.
 */
#include <stdio.h>

#include <cuda.h>

#define ITER_CUDA_REAL_HEADER
#include <cublas_v2.h>
#include <cudnn.h>

#pragma GCC diagnostic ignored \
    "-Wdeprecated-declarations" /* convolutions by descriptor are deprecated, but stay */

#include "engine/cuda/cublas_api.h"
#include "engine/cuda/cudnn_api.h"

#define ITER_X(name, value) _Static_assert((int)(name) == (value), #name);
CUDNN_CONSTANTS(ITER_X)
CUBLAS_CONSTANTS(ITER_X)
#undef ITER_X

#define ITER_X(name, parameters)                                                                 \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), cudnnStatus_t(*) parameters), \
                   #name);
CUDNN_CALLS(ITER_X)
#undef ITER_X

/* By the names that the library exports. */
#define ITER_X(name, suffix, parameters)                                                       \
    _Static_assert(                                                                            \
        __builtin_types_compatible_p(__typeof__(&name##suffix), cublasStatus_t(*) parameters), \
        #name);
CUBLAS_CALLS(ITER_X)
#undef ITER_X

_Static_assert(__builtin_types_compatible_p(__typeof__(&cudnnGetVersion), size_t (*)(void)) &&
                   __builtin_types_compatible_p(__typeof__(&cudnnGetErrorString),
                                                const char *(*)(cudnnStatus_t)),
               "what answers something else");

/* The project's own declarations of an algorithm's result, and of enumerations. */
typedef struct our_perf {
    unsigned algo, status;
    float time;
    size_t memory;
    unsigned determinism, mathType;
    int reserved[3];
} our_perf;

#define SAME(type, member) (offsetof(type, member) == offsetof(our_perf, member))
#define SAME_ALL(type)                                                                           \
    _Static_assert(sizeof(type) == sizeof(our_perf) && SAME(type, algo) && SAME(type, status) && \
                       SAME(type, time) && SAME(type, memory) && SAME(type, determinism) &&      \
                       SAME(type, mathType),                                                     \
                   #type)
SAME_ALL(cudnnConvolutionFwdAlgoPerf_t);
SAME_ALL(cudnnConvolutionBwdDataAlgoPerf_t);
SAME_ALL(cudnnConvolutionBwdFilterAlgoPerf_t);
_Static_assert(sizeof(cudnnStatus_t) == sizeof(unsigned) &&
                   sizeof(cudnnDataType_t) == sizeof(unsigned) &&
                   sizeof(cudnnMathType_t) == sizeof(unsigned) &&
                   sizeof(cudnnConvolutionFwdAlgo_t) == sizeof(unsigned) &&
                   sizeof(cudnnRNNMode_t) == sizeof(unsigned) &&
                   sizeof(cublasStatus_t) == sizeof(unsigned) &&
                   sizeof(cublasGemmAlgo_t) == sizeof(int),
               "enumerations");

int main(void) {
    int n = 0;
#define ITER_X(...) n++;
    CUDNN_CALLS(ITER_X)
    CUBLAS_CALLS(ITER_X)
#undef ITER_X
    printf("cuDNN %d.%d, cuBLAS %d.%d: %d calls\n", CUDNN_MAJOR, CUDNN_MINOR, CUBLAS_VER_MAJOR,
           CUBLAS_VER_MINOR, n);
    return 0;
}
