/*
 * fake_cudnn.c - libcudnn.so.9 for tests: descriptors, and queries about the library itself.
 * Convolution is in fake_cudnn_images.c, the gru in fake_cudnn_gru.c.
 *
 * When a handle is made, it also registers the twins of the engine's kernels with the fake driver,
 * so that programs which know nothing of fakes can train on it.
 */
#include "tests/fake/fake_cudnn_internal.h"

fake_calls fake__dnn_calls = FAKE_CALLS_INIT(91501);

size_t cudnnGetVersion(void) {
    return fake_calls_version(&fake__dnn_calls, 0);
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
    switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_INTERNAL_ERROR";
    }
}

cudnnStatus_t fake__dnn_launch(cudnnHandle_t handle, void (*run)(void *state), const void *state,
                               size_t bytes) {
    CHECK(handle && handle->has_stream, "no stream");
    return fake_driver()->launch(handle->stream, run, state, bytes) == CUDA_SUCCESS
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_EXECUTION_FAILED;
}

size_t fake__tensor_bytes(const struct cudnnTensorStruct *tensor) {
    size_t n = fake_bytes(tensor->type);
    for (int i = 0; i < tensor->n_dims; i++)
        n *= (size_t)tensor->dims[i];
    return n;
}

/* ---- Objects --------------------------------------------------------------------------------- */

#define OBJECT(create, destroy, type)                                          \
    cudnnStatus_t create(type *out) {                                          \
        BEGIN(#create);                                                        \
        *out = calloc(1, sizeof(**out));                                       \
        fake_calls_live(&fake__dnn_calls, 1);                                  \
        return CUDNN_STATUS_SUCCESS;                                           \
    }                                                                          \
    cudnnStatus_t destroy(type object) {                                       \
        unsigned status = CUDNN_STATUS_SUCCESS;                                \
        const bool ok = fake_calls_begin(&fake__dnn_calls, #destroy, &status); \
        free(object);                                                          \
        fake_calls_live(&fake__dnn_calls, -1);                                 \
        return ok ? CUDNN_STATUS_SUCCESS : status;                             \
    }

OBJECT(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor, cudnnTensorDescriptor_t)
OBJECT(cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor, cudnnFilterDescriptor_t)
OBJECT(cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor,
       cudnnConvolutionDescriptor_t)
OBJECT(cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor, cudnnDropoutDescriptor_t)
OBJECT(cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor, cudnnRNNDescriptor_t)
OBJECT(cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor, cudnnRNNDataDescriptor_t)

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    BEGIN("cudnnCreate");
    *handle = calloc(1, sizeof(**handle));
    fake_calls_live(&fake__dnn_calls, 1);
    fake__dnn_kernels();
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    unsigned status = CUDNN_STATUS_SUCCESS;
    const bool ok = fake_calls_begin(&fake__dnn_calls, "cudnnDestroy", &status);
    free(handle);
    fake_calls_live(&fake__dnn_calls, -1);
    return ok ? CUDNN_STATUS_SUCCESS : status;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
    BEGIN("cudnnSetStream");
    handle->stream = stream;
    handle->has_stream = true;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Descriptions ---------------------------------------------------------------------------- */

static bool is_type(cudnnDataType_t type) {
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

engine_type fake__type_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_HALF       ? ENGINE_F16
           : type == CUDNN_DATA_BFLOAT16 ? ENGINE_BF16
                                         : ENGINE_F32;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
    BEGIN("cudnnSetTensor4dDescriptor");
    const bool last = format == CUDNN_TENSOR_NHWC;
    CHECK(tensor && is_type(type) && (last || format == CUDNN_TENSOR_NCHW), "type or format");
    CHECK(n > 0 && c > 0 && h > 0 && w > 0, "dimensions");
    *tensor = (struct cudnnTensorStruct){
        .set = true,
        .type = fake__type_of(type),
        .n_dims = 4,
        .dims = {n, c, h, w},
        .strides = {c * h * w, last ? 1 : h * w, last ? w * c : w, last ? c : 1}};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                         int n_dims, const int *dims, const int *strides) {
    BEGIN("cudnnSetTensorNdDescriptor");
    CHECK(tensor && is_type(type) && n_dims >= 3 && n_dims <= 4 && dims && strides, "arguments");
    *tensor =
        (struct cudnnTensorStruct){.set = true, .type = fake__type_of(type), .n_dims = n_dims};
    memcpy(tensor->dims, dims, (size_t)n_dims * sizeof(*dims));
    memcpy(tensor->strides, strides, (size_t)n_dims * sizeof(*strides));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, int capacity,
                                         cudnnDataType_t *type, int *n_dims, int *dims,
                                         int *strides) {
    BEGIN("cudnnGetTensorNdDescriptor");
    CHECK(tensor && tensor->set, "a tensor that was not set");
    *type = tensor->type == ENGINE_F16    ? CUDNN_DATA_HALF
            : tensor->type == ENGINE_BF16 ? CUDNN_DATA_BFLOAT16
                                          : CUDNN_DATA_FLOAT;
    *n_dims = tensor->n_dims;
    for (int i = 0; i < capacity && i < tensor->n_dims; i++) {
        dims[i] = tensor->dims[i];
        strides[i] = tensor->strides[i];
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
    BEGIN("cudnnSetFilter4dDescriptor");
    CHECK(filter && is_type(type), "type");
    *filter = (struct cudnnFilterStruct){
        true, format == CUDNN_TENSOR_NHWC, fake__type_of(type), k, c, h, w};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
    BEGIN("cudnnSetConvolution2dDescriptor");
    CHECK(conv && mode == CUDNN_CROSS_CORRELATION && compute == CUDNN_DATA_FLOAT, "mode");
    CHECK(dilation_h == 1 && dilation_w == 1 && stride_h > 0 && stride_w > 0, "windows");
    *conv =
        (struct cudnnConvolutionStruct){true, pad_h, pad_w, stride_h, stride_w, CUDNN_DEFAULT_MATH};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math) {
    BEGIN("cudnnSetConvolutionMathType");
    CHECK(conv && conv->set, "a convolution that was not set");
    conv->math = math;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle,
                                        float p, void *states, size_t n_states,
                                        unsigned long long seed) {
    BEGIN("cudnnSetDropoutDescriptor");
    CHECK(dropout && handle && p == 0 && !states && n_states == 0 && seed == 0, "a dropout");
    dropout->set = true;
    return CUDNN_STATUS_SUCCESS;
}

FAKE_CONTROL(fake_cudnn_control, &fake__dnn_calls, fake__dnn_kernels)
