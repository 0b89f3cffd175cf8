/*
 * fake_cudnn_images.c - convolution by naive loops, and the choice of
 * algorithms.
 *
 * It offers these algorithms, best first: one that is not deterministic, one that does not work,
 * one whose workspace is too large, and one that can be used. If a call has another one, or less
 * workspace than was reported, it is refused.
 */
#include <math.h>

#include "tests/fake/fake_cudnn_internal.h"

#define GOOD           1 /* deterministic */
#define FAST           0
#define GOOD_WORKSPACE ((size_t)4096)

typedef struct conv_op {
    struct cudnnTensorStruct x_desc, y_desc;
    struct cudnnFilterStruct w_desc;
    struct cudnnConvolutionStruct conv;
    const void *x, *w, *y; /* y: the gradient, backward */
    void *out, *workspace;
    size_t workspace_bytes;
} conv_op;

/* ---- Loops ----------------------------------------------------------------------------------- */

static int64_t at4(const struct cudnnTensorStruct *t, int64_t n, int64_t c, int64_t h, int64_t w) {
    return n * t->strides[0] + c * t->strides[1] + h * t->strides[2] + w * t->strides[3];
}

static int64_t weight_at(const struct cudnnFilterStruct *f, int64_t k, int64_t c, int64_t h,
                         int64_t w) {
    return f->last ? ((k * f->h + h) * f->w + w) * f->c + c
                   : ((k * f->c + c) * f->h + h) * f->w + w;
}

static void spoil(const conv_op *op) {
    memset(op->workspace, 0xff, op->workspace_bytes);
}

/* The numbers that are multiplied; NULL = the tensor is the result. */
typedef struct factors {
    double *x, *w, *y;
} factors;

/* Adds a product, of which it gets the places in the three tensors. */
typedef void add_product(double *sums, const factors *f, int64_t x, int64_t w, int64_t y);

static void over_products(const conv_op *op, add_product *add, const factors *f, double *sums) {
    const int *xd = op->x_desc.dims, *yd = op->y_desc.dims;
    for (int64_t n = 0; n < yd[0]; n++)
        for (int64_t k = 0; k < yd[1]; k++)
            for (int64_t oh = 0; oh < yd[2]; oh++)
                for (int64_t ow = 0; ow < yd[3]; ow++) {
                    const int64_t y = at4(&op->y_desc, n, k, oh, ow);
                    for (int64_t h = 0; h < op->w_desc.h; h++)
                        for (int64_t w = 0; w < op->w_desc.w; w++) {
                            const int64_t ih = oh * op->conv.stride_h + h - op->conv.pad_h;
                            const int64_t iw = ow * op->conv.stride_w + w - op->conv.pad_w;
                            if (ih < 0 || iw < 0 || ih >= xd[2] || iw >= xd[3]) continue;
                            for (int64_t c = 0; c < xd[1]; c++)
                                add(sums, f, at4(&op->x_desc, n, c, ih, iw),
                                    weight_at(&op->w_desc, k, c, h, w), y);
                        }
                }
}

static size_t filter_bytes(const struct cudnnFilterStruct *f) {
    return (size_t)f->k * (size_t)f->c * (size_t)f->h * (size_t)f->w * fake_bytes(f->type);
}

static void to_y(double *sums, const factors *f, int64_t x, int64_t w, int64_t y) {
    sums[y] += f->x[x] * f->w[w];
}

static void to_x(double *sums, const factors *f, int64_t x, int64_t w, int64_t y) {
    sums[x] += f->y[y] * f->w[w];
}

static void to_w(double *sums, const factors *f, int64_t x, int64_t w, int64_t y) {
    sums[w] += f->x[x] * f->y[y];
}

/* CUDNN_DEFAULT_MATH lets f32 be TF32. */
static double *factors_of(const conv_op *op, const void *at, size_t bytes) {
    const engine_type type = op->x_desc.type;
    const int64_t n = at ? (int64_t)(bytes / fake_bytes(type)) : 0;
    double *out = at ? malloc((size_t)n * sizeof(*out)) : NULL;
    for (int64_t i = 0; i < n; i++)
        out[i] = fake_factor(at, i, type, type == ENGINE_F32 && op->conv.math != CUDNN_FMA_MATH);
    return out;
}

static void run_sums(const conv_op *op, size_t out_bytes, add_product *add) {
    const engine_type type = op->x_desc.type;
    const size_t n = out_bytes / fake_bytes(type);
    const factors f = {.x = factors_of(op, op->x, fake__tensor_bytes(&op->x_desc)),
                       .w = factors_of(op, op->w, filter_bytes(&op->w_desc)),
                       .y = factors_of(op, op->y, fake__tensor_bytes(&op->y_desc))};
    double *sums = calloc(n, sizeof(*sums));
    spoil(op);
    over_products(op, add, &f, sums);
    for (size_t i = 0; i < n; i++)
        fake_put(op->out, (int64_t)i, sums[i], type);
    free(sums);
    free(f.x);
    free(f.w);
    free(f.y);
}

static void run_forward(void *state) {
    const conv_op *op = state;
    run_sums(op, fake__tensor_bytes(&op->y_desc), to_y);
}

static void run_by_data(void *state) {
    const conv_op *op = state;
    run_sums(op, fake__tensor_bytes(&op->x_desc), to_x);
}

static void run_by_filter(void *state) {
    const conv_op *op = state;
    run_sums(op, filter_bytes(&op->w_desc), to_w);
}

/* ---- Algorithms ------------------------------------------------------------------------------ */

static cudnnStatus_t check_shapes(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                  cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
                                  cudnnTensorDescriptor_t y) {
    CHECK(handle && x && w && conv && y, "null");
    CHECK(x->set && w->set && conv->set && y->set, "a descriptor that was not set");
    CHECK(x->type == w->type && x->type == y->type, "types");
    CHECK((x->strides[1] == 1 && x->dims[1] > 1) == (w->last && x->dims[1] > 1) ||
              x->dims[2] * x->dims[3] == 1,
          "formats");
    CHECK(x->dims[0] == y->dims[0] && x->dims[1] == w->c && y->dims[1] == w->k, "channels");
    CHECK(y->dims[2] == (x->dims[2] + 2 * conv->pad_h - w->h) / conv->stride_h + 1, "height");
    CHECK(y->dims[3] == (x->dims[3] + 2 * conv->pad_w - w->w) / conv->stride_w + 1, "width");
    CHECK(x->type == ENGINE_F32 || conv->math == CUDNN_TENSOR_OP_MATH, "f16 is for tensor cores");
    CHECK(!w->last || w->c % 8 == 0, "tensor cores want channels by 8");
    return CUDNN_STATUS_SUCCESS;
}

static void offer(cudnnConvolutionDescriptor_t conv, int capacity, int *n,
                  cudnnConvolutionFwdAlgoPerf_t *found) {
    const cudnnConvolutionFwdAlgoPerf_t all[] = {
        {.algo = FAST, .time = 1, .memory = 64, .mathType = conv->math},
        {.algo = 5, .status = CUDNN_STATUS_NOT_SUPPORTED, .determinism = CUDNN_DETERMINISTIC},
        {.algo = 4, .memory = (size_t)1 << 40, .determinism = CUDNN_DETERMINISTIC},
        {.algo = GOOD,
         .time = 2,
         .memory = GOOD_WORKSPACE,
         .determinism = CUDNN_DETERMINISTIC,
         .mathType = conv->math},
    };
    for (*n = 0; *n < capacity && *n < 4; (*n)++)
        found[*n] = all[*n];
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle,
                                                     cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t conv,
                                                     cudnnTensorDescriptor_t y, int capacity,
                                                     int *n, cudnnConvolutionFwdAlgoPerf_t *found) {
    BEGIN("cudnnGetConvolutionForwardAlgorithm_v7");
    const cudnnStatus_t status = check_shapes(handle, x, w, conv, y);
    if (status == CUDNN_STATUS_SUCCESS) offer(conv, capacity, n, found);
    return status;
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, int capacity, int *n,
    cudnnConvolutionBwdDataAlgoPerf_t *found) {
    BEGIN("cudnnGetConvolutionBackwardDataAlgorithm_v7");
    const cudnnStatus_t status = check_shapes(handle, dx, w, conv, dy);
    if (status == CUDNN_STATUS_SUCCESS) offer(conv, capacity, n, found);
    return status;
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, int capacity, int *n,
    cudnnConvolutionBwdFilterAlgoPerf_t *found) {
    BEGIN("cudnnGetConvolutionBackwardFilterAlgorithm_v7");
    const cudnnStatus_t status = check_shapes(handle, x, dw, conv, dy);
    if (status == CUDNN_STATUS_SUCCESS) offer(conv, capacity, n, found);
    return status;
}

typedef struct trial {
    void *out, *workspace;
    size_t bytes, workspace_bytes;
} trial;

/* A trial leaves garbage in its output and workspace. */
static void run_trial(void *state) {
    const trial *t = state;
    memset(t->out, 0xff, t->bytes);
    memset(t->workspace, 0xff, t->workspace_bytes);
}

/* Checks everything that measuring reads and writes; `out` is overwritten. */
static cudnnStatus_t try_all(cudnnHandle_t handle, const conv_op *op, size_t out_bytes,
                             cudnnConvolutionDescriptor_t conv, int capacity, int *n,
                             cudnnConvolutionFwdAlgoPerf_t *found) {
    const trial t = {op->out, op->workspace, out_bytes, op->workspace_bytes};
    CHECK_MEMORY(op->out, out_bytes);
    CHECK_MEMORY(op->workspace, op->workspace_bytes);
    CHECK(op->workspace_bytes >= GOOD_WORKSPACE, "workspace");
    offer(conv, capacity, n, found);
    return fake__dnn_launch(handle, run_trial, &t, sizeof(t));
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x_desc, const void *x,
    cudnnFilterDescriptor_t w_desc, const void *w, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t y_desc, void *y, int capacity, int *n,
    cudnnConvolutionFwdAlgoPerf_t *found, void *workspace, size_t workspace_bytes) {
    BEGIN("cudnnFindConvolutionForwardAlgorithmEx");
    const cudnnStatus_t status = check_shapes(handle, x_desc, w_desc, conv, y_desc);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    CHECK_MEMORY(x, fake__tensor_bytes(x_desc));
    CHECK_MEMORY(w, filter_bytes(w_desc));
    const conv_op op = {.out = y, .workspace = workspace, .workspace_bytes = workspace_bytes};
    return try_all(handle, &op, fake__tensor_bytes(y_desc), conv, capacity, n, found);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w_desc, const void *w,
    cudnnTensorDescriptor_t dy_desc, const void *dy, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t dx_desc, void *dx, int capacity, int *n,
    cudnnConvolutionBwdDataAlgoPerf_t *found, void *workspace, size_t workspace_bytes) {
    BEGIN("cudnnFindConvolutionBackwardDataAlgorithmEx");
    const cudnnStatus_t status = check_shapes(handle, dx_desc, w_desc, conv, dy_desc);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    CHECK_MEMORY(dy, fake__tensor_bytes(dy_desc));
    CHECK_MEMORY(w, filter_bytes(w_desc));
    const conv_op op = {.out = dx, .workspace = workspace, .workspace_bytes = workspace_bytes};
    return try_all(handle, &op, fake__tensor_bytes(dx_desc), conv, capacity, n, found);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x_desc, const void *x,
    cudnnTensorDescriptor_t dy_desc, const void *dy, cudnnConvolutionDescriptor_t conv,
    cudnnFilterDescriptor_t dw_desc, void *dw, int capacity, int *n,
    cudnnConvolutionBwdFilterAlgoPerf_t *found, void *workspace, size_t workspace_bytes) {
    BEGIN("cudnnFindConvolutionBackwardFilterAlgorithmEx");
    const cudnnStatus_t status = check_shapes(handle, x_desc, dw_desc, conv, dy_desc);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    CHECK_MEMORY(x, fake__tensor_bytes(x_desc));
    CHECK_MEMORY(dy, fake__tensor_bytes(dy_desc));
    const conv_op op = {.out = dw, .workspace = workspace, .workspace_bytes = workspace_bytes};
    return try_all(handle, &op, filter_bytes(dw_desc), conv, capacity, n, found);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static cudnnStatus_t check_plain(const void *alpha, const void *beta) {
    float one = 0, zero = 1;
    CHECK(alpha && beta, "null");
    memcpy(&one, alpha, sizeof(one));
    memcpy(&zero, beta, sizeof(zero));
    CHECK(one == 1 && zero == 0, "alpha or beta");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_algorithm(unsigned algo, const void *workspace, size_t bytes) {
    CHECK(algo == GOOD || algo == FAST, "the algorithm");
    CHECK(bytes == (algo == GOOD ? GOOD_WORKSPACE : 64), "the workspace's size");
    CHECK_MEMORY(workspace, bytes);
    return CUDNN_STATUS_SUCCESS;
}

#define TRY(expr)                                          \
    do {                                                   \
        const cudnnStatus_t tried_ = (expr);               \
        if (tried_ != CUDNN_STATUS_SUCCESS) return tried_; \
    } while (0)

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      cudnnTensorDescriptor_t x_desc, const void *x,
                                      cudnnFilterDescriptor_t w_desc, const void *w,
                                      cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algo, void *workspace,
                                      size_t workspace_bytes, const void *beta,
                                      cudnnTensorDescriptor_t y_desc, void *y) {
    BEGIN("cudnnConvolutionForward");
    TRY(check_shapes(handle, x_desc, w_desc, conv, y_desc));
    TRY(check_plain(alpha, beta));
    TRY(check_algorithm(algo, workspace, workspace_bytes));
    CHECK_MEMORY(x, fake__tensor_bytes(x_desc));
    CHECK_MEMORY(w, filter_bytes(w_desc));
    CHECK_MEMORY(y, fake__tensor_bytes(y_desc));
    const conv_op op = {*x_desc, *y_desc, *w_desc, *conv,     x,
                        w,       NULL,    y,       workspace, workspace_bytes};
    return fake__dnn_launch(handle, run_forward, &op, sizeof(op));
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           cudnnFilterDescriptor_t w_desc, const void *w,
                                           cudnnTensorDescriptor_t dy_desc, const void *dy,
                                           cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algo, void *workspace,
                                           size_t workspace_bytes, const void *beta,
                                           cudnnTensorDescriptor_t dx_desc, void *dx) {
    BEGIN("cudnnConvolutionBackwardData");
    TRY(check_shapes(handle, dx_desc, w_desc, conv, dy_desc));
    TRY(check_plain(alpha, beta));
    TRY(check_algorithm(algo, workspace, workspace_bytes));
    CHECK_MEMORY(dx, fake__tensor_bytes(dx_desc));
    CHECK_MEMORY(w, filter_bytes(w_desc));
    CHECK_MEMORY(dy, fake__tensor_bytes(dy_desc));
    const conv_op op = {*dx_desc, *dy_desc, *w_desc, *conv,     NULL,
                        w,        dy,       dx,      workspace, workspace_bytes};
    return fake__dnn_launch(handle, run_by_data, &op, sizeof(op));
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             cudnnTensorDescriptor_t x_desc, const void *x,
                                             cudnnTensorDescriptor_t dy_desc, const void *dy,
                                             cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void *workspace,
                                             size_t workspace_bytes, const void *beta,
                                             cudnnFilterDescriptor_t dw_desc, void *dw) {
    BEGIN("cudnnConvolutionBackwardFilter");
    TRY(check_shapes(handle, x_desc, dw_desc, conv, dy_desc));
    TRY(check_plain(alpha, beta));
    TRY(check_algorithm(algo, workspace, workspace_bytes));
    CHECK_MEMORY(x, fake__tensor_bytes(x_desc));
    CHECK_MEMORY(dw, filter_bytes(dw_desc));
    CHECK_MEMORY(dy, fake__tensor_bytes(dy_desc));
    const conv_op op = {*x_desc, *dy_desc, *dw_desc, *conv,     x,
                        NULL,    dy,       dw,       workspace, workspace_bytes};
    return fake__dnn_launch(handle, run_by_filter, &op, sizeof(op));
}
