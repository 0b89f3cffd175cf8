/*
 * cudnn.c - every call of cuDNN; see cudnn.h.
 *
 * The calls are those of versions 7 and 8, which version 9 still has: they take descriptors and an
 * algorithm by number, and need none of its graphs. Each pass sets its arithmetic: FMA_MATH keeps
 * f32 from TF32, which the default would use.
 */
#include "engine/cuda/cudnn.h"

#include <stdio.h>
#include <string.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"

#define AT iter__device_pointer

#define CHOICES 16

static const float one = 1, zero = 0;

static cudnnDataType_t type_of(cuda_numbers numbers) {
    return numbers.type == ENGINE_F16    ? CUDNN_DATA_HALF
           : numbers.type == ENGINE_BF16 ? CUDNN_DATA_BFLOAT16
                                         : CUDNN_DATA_FLOAT;
}

static cudnnTensorFormat_t format_of(cuda_numbers numbers) {
    return numbers.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
}

static cudnnMathType_t math_of(cuda_numbers numbers) {
    return numbers.type != ENGINE_F32 ? CUDNN_TENSOR_OP_MATH
           : numbers.tf32             ? CUDNN_DEFAULT_MATH
                                      : CUDNN_FMA_MATH;
}

static iter_status set_images(cuda_machine *m, cudnnTensorDescriptor_t *out, cuda_numbers numbers,
                              int64_t n, int64_t c, int64_t h, int64_t w, iter_error *err) {
    DNN_CALL(m, err, cudnnCreateTensorDescriptor, (out));
    DNN_CALL(m, err, cudnnSetTensor4dDescriptor,
             (*out, format_of(numbers), type_of(numbers), (int)n, (int)c, (int)h, (int)w));
    return ITER_OK;
}

/* ---- Convolution: which algorithm ------------------------------------------------------------ */

/* Takes the first suitable algorithm: the list is ordered best first. */
static iter_status take(cuda_machine *m, dnn_conv *conv, dnn_pass pass,
                        const cudnnConvolutionFwdAlgoPerf_t *found, int n, bool any, bool rounds,
                        iter_error *err) {
    for (int i = 0; i < n; i++) {
        if (found[i].status != CUDNN_STATUS_SUCCESS || found[i].memory > DNN_WORKSPACE_MOST)
            continue;
        if (!any && found[i].determinism != CUDNN_DETERMINISTIC) continue;
        if (!rounds && (found[i].mathType == CUDNN_TENSOR_OP_MATH ||
                        found[i].mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION))
            continue;
        conv->algorithms[pass] = found[i].algo;
        conv->workspace[pass] = found[i].memory;
        conv->maths[pass] = rounds ? found[i].mathType : conv->math;
        if (rounds)
            DNN_CALL(m, err, cudnnSetConvolutionMathType, (conv->conv[pass], found[i].mathType));
        return ITER_OK;
    }
    return iter__engine_fail(err, ITER_EUNSUPPORTED,
                             "cuDNN has no %salgorithm for this convolution in at most %zu MiB",
                             any ? "" : "deterministic ", DNN_WORKSPACE_MOST >> 20);
}

static iter_status advise(cuda_machine *m, dnn_conv *c, bool any, bool rounds, iter_error *err) {
    cudnnConvolutionFwdAlgoPerf_t found[CHOICES];
    int n = 0;
    DNN_CALL(m, err, cudnnGetConvolutionForwardAlgorithm_v7,
             (m->dnn.handle, c->x, c->w, c->conv[DNN_FORWARD], c->y, CHOICES, &n, found));
    ENGINE_TRY(take(m, c, DNN_FORWARD, found, n, any, rounds, err));
    DNN_CALL(m, err, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
             (m->dnn.handle, c->x, c->y, c->conv[DNN_BY_WEIGHTS], c->w, CHOICES, &n, found));
    ENGINE_TRY(take(m, c, DNN_BY_WEIGHTS, found, n, any, rounds, err));
    if (!c->by_data) return ITER_OK;
    DNN_CALL(m, err, cudnnGetConvolutionBackwardDataAlgorithm_v7,
             (m->dnn.handle, c->w, c->y, c->conv[DNN_BY_DATA], c->x, CHOICES, &n, found));
    return take(m, c, DNN_BY_DATA, found, n, any, rounds, err);
}

iter_status iter__cudnn_conv_measure(cuda_machine *m, dnn_conv *c, const dnn_trial *t, bool any,
                                     bool rounds, iter_error *err) {
    cudnnConvolutionFwdAlgoPerf_t found[CHOICES];
    int n = 0;
    for (int i = 0; i < DNN_PASSES; i++) /* the advice may have narrowed it */
        DNN_CALL(m, err, cudnnSetConvolutionMathType, (c->conv[i], c->math));
    DNN_CALL(m, err, cudnnFindConvolutionForwardAlgorithmEx,
             (m->dnn.handle, c->x, AT(t->x), c->w, AT(t->w), c->conv[DNN_FORWARD], c->y, AT(t->y),
              CHOICES, &n, found, AT(t->workspace), t->workspace_bytes));
    ENGINE_TRY(take(m, c, DNN_FORWARD, found, n, any, rounds, err));
    DNN_CALL(m, err, cudnnFindConvolutionBackwardFilterAlgorithmEx,
             (m->dnn.handle, c->x, AT(t->x), c->y, AT(t->d_y), c->conv[DNN_BY_WEIGHTS], c->w,
              AT(t->d_w), CHOICES, &n, found, AT(t->workspace), t->workspace_bytes));
    ENGINE_TRY(take(m, c, DNN_BY_WEIGHTS, found, n, any, rounds, err));
    if (!c->by_data) return ITER_OK;
    DNN_CALL(m, err, cudnnFindConvolutionBackwardDataAlgorithmEx,
             (m->dnn.handle, c->w, AT(t->w), c->y, AT(t->d_y), c->conv[DNN_BY_DATA], c->x,
              AT(t->d_x), CHOICES, &n, found, AT(t->workspace), t->workspace_bytes));
    return take(m, c, DNN_BY_DATA, found, n, any, rounds, err);
}

iter_status iter__cudnn_conv_choose_as(cuda_machine *m, dnn_conv *c, const dnn_conv *equal,
                                       iter_error *err) {
    for (int i = 0; i < DNN_PASSES; i++) {
        if (i == DNN_BY_DATA && !c->by_data) continue;
        c->algorithms[i] = equal->algorithms[i];
        c->workspace[i] = equal->workspace[i];
        c->maths[i] = equal->maths[i];
        DNN_CALL(m, err, cudnnSetConvolutionMathType, (c->conv[i], c->maths[i]));
    }
    return ITER_OK;
}

iter_status iter__cudnn_conv_make(cuda_machine *m, dnn_conv *c, const dnn_images *images,
                                  cuda_numbers numbers, bool by_data, bool any, iter_error *err) {
    const dnn_images *s = images;
    memset(c, 0, sizeof(*c));
    c->by_data = by_data;
    c->math = math_of(numbers);
    ENGINE_TRY(set_images(m, &c->x, numbers, s->n, s->channels, s->height, s->width, err));
    ENGINE_TRY(
        set_images(m, &c->y, numbers, s->n, s->out_channels, s->out_height, s->out_width, err));
    DNN_CALL(m, err, cudnnCreateFilterDescriptor, (&c->w));
    DNN_CALL(m, err, cudnnSetFilter4dDescriptor,
             (c->w, type_of(numbers), format_of(numbers), (int)s->out_channels, (int)s->channels,
              (int)s->size, (int)s->size));
    for (int i = 0; i < DNN_PASSES; i++) {
        DNN_CALL(m, err, cudnnCreateConvolutionDescriptor, (&c->conv[i]));
        DNN_CALL(m, err, cudnnSetConvolution2dDescriptor,
                 (c->conv[i], (int)s->pad, (int)s->pad, (int)s->stride, (int)s->stride, 1, 1,
                  CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
        DNN_CALL(m, err, cudnnSetConvolutionMathType, (c->conv[i], c->math));
    }
    return advise(m, c, any, numbers.type != ENGINE_F32 || numbers.tf32, err);
}

void iter__cudnn_conv_drop(cuda_machine *m, dnn_conv *c) {
    for (int i = 0; i < DNN_PASSES; i++)
        if (c->conv[i]) m->dnn.cudnnDestroyConvolutionDescriptor(c->conv[i]);
    if (c->w) m->dnn.cudnnDestroyFilterDescriptor(c->w);
    if (c->y) m->dnn.cudnnDestroyTensorDescriptor(c->y);
    if (c->x) m->dnn.cudnnDestroyTensorDescriptor(c->x);
    memset(c, 0, sizeof(*c));
}

void iter__cudnn_conv_text(const dnn_conv *c, char *out, size_t capacity) {
    static const char *const names[] = {"gemm without columns",
                                        "gemm with indices",
                                        "gemm",
                                        "direct",
                                        "fft",
                                        "tiled fft",
                                        "winograd",
                                        "winograd in parts"};
    const unsigned forward = c->algorithms[DNN_FORWARD];
    const int n = snprintf(out, capacity, "cuDNN: %s, weights %u",
                           forward < 8 ? names[forward] : "?", c->algorithms[DNN_BY_WEIGHTS]);
    if (c->by_data && n > 0 && (size_t)n < capacity)
        snprintf(out + n, capacity - (size_t)n, ", data %u", c->algorithms[DNN_BY_DATA]);
}

/* ---- Convolution: the passes ----------------------------------------------------------------- */

iter_status iter__cudnn_conv_forward(cuda_machine *m, const dnn_conv *c, CUdeviceptr x,
                                     CUdeviceptr w, CUdeviceptr y, CUdeviceptr workspace,
                                     iter_error *err) {
    DNN_CALL(m, err, cudnnConvolutionForward,
             (m->dnn.handle, &one, c->x, AT(x), c->w, AT(w), c->conv[DNN_FORWARD],
              c->algorithms[DNN_FORWARD], AT(workspace), c->workspace[DNN_FORWARD], &zero, c->y,
              AT(y)));
    return ITER_OK;
}

iter_status iter__cudnn_conv_by_data(cuda_machine *m, const dnn_conv *c, CUdeviceptr w,
                                     CUdeviceptr d_y, CUdeviceptr d_x, CUdeviceptr workspace,
                                     iter_error *err) {
    DNN_CALL(m, err, cudnnConvolutionBackwardData,
             (m->dnn.handle, &one, c->w, AT(w), c->y, AT(d_y), c->conv[DNN_BY_DATA],
              c->algorithms[DNN_BY_DATA], AT(workspace), c->workspace[DNN_BY_DATA], &zero, c->x,
              AT(d_x)));
    return ITER_OK;
}

iter_status iter__cudnn_conv_by_weights(cuda_machine *m, const dnn_conv *c, CUdeviceptr x,
                                        CUdeviceptr d_y, CUdeviceptr d_w, CUdeviceptr workspace,
                                        iter_error *err) {
    DNN_CALL(m, err, cudnnConvolutionBackwardFilter,
             (m->dnn.handle, &one, c->x, AT(x), c->y, AT(d_y), c->conv[DNN_BY_WEIGHTS],
              c->algorithms[DNN_BY_WEIGHTS], AT(workspace), c->workspace[DNN_BY_WEIGHTS], &zero,
              c->w, AT(d_w)));
    return ITER_OK;
}

/* ---- The gru --------------------------------------------------------------------------------- */

/* All sequences have the same length, so "packed" is the plain order [steps, n, features]. */
static iter_status set_steps(cuda_machine *m, cudnnRNNDataDescriptor_t *out, cuda_numbers numbers,
                             int64_t n, int64_t steps, int64_t features, iter_error *err) {
    DNN_CALL(m, err, cudnnCreateRNNDataDescriptor, (out));
    int *lengths = iter__engine_alloc((size_t)n, sizeof(*lengths));
    if (!lengths) return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n; i++)
        lengths[i] = (int)steps;
    const cudnnStatus_t status = m->dnn.cudnnSetRNNDataDescriptor(
        *out, type_of(numbers), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, (int)steps, (int)n,
        (int)features, lengths, NULL);
    iter__engine_free(lengths);
    if (status == CUDNN_STATUS_SUCCESS) return ITER_OK;
    return iter__cudnn_failed(m, err, status, "cudnnSetRNNDataDescriptor");
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* What one algorithm needs; EUNSUPPORTED if cuDNN lacks it for this size or GPU. */
static iter_status describe_gru(cuda_machine *m, dnn_gru *g, cudnnRNNAlgo_t algorithm,
                                int64_t features, int64_t units, cuda_numbers numbers,
                                iter_error *err) {
    DNN_CALL(m, err, cudnnSetRNNDescriptor_v8,
             (g->rnn, algorithm, CUDNN_GRU, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
              CUDNN_LINEAR_INPUT, type_of(numbers), CUDNN_DATA_FLOAT, math_of(numbers),
              (int32_t)features, (int32_t)units, (int32_t)units, 1, g->dropout,
              CUDNN_RNN_PADDED_IO_DISABLED));
    DNN_CALL(m, err, cudnnGetRNNWeightSpaceSize, (m->dnn.handle, g->rnn, &g->weight_bytes));
    size_t plain = 0, nothing = 0;
    DNN_CALL(m, err, cudnnGetRNNTempSpaceSizes,
             (m->dnn.handle, g->rnn, CUDNN_FWD_MODE_INFERENCE, g->x, &plain, &nothing));
    DNN_CALL(m, err, cudnnGetRNNTempSpaceSizes,
             (m->dnn.handle, g->rnn, CUDNN_FWD_MODE_TRAINING, g->x, &g->workspace_bytes,
              &g->reserve_bytes));
    g->workspace_bytes = larger(g->workspace_bytes, plain);
    g->in_one_kernel = algorithm == CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
    return ITER_OK;
}

/* Up to so many units, the state of all steps fits one kernel, forward and backward: on an H100 a
 * step of 64 rows, 150 steps and 100 units takes 1.5 ms instead of 6.1. */
#define UNITS_IN_ONE_KERNEL 128

#define FIRST_WITH_BF16_GRU 91300

iter_status iter__cudnn_gru_make(cuda_machine *m, dnn_gru *g, int64_t n, int64_t steps,
                                 int64_t features, int64_t units, cuda_numbers numbers,
                                 iter_error *err) {
    const int dims[3] = {1, (int)n, (int)units}, strides[3] = {(int)(n * units), (int)units, 1};
    memset(g, 0, sizeof(*g));
    DNN_CALL(m, err, cudnnCreateDropoutDescriptor, (&g->dropout));
    DNN_CALL(m, err, cudnnSetDropoutDescriptor, (g->dropout, m->dnn.handle, 0, NULL, 0, 0));
    DNN_CALL(m, err, cudnnCreateRNNDescriptor, (&g->rnn));
    ENGINE_TRY(set_steps(m, &g->x, numbers, n, steps, features, err));
    ENGINE_TRY(set_steps(m, &g->y, numbers, n, steps, units, err));
    DNN_CALL(m, err, cudnnCreateTensorDescriptor, (&g->h));
    DNN_CALL(m, err, cudnnSetTensorNdDescriptor, (g->h, type_of(numbers), 3, dims, strides));
    iter_status status = ITER_EUNSUPPORTED;
    if (numbers.type == ENGINE_BF16 && m->dnn.version < FIRST_WITH_BF16_GRU)
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "a gru in bf16 needs cuDNN 9.13 or later, here is %zu.%zu",
                                 m->dnn.version / 10000, m->dnn.version / 100 % 100);
    if (units <= UNITS_IN_ONE_KERNEL)
        status = describe_gru(m, g, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, features, units, numbers,
                              err);
    if (status == ITER_EUNSUPPORTED)
        status = describe_gru(m, g, CUDNN_RNN_ALGO_STANDARD, features, units, numbers, err);
    return status;
}

void iter__cudnn_gru_drop(cuda_machine *m, dnn_gru *g) {
    if (g->h) m->dnn.cudnnDestroyTensorDescriptor(g->h);
    if (g->y) m->dnn.cudnnDestroyRNNDataDescriptor(g->y);
    if (g->x) m->dnn.cudnnDestroyRNNDataDescriptor(g->x);
    if (g->rnn) m->dnn.cudnnDestroyRNNDescriptor(g->rnn);
    if (g->dropout) m->dnn.cudnnDestroyDropoutDescriptor(g->dropout);
    memset(g, 0, sizeof(*g));
}

/* Checks cuDNN's description of a matrix: we can only write to dense [1, units, columns]. */
static iter_status check_dense(cuda_machine *m, cudnnTensorDescriptor_t desc, int64_t units,
                               int64_t columns, iter_error *err) {
    cudnnDataType_t type;
    int n = 0, dims[3] = {0}, strides[3] = {0};
    DNN_CALL(m, err, cudnnGetTensorNdDescriptor, (desc, 3, &type, &n, dims, strides));
    if (n == 3 && dims[1] == units && dims[2] == columns && strides[1] == columns &&
        (strides[2] == 1 || columns == 1))
        return ITER_OK;
    return iter__engine_fail(err, ITER_EUNSUPPORTED,
                             "cuDNN keeps a gru's weights [%d, %d] by strides of %d and %d, where "
                             "%lld rows of %lld are expected",
                             dims[1], dims[2], strides[1], strides[2], (long long)units,
                             (long long)columns);
}

iter_status iter__cudnn_gru_place(cuda_machine *m, const dnn_gru *g, CUdeviceptr weights,
                                  int32_t which, int64_t units, int64_t columns, size_t *out_matrix,
                                  size_t *out_bias, iter_error *err) {
    cudnnTensorDescriptor_t matrix = NULL, bias = NULL;
    void *m_at = NULL, *b_at = NULL;
    iter_status status = ITER_OK;
    cudnnStatus_t answer = m->dnn.cudnnCreateTensorDescriptor(&matrix);
    if (answer == CUDNN_STATUS_SUCCESS) answer = m->dnn.cudnnCreateTensorDescriptor(&bias);
    if (answer == CUDNN_STATUS_SUCCESS)
        answer = m->dnn.cudnnGetRNNWeightParams(m->dnn.handle, g->rnn, 0, g->weight_bytes,
                                                AT(weights), which, matrix, &m_at, bias, &b_at);
    if (answer != CUDNN_STATUS_SUCCESS)
        status = iter__cudnn_failed(m, err, answer, "cudnnGetRNNWeightParams");
    else
        status = check_dense(m, matrix, units, columns, err);
    if (matrix) m->dnn.cudnnDestroyTensorDescriptor(matrix);
    if (bias) m->dnn.cudnnDestroyTensorDescriptor(bias);
    if (status < 0) return status;
    *out_matrix = (size_t)((CUdeviceptr)(uintptr_t)m_at - weights);
    *out_bias = (size_t)((CUdeviceptr)(uintptr_t)b_at - weights);
    return ITER_OK;
}

iter_status iter__cudnn_gru_forward(cuda_machine *m, const dnn_gru *g, const dnn_gru_memory *at,
                                    bool training, iter_error *err) {
    DNN_CALL(m, err, cudnnRNNForward,
             (m->dnn.handle, g->rnn, training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
              AT(at->lengths), g->x, AT(at->x), g->y, AT(at->y), g->h, NULL, NULL, NULL, NULL, NULL,
              g->weight_bytes, AT(at->weights), g->workspace_bytes, AT(at->workspace),
              training ? g->reserve_bytes : 0, training ? AT(at->reserve) : NULL));
    return ITER_OK;
}

iter_status iter__cudnn_gru_back(cuda_machine *m, const dnn_gru *g, const dnn_gru_memory *at,
                                 iter_error *err) {
    DNN_CALL(m, err, cudnnRNNBackwardData_v8,
             (m->dnn.handle, g->rnn, AT(at->lengths), g->y, AT(at->y), AT(at->d_y), g->x,
              AT(at->d_x), g->h, NULL, NULL, NULL, NULL, NULL, NULL, NULL, g->weight_bytes,
              AT(at->weights), g->workspace_bytes, AT(at->workspace), g->reserve_bytes,
              AT(at->reserve)));
    DNN_CALL(m, err, cudnnRNNBackwardWeights_v8,
             (m->dnn.handle, g->rnn, CUDNN_WGRAD_MODE_ADD, AT(at->lengths), g->x, AT(at->x), g->h,
              NULL, g->y, AT(at->y), g->weight_bytes, AT(at->d_weights), g->workspace_bytes,
              AT(at->workspace), g->reserve_bytes, AT(at->reserve)));
    return ITER_OK;
}
