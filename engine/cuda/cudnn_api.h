/*
 * cudnn_api.h - the part of cuDNN 9 that we use, declared here, so that the build does not need
 * cuDNN. Names, values and parameters are those of its headers; tests/check_cuda_headers.sh
 * compiles them against those (tests/fake/cudnn_headers.c).
 */
#ifndef ENGINE_CUDA_CUDNN_API_H
#define ENGINE_CUDA_CUDNN_API_H

#include <stddef.h>
#include <stdint.h>

#include "iter/device/cuda_api.h"

#define CUDNN_LIBRARY      "libcudnn.so.9"
#define CUDNN_MAJOR_WANTED 9

/* All values: X(name, value). */
#define CUDNN_CONSTANTS(X)                                        \
    X(CUDNN_STATUS_SUCCESS, 0)                                    \
    X(CUDNN_STATUS_NOT_INITIALIZED, 1001)                         \
    X(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, 1008)               \
    X(CUDNN_STATUS_BAD_PARAM, 2000)                               \
    X(CUDNN_STATUS_NOT_SUPPORTED, 3000)                           \
    X(CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, 3007)             \
    X(CUDNN_STATUS_INTERNAL_ERROR, 4000)                          \
    X(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, 4003)   \
    X(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, 4004) \
    X(CUDNN_STATUS_EXECUTION_FAILED, 5000)                        \
    X(CUDNN_DATA_FLOAT, 0)                                        \
    X(CUDNN_DATA_HALF, 2)                                         \
    X(CUDNN_DATA_BFLOAT16, 9)                                     \
    X(CUDNN_DEFAULT_MATH, 0)                                      \
    X(CUDNN_TENSOR_OP_MATH, 1)                                    \
    X(CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, 2)                   \
    X(CUDNN_FMA_MATH, 3)                                          \
    X(CUDNN_TENSOR_NCHW, 0)                                       \
    X(CUDNN_TENSOR_NHWC, 1)                                       \
    X(CUDNN_DETERMINISTIC, 1)                                     \
    X(CUDNN_CROSS_CORRELATION, 1)                                 \
    X(CUDNN_RNN_ALGO_STANDARD, 0)                                 \
    X(CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, 3)                   \
    X(CUDNN_GRU, 3)                                               \
    X(CUDNN_RNN_DOUBLE_BIAS, 2)                                   \
    X(CUDNN_UNIDIRECTIONAL, 0)                                    \
    X(CUDNN_LINEAR_INPUT, 0)                                      \
    X(CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, 1)                  \
    X(CUDNN_RNN_PADDED_IO_DISABLED, 0)                            \
    X(CUDNN_FWD_MODE_INFERENCE, 0)                                \
    X(CUDNN_FWD_MODE_TRAINING, 1)                                 \
    X(CUDNN_WGRAD_MODE_ADD, 0)

#ifndef ITER_CUDA_REAL_HEADER /* the check uses NVIDIA's own */
enum {
#define ITER_X(name, value) name = (value),
    CUDNN_CONSTANTS(ITER_X)
#undef ITER_X
};
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct cudnnDropoutStruct *cudnnDropoutDescriptor_t;
typedef struct cudnnRNNStruct *cudnnRNNDescriptor_t;
typedef struct cudnnRNNDataStruct *cudnnRNNDataDescriptor_t;
typedef unsigned cudnnStatus_t;
typedef unsigned cudnnDataType_t;
typedef unsigned cudnnMathType_t;
typedef unsigned cudnnTensorFormat_t;
typedef unsigned cudnnDeterminism_t;
typedef unsigned cudnnConvolutionMode_t;
typedef unsigned cudnnConvolutionFwdAlgo_t;
typedef unsigned cudnnConvolutionBwdDataAlgo_t;
typedef unsigned cudnnConvolutionBwdFilterAlgo_t;
typedef unsigned cudnnRNNAlgo_t;
typedef unsigned cudnnRNNMode_t;
typedef unsigned cudnnRNNBiasMode_t;
typedef unsigned cudnnDirectionMode_t;
typedef unsigned cudnnRNNInputMode_t;
typedef unsigned cudnnRNNDataLayout_t;
typedef unsigned cudnnForwardMode_t;
typedef unsigned cudnnWgradMode_t;

/* The three structs differ only in the type of `algo`. */
typedef struct cudnnConvolutionFwdAlgoPerfStruct {
    unsigned algo;
    cudnnStatus_t status;
    float time;
    size_t memory;
    cudnnDeterminism_t determinism;
    cudnnMathType_t mathType;
    int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t;
typedef cudnnConvolutionFwdAlgoPerf_t cudnnConvolutionBwdDataAlgoPerf_t;
typedef cudnnConvolutionFwdAlgoPerf_t cudnnConvolutionBwdFilterAlgoPerf_t;
#endif

/* All calls that return a status: X(name, parameters). cudnnGetVersion and cudnnGetErrorString
 * return something else and are looked up separately. */
#define CUDNN_CALLS(X)                                                                             \
    X(cudnnCreate, (cudnnHandle_t * handle))                                                       \
    X(cudnnDestroy, (cudnnHandle_t handle))                                                        \
    X(cudnnSetStream, (cudnnHandle_t handle, CUstream stream))                                     \
    X(cudnnCreateTensorDescriptor, (cudnnTensorDescriptor_t * out))                                \
    X(cudnnDestroyTensorDescriptor, (cudnnTensorDescriptor_t tensor))                              \
    X(cudnnSetTensor4dDescriptor, (cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,     \
                                   cudnnDataType_t type, int n, int c, int h, int w))              \
    X(cudnnSetTensorNdDescriptor, (cudnnTensorDescriptor_t tensor, cudnnDataType_t type,           \
                                   int n_dims, const int *dims, const int *strides))               \
    X(cudnnGetTensorNdDescriptor, (cudnnTensorDescriptor_t tensor, int capacity,                   \
                                   cudnnDataType_t *type, int *n_dims, int *dims, int *strides))   \
    X(cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t * out))                                \
    X(cudnnDestroyFilterDescriptor, (cudnnFilterDescriptor_t filter))                              \
    X(cudnnSetFilter4dDescriptor, (cudnnFilterDescriptor_t filter, cudnnDataType_t type,           \
                                   cudnnTensorFormat_t format, int k, int c, int h, int w))        \
    X(cudnnCreateConvolutionDescriptor, (cudnnConvolutionDescriptor_t * out))                      \
    X(cudnnDestroyConvolutionDescriptor, (cudnnConvolutionDescriptor_t conv))                      \
    X(cudnnSetConvolution2dDescriptor,                                                             \
      (cudnnConvolutionDescriptor_t conv, int pad_h, int pad_w, int stride_h, int stride_w,        \
       int dilation_h, int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute))      \
    X(cudnnSetConvolutionMathType, (cudnnConvolutionDescriptor_t conv, cudnnMathType_t math))      \
    X(cudnnGetConvolutionForwardAlgorithm_v7,                                                      \
      (cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,                 \
       cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int capacity, int *n,         \
       cudnnConvolutionFwdAlgoPerf_t *found))                                                      \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7,                                                 \
      (cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,                \
       cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, int capacity, int *n,        \
       cudnnConvolutionBwdDataAlgoPerf_t *found))                                                  \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7,                                               \
      (cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,                \
       cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, int capacity, int *n,        \
       cudnnConvolutionBwdFilterAlgoPerf_t *found))                                                \
    X(cudnnFindConvolutionForwardAlgorithmEx,                                                      \
      (cudnnHandle_t handle, cudnnTensorDescriptor_t x_desc, const void *x,                        \
       cudnnFilterDescriptor_t w_desc, const void *w, cudnnConvolutionDescriptor_t conv,           \
       cudnnTensorDescriptor_t y_desc, void *y, int capacity, int *n,                              \
       cudnnConvolutionFwdAlgoPerf_t *found, void *workspace, size_t workspace_bytes))             \
    X(cudnnFindConvolutionBackwardDataAlgorithmEx,                                                 \
      (cudnnHandle_t handle, cudnnFilterDescriptor_t w_desc, const void *w,                        \
       cudnnTensorDescriptor_t dy_desc, const void *dy, cudnnConvolutionDescriptor_t conv,         \
       cudnnTensorDescriptor_t dx_desc, void *dx, int capacity, int *n,                            \
       cudnnConvolutionBwdDataAlgoPerf_t *found, void *workspace, size_t workspace_bytes))         \
    X(cudnnFindConvolutionBackwardFilterAlgorithmEx,                                               \
      (cudnnHandle_t handle, cudnnTensorDescriptor_t x_desc, const void *x,                        \
       cudnnTensorDescriptor_t dy_desc, const void *dy, cudnnConvolutionDescriptor_t conv,         \
       cudnnFilterDescriptor_t dw_desc, void *dw, int capacity, int *n,                            \
       cudnnConvolutionBwdFilterAlgoPerf_t *found, void *workspace, size_t workspace_bytes))       \
    X(cudnnConvolutionForward,                                                                     \
      (cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,     \
       cudnnFilterDescriptor_t w_desc, const void *w, cudnnConvolutionDescriptor_t conv,           \
       cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t workspace_bytes, const void *beta,  \
       cudnnTensorDescriptor_t y_desc, void *y))                                                   \
    X(cudnnConvolutionBackwardData,                                                                \
      (cudnnHandle_t handle, const void *alpha, cudnnFilterDescriptor_t w_desc, const void *w,     \
       cudnnTensorDescriptor_t dy_desc, const void *dy, cudnnConvolutionDescriptor_t conv,         \
       cudnnConvolutionBwdDataAlgo_t algo, void *workspace, size_t workspace_bytes,                \
       const void *beta, cudnnTensorDescriptor_t dx_desc, void *dx))                               \
    X(cudnnConvolutionBackwardFilter,                                                              \
      (cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,     \
       cudnnTensorDescriptor_t dy_desc, const void *dy, cudnnConvolutionDescriptor_t conv,         \
       cudnnConvolutionBwdFilterAlgo_t algo, void *workspace, size_t workspace_bytes,              \
       const void *beta, cudnnFilterDescriptor_t dw_desc, void *dw))                               \
    X(cudnnCreateDropoutDescriptor, (cudnnDropoutDescriptor_t * out))                              \
    X(cudnnDestroyDropoutDescriptor, (cudnnDropoutDescriptor_t dropout))                           \
    X(cudnnSetDropoutDescriptor, (cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle, float p, \
                                  void *states, size_t n_states, unsigned long long seed))         \
    X(cudnnCreateRNNDescriptor, (cudnnRNNDescriptor_t * out))                                      \
    X(cudnnDestroyRNNDescriptor, (cudnnRNNDescriptor_t rnn))                                       \
    X(cudnnSetRNNDescriptor_v8,                                                                    \
      (cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t algo, cudnnRNNMode_t cell,                         \
       cudnnRNNBiasMode_t bias, cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,         \
       cudnnDataType_t type, cudnnDataType_t precision, cudnnMathType_t math, int32_t input_size,  \
       int32_t hidden_size, int32_t projection_size, int32_t n_layers,                             \
       cudnnDropoutDescriptor_t dropout, uint32_t flags))                                          \
    X(cudnnCreateRNNDataDescriptor, (cudnnRNNDataDescriptor_t * out))                              \
    X(cudnnDestroyRNNDataDescriptor, (cudnnRNNDataDescriptor_t data))                              \
    X(cudnnSetRNNDataDescriptor,                                                                   \
      (cudnnRNNDataDescriptor_t data, cudnnDataType_t type, cudnnRNNDataLayout_t layout,           \
       int steps, int batch, int features, const int *lengths, void *fill))                        \
    X(cudnnGetRNNTempSpaceSizes,                                                                   \
      (cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode,                    \
       cudnnRNNDataDescriptor_t x, size_t * workspace_bytes, size_t * reserve_bytes))              \
    X(cudnnGetRNNWeightSpaceSize,                                                                  \
      (cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, size_t * bytes))                            \
    X(cudnnGetRNNWeightParams,                                                                     \
      (cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, int32_t layer, size_t space_bytes,          \
       const void *space, int32_t linear, cudnnTensorDescriptor_t m_desc, void **m,                \
       cudnnTensorDescriptor_t b_desc, void **b))                                                  \
    X(cudnnRNNForward,                                                                             \
      (cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode,                    \
       const int32_t *lengths, cudnnRNNDataDescriptor_t x_desc, const void *x,                     \
       cudnnRNNDataDescriptor_t y_desc, void *y, cudnnTensorDescriptor_t h_desc, const void *hx,   \
       void *hy, cudnnTensorDescriptor_t c_desc, const void *cx, void *cy, size_t weight_bytes,    \
       const void *weights, size_t workspace_bytes, void *workspace, size_t reserve_bytes,         \
       void *reserve))                                                                             \
    X(cudnnRNNBackwardData_v8,                                                                     \
      (cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, const int32_t *lengths,                     \
       cudnnRNNDataDescriptor_t y_desc, const void *y, const void *dy,                             \
       cudnnRNNDataDescriptor_t x_desc, void *dx, cudnnTensorDescriptor_t h_desc, const void *hx,  \
       const void *dhy, void *dhx, cudnnTensorDescriptor_t c_desc, const void *cx,                 \
       const void *dcy, void *dcx, size_t weight_bytes, const void *weights,                       \
       size_t workspace_bytes, void *workspace, size_t reserve_bytes, void *reserve))              \
    X(cudnnRNNBackwardWeights_v8,                                                                  \
      (cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnWgradMode_t mode,                      \
       const int32_t *lengths, cudnnRNNDataDescriptor_t x_desc, const void *x,                     \
       cudnnTensorDescriptor_t h_desc, const void *hx, cudnnRNNDataDescriptor_t y_desc,            \
       const void *y, size_t weight_bytes, void *d_weights, size_t workspace_bytes,                \
       void *workspace, size_t reserve_bytes, void *reserve))

#endif
