/*
 * cudnn.h - the two things that cuDNN computes for us: convolutions and the gru. All its
 * calls are in cudnn.c.
 *
 * make() creates descriptors and says how much memory the object needs; it owns no device memory.
 * If make() fails, the caller must call drop(); dropping a zeroed object does nothing. Workspace is
 * shared, so only one call at a time may use it.
 */
#ifndef ENGINE_CUDA_CUDNN_H
#define ENGINE_CUDA_CUDNN_H

#include <iter/engine.h>

#include "engine/cuda/cuda_machine.h"
#include "engine/cuda/kernel_args.h"

/* Element types, and the order of channels. */
typedef struct cuda_numbers {
    engine_type type;   /* f32, f16 or bf16 */
    bool tf32;          /* products of f32 may be rounded to TF32 */
    bool channels_last; /* NHWC */
} cuda_numbers;

/* n images of `channels`; windows of size x size. */
typedef struct dnn_images {
    int64_t n, channels, height, width, out_channels, out_height, out_width, size, stride, pad;
} dnn_images;

typedef enum dnn_pass { DNN_FORWARD, DNN_BY_DATA, DNN_BY_WEIGHTS, DNN_PASSES } dnn_pass;

#define DNN_WORKSPACE_MOST ((size_t)1 << 30)

typedef struct dnn_conv {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    /* Per pass: arithmetic, algorithm, and the workspace that it needs. */
    cudnnConvolutionDescriptor_t conv[DNN_PASSES];
    unsigned algorithms[DNN_PASSES];
    size_t workspace[DNN_PASSES];
    unsigned maths[DNN_PASSES];
    unsigned math; /* as the precision sets it; the advice may narrow a pass */
    bool by_data;  /* the gradient of x is needed */
} dnn_conv;

/* Memory that measuring may read and write: as large as the call will have it. */
typedef struct dnn_trial {
    CUdeviceptr x, d_x, y, d_y, w, d_w, workspace;
    size_t workspace_bytes;
} dnn_trial;

/* Chooses by cuDNN's own advice, which is the same in every process. Only deterministic algorithms,
 * unless `any`. */
iter_status iter__cudnn_conv_make(cuda_machine *machine, dnn_conv *conv, const dnn_images *images,
                                  cuda_numbers numbers, bool by_data, bool any, iter_error *err);
/* Chooses again by measuring; waits for the device. */
iter_status iter__cudnn_conv_measure(cuda_machine *machine, dnn_conv *conv, const dnn_trial *trial,
                                     bool any, bool narrow_or_tf32, iter_error *err);
/* Chooses what a convolution of equal shapes and arithmetic has. */
iter_status iter__cudnn_conv_choose_as(cuda_machine *machine, dnn_conv *conv, const dnn_conv *equal,
                                       iter_error *err);
void iter__cudnn_conv_drop(cuda_machine *machine, dnn_conv *conv);
/* "cuDNN, winograd forward, algorithm 1 by data, algorithm 1 by weights" */
void iter__cudnn_conv_text(const dnn_conv *conv, char *out, size_t capacity);

iter_status iter__cudnn_conv_forward(cuda_machine *machine, const dnn_conv *conv, CUdeviceptr x,
                                     CUdeviceptr w, CUdeviceptr y, CUdeviceptr workspace,
                                     iter_error *err);
iter_status iter__cudnn_conv_by_data(cuda_machine *machine, const dnn_conv *conv, CUdeviceptr w,
                                     CUdeviceptr d_y, CUdeviceptr d_x, CUdeviceptr workspace,
                                     iter_error *err);
iter_status iter__cudnn_conv_by_weights(cuda_machine *machine, const dnn_conv *conv, CUdeviceptr x,
                                        CUdeviceptr d_y, CUdeviceptr d_w, CUdeviceptr workspace,
                                        iter_error *err);

/* The gru that resets after the product; x [steps, n, features], y [steps, n, units]. */
typedef struct dnn_gru {
    cudnnRNNDescriptor_t rnn;
    cudnnDropoutDescriptor_t dropout;
    cudnnRNNDataDescriptor_t x, y;
    cudnnTensorDescriptor_t h;
    size_t weight_bytes, workspace_bytes, reserve_bytes;
    bool in_one_kernel; /* all steps, else one or more kernels a step */
} dnn_gru;

/* Addresses of its tensors: they may change before each call. */
typedef struct dnn_gru_memory {
    CUdeviceptr x, d_x, y, d_y, weights, d_weights, reserve, workspace;
    CUdeviceptr lengths; /* i32 [n], each of them `steps` */
} dnn_gru_memory;

iter_status iter__cudnn_gru_make(cuda_machine *machine, dnn_gru *gru, int64_t n, int64_t steps,
                                 int64_t features, int64_t units, cuda_numbers numbers,
                                 iter_error *err);
void iter__cudnn_gru_drop(cuda_machine *machine, dnn_gru *gru);
/* Finds product `which` (0 to 2: r, z, n over x; 3 to 5: over h) in the weights: the offsets of its
 * matrix, dense [units, columns], and of its bias, in bytes. */
iter_status iter__cudnn_gru_place(cuda_machine *machine, const dnn_gru *gru, CUdeviceptr weights,
                                  int32_t which, int64_t units, int64_t columns, size_t *out_matrix,
                                  size_t *out_bias, iter_error *err);
iter_status iter__cudnn_gru_forward(cuda_machine *machine, const dnn_gru *gru,
                                    const dnn_gru_memory *at, bool training, iter_error *err);
/* Computes d_x, which must not be 0, then d_weights, which must be zeroed before. */
iter_status iter__cudnn_gru_back(cuda_machine *machine, const dnn_gru *gru,
                                 const dnn_gru_memory *at, iter_error *err);

#endif
