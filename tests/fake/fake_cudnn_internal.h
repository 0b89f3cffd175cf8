/* fake_cudnn_internal.h - shared by the files of the fake cuDNN: objects, checks, how a call
 * begins. */
#ifndef TESTS_FAKE_CUDNN_INTERNAL_H
#define TESTS_FAKE_CUDNN_INTERNAL_H

#include "engine/cuda/cudnn_api.h"
#include "tests/fake/fake_library_calls.h"

#define ITER_X(name, parameters) FAKE_EXPORT cudnnStatus_t name parameters;
CUDNN_CALLS(ITER_X)
#undef ITER_X
FAKE_EXPORT size_t cudnnGetVersion(void);
FAKE_EXPORT const char *cudnnGetErrorString(cudnnStatus_t status);
FAKE_EXPORT const fake_library *fake_cudnn_control(void);

struct cudnnContext {
    CUstream stream;
    bool has_stream;
};

struct cudnnTensorStruct {
    bool set;
    engine_type type;
    int n_dims, dims[4], strides[4];
};

struct cudnnFilterStruct {
    bool set, last;
    engine_type type;
    int k, c, h, w;
};

struct cudnnConvolutionStruct {
    bool set;
    int pad_h, pad_w, stride_h, stride_w;
    cudnnMathType_t math;
};

struct cudnnDropoutStruct {
    bool set;
};

struct cudnnRNNStruct {
    bool set;
    engine_type type;
    int input, units;
    bool small; /* CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H */
    bool tf32;
};

struct cudnnRNNDataStruct {
    bool set;
    engine_type type;
    int steps, batch, features;
};

extern fake_calls fake__dnn_calls;

/* Returns early if the call was told to fail, or if there is no context. */
#define BEGIN(name)                                                                    \
    unsigned status_ = CUDNN_STATUS_SUCCESS;                                           \
    if (!fake_calls_begin(&fake__dnn_calls, name, &status_)) return status_;           \
    if (!fake_check(fake_has_context(), name, "no context is current in this thread")) \
    return CUDNN_STATUS_NOT_INITIALIZED

#define CHECK(condition, what) \
    if (!fake_check((condition), __func__, (what))) return CUDNN_STATUS_BAD_PARAM
#define CHECK_MEMORY(at, bytes) \
    if (!fake_check_memory((at), (bytes), 16, __func__, #at)) return CUDNN_STATUS_BAD_PARAM

cudnnStatus_t fake__dnn_launch(cudnnHandle_t handle, void (*run)(void *state), const void *state,
                               size_t bytes);
engine_type fake__type_of(cudnnDataType_t type);
size_t fake__tensor_bytes(const struct cudnnTensorStruct *tensor);
/* Registers the twins of the engine's kernels with the driver. */
void fake__dnn_kernels(void);

#endif
