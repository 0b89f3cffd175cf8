/*
 * fake_cudnn_gru.c - a gru of one layer by naive loops, with its weights in an order of its own:
 * from the last product to the first, each a bias, a gap, then the matrix.
 *
 *     r = sigmoid(Wr x + br + Rr h + cr)      z = sigmoid(Wz x + bz + Rz h + cz)
 *     n = tanh(Wn x + bn + r * (Rn h + cn))   h' = (1 - z) n + z h
 *
 * The reserve has what forward keeps in training (r, z, n, Rn h + cn), and what the pass by data
 * keeps for the one by weights (gradients of the six sums). The passes must come in this order.
 */
#include <math.h>

#include "tests/fake/fake_cudnn_internal.h"

#define GAP       64 /* bytes */
#define WORKSPACE ((size_t)2048)
#define KEPT      10 /* floats of each unit and step, in the reserve */
#define MARK      12345.0f

typedef struct gru_op {
    struct cudnnRNNStruct rnn;
    int steps, batch;
    bool training;
    const void *x, *y, *dy, *weights;
    void *out; /* y, dx or the weights' gradient */
    float *reserve;
    void *workspace;
} gru_op;

/* ---- Weights --------------------------------------------------------------------------------- */

static size_t number_bytes(const struct cudnnRNNStruct *rnn) {
    return fake_bytes(rnn->type);
}

static int columns_of(const struct cudnnRNNStruct *rnn, int which) {
    return which < 3 ? rnn->input : rnn->units;
}

/* Where a product's matrix begins, after its bias. */
static size_t after_bias(const struct cudnnRNNStruct *rnn) {
    return ((size_t)rnn->units * number_bytes(rnn) + GAP + 15) / 16 * 16;
}

static size_t product_bytes(const struct cudnnRNNStruct *rnn, int which) {
    const size_t matrix = (size_t)rnn->units * (size_t)columns_of(rnn, which) * number_bytes(rnn);
    return (after_bias(rnn) + matrix + 63) / 64 * 64;
}

static size_t bias_at(const struct cudnnRNNStruct *rnn, int which) {
    size_t at = 0;
    for (int i = 5; i > which; i--)
        at += product_bytes(rnn, i);
    return at;
}

static size_t matrix_at(const struct cudnnRNNStruct *rnn, int which) {
    return bias_at(rnn, which) + after_bias(rnn);
}

static double weight(const gru_op *op, int which, int u, int column) {
    return fake_factor((const char *)op->weights + matrix_at(&op->rnn, which),
                       (int64_t)u * columns_of(&op->rnn, which) + column, op->rnn.type,
                       op->rnn.tf32);
}

static double factor(const gru_op *op, const void *from, int64_t at) {
    return fake_factor(from, at, op->rnn.type, op->rnn.tf32);
}

static double bias(const gru_op *op, int which, int u) {
    return fake_number((const char *)op->weights + bias_at(&op->rnn, which), u, op->rnn.type);
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t algo,
                                       cudnnRNNMode_t cell, cudnnRNNBiasMode_t bias_mode,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t precision,
                                       cudnnMathType_t math, int32_t input_size,
                                       int32_t hidden_size, int32_t projection_size,
                                       int32_t n_layers, cudnnDropoutDescriptor_t dropout,
                                       uint32_t flags) {
    BEGIN("cudnnSetRNNDescriptor_v8");
    const bool narrow = type != CUDNN_DATA_FLOAT;
    CHECK(rnn && cell == CUDNN_GRU, "kind");
    CHECK(algo == CUDNN_RNN_ALGO_STANDARD || algo == CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "kind");
    CHECK(bias_mode == CUDNN_RNN_DOUBLE_BIAS && direction == CUDNN_UNIDIRECTIONAL, "kind");
    CHECK(input == CUDNN_LINEAR_INPUT && n_layers == 1 && projection_size == hidden_size, "kind");
    CHECK(precision == CUDNN_DATA_FLOAT && flags == CUDNN_RNN_PADDED_IO_DISABLED, "kind");
    CHECK(narrow ? math == CUDNN_TENSOR_OP_MATH : math != CUDNN_TENSOR_OP_MATH, "arithmetic");
    CHECK(dropout && dropout->set, "dropout");
    *rnn = (struct cudnnRNNStruct){true,
                                   fake__type_of(type),
                                   input_size,
                                   hidden_size,
                                   algo == CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H,
                                   !narrow && math != CUDNN_FMA_MATH};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int steps, int batch,
                                        int features, const int *lengths, void *fill) {
    BEGIN("cudnnSetRNNDataDescriptor");
    CHECK(data && layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED && lengths && !fill, "layout");
    for (int i = 0; i < batch; i++)
        CHECK(lengths[i] == steps, "a length");
    *data = (struct cudnnRNNDataStruct){true, fake__type_of(type), steps, batch, features};
    return CUDNN_STATUS_SUCCESS;
}

#define SMALL_MOST 7 /* units: the fake has it for some of the tests' sizes only */

static size_t reserve_bytes(const struct cudnnRNNStruct *rnn, cudnnRNNDataDescriptor_t x) {
    return ((size_t)x->steps * (size_t)x->batch * (size_t)rnn->units * KEPT + 1) * sizeof(float);
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        size_t *workspace_bytes, size_t *reserved) {
    BEGIN("cudnnGetRNNTempSpaceSizes");
    CHECK(handle && rnn && rnn->set && x && x->set && workspace_bytes && reserved, "null");
    if (rnn->small && rnn->units > SMALL_MOST) return CUDNN_STATUS_NOT_SUPPORTED;
    *workspace_bytes = mode == CUDNN_FWD_MODE_TRAINING ? WORKSPACE : 2 * WORKSPACE;
    *reserved = mode == CUDNN_FWD_MODE_TRAINING ? reserve_bytes(rnn, x) : 0;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                         size_t *bytes) {
    BEGIN("cudnnGetRNNWeightSpaceSize");
    CHECK(handle && rnn && rnn->set, "null");
    *bytes = bias_at(rnn, -1);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, int32_t layer,
                                      size_t space_bytes, const void *space, int32_t linear,
                                      cudnnTensorDescriptor_t m_desc, void **m,
                                      cudnnTensorDescriptor_t b_desc, void **b) {
    BEGIN("cudnnGetRNNWeightParams");
    CHECK(handle && rnn && rnn->set && m_desc && b_desc && m && b, "null");
    CHECK(layer == 0 && linear >= 0 && linear < 6 && space_bytes == bias_at(rnn, -1), "which");
    const int columns = columns_of(rnn, linear);
    *m = (char *)(uintptr_t)space + matrix_at(rnn, linear);
    *b = (char *)(uintptr_t)space + bias_at(rnn, linear);
    *m_desc = (struct cudnnTensorStruct){
        true, rnn->type, 3, {1, rnn->units, columns, 0}, {rnn->units * columns, columns, 1, 0}};
    *b_desc = (struct cudnnTensorStruct){
        true, rnn->type, 3, {1, rnn->units, 1, 0}, {rnn->units, 1, 1, 0}};
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Forward --------------------------------------------------------------------------------- */

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* Sum `which` of unit u: over x (0 to 2) or over h (3 to 5; at < 0: zeros). */
static double sum_of(const gru_op *op, int which, int u, const void *from, int64_t at) {
    double sum = bias(op, which, u);
    for (int i = 0; at >= 0 && i < columns_of(&op->rnn, which); i++)
        sum += weight(op, which, u, i) * factor(op, from, at + i);
    return sum;
}

static float *kept(const gru_op *op, int what, int64_t at) {
    const int64_t n = (int64_t)op->steps * op->batch * op->rnn.units;
    return op->reserve + 1 + what * n + at;
}

/* The gradient of a sum, as a factor. */
static double kept_factor(const gru_op *op, int what, int64_t at) {
    const double number = (double)*kept(op, what, at);
    return op->rnn.tf32 ? fake_tf32(number) : number;
}

static void run_forward(void *state) {
    const gru_op *op = state;
    const int units = op->rnn.units, rows = op->batch;
    memset(op->workspace, 0xff, WORKSPACE);
    for (int64_t t = 0; t < op->steps; t++)
        for (int64_t row = 0; row < rows; row++)
            for (int u = 0; u < units; u++) {
                const int64_t x = (t * rows + row) * op->rnn.input, at = (t * rows + row) * units;
                const int64_t h = t > 0 ? ((t - 1) * rows + row) * units : -1;
                const double r = sigmoid(sum_of(op, 0, u, op->x, x) + sum_of(op, 3, u, op->out, h));
                const double z = sigmoid(sum_of(op, 1, u, op->x, x) + sum_of(op, 4, u, op->out, h));
                const double q = sum_of(op, 5, u, op->out, h);
                const double n = tanh(sum_of(op, 2, u, op->x, x) + r * q);
                const double before = h >= 0 ? fake_number(op->out, h + u, op->rnn.type) : 0;
                fake_put(op->out, at + u, (1 - z) * n + z * before, op->rnn.type);
                if (!op->training) continue;
                *kept(op, 0, at + u) = (float)r;
                *kept(op, 1, at + u) = (float)z;
                *kept(op, 2, at + u) = (float)n;
                *kept(op, 3, at + u) = (float)q;
            }
    if (op->training) op->reserve[0] = MARK;
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* Gradients of the sums of one row and step; d_h: of the state after it. Sums 4 to 6 are over x, 7
 * to 9 over h. */
static void back_sums(const gru_op *op, int64_t t, int64_t row, const double *d_h) {
    const int units = op->rnn.units;
    const int64_t at = (t * op->batch + row) * units;
    for (int u = 0; u < units; u++) {
        const double r = (double)*kept(op, 0, at + u), z = (double)*kept(op, 1, at + u);
        const double n = (double)*kept(op, 2, at + u), q = (double)*kept(op, 3, at + u);
        const double before =
            t > 0 ? fake_number(op->y, at - (int64_t)op->batch * units + u, op->rnn.type) : 0;
        const double d_n = d_h[u] * (1 - z) * (1 - n * n);
        const double d_z = d_h[u] * (before - n) * z * (1 - z);
        const double d_r = d_n * q * r * (1 - r);
        *kept(op, 4, at + u) = *kept(op, 7, at + u) = (float)d_r;
        *kept(op, 5, at + u) = *kept(op, 8, at + u) = (float)d_z;
        *kept(op, 6, at + u) = (float)d_n;
        *kept(op, 9, at + u) = (float)(d_n * r);
    }
}

static void run_by_data(void *state) {
    const gru_op *op = state;
    const int units = op->rnn.units;
    double *d_h = calloc((size_t)units * 2, sizeof(*d_h)), *d_before = d_h + units;
    memset(op->workspace, 0xff, WORKSPACE);
    if (op->reserve[0] != MARK) fprintf(stderr, "a gru goes back that did not go forward\n");
    for (int64_t row = 0; row < op->batch; row++) {
        memset(d_before, 0, (size_t)units * sizeof(*d_before));
        for (int64_t t = op->steps - 1; t >= 0; t--) {
            const int64_t at = (t * op->batch + row) * units;
            for (int u = 0; u < units; u++)
                d_h[u] = d_before[u] + fake_number(op->dy, at + u, op->rnn.type);
            back_sums(op, t, row, d_h);
            for (int i = 0; i < units; i++) {
                d_before[i] = d_h[i] * (double)*kept(op, 1, at + i);
                for (int u = 0; u < units; u++)
                    for (int gate = 0; gate < 3; gate++)
                        d_before[i] +=
                            kept_factor(op, 7 + gate, at + u) * weight(op, 3 + gate, u, i);
            }
            for (int i = 0; i < op->rnn.input; i++) {
                double sum = 0;
                for (int u = 0; u < units; u++)
                    for (int gate = 0; gate < 3; gate++)
                        sum += kept_factor(op, 4 + gate, at + u) * weight(op, gate, u, i);
                fake_put(op->out, (t * op->batch + row) * op->rnn.input + i, sum, op->rnn.type);
            }
        }
    }
    op->reserve[0] = MARK + 1;
    free(d_h);
}

static void add(void *to, int64_t at, double value, engine_type type) {
    fake_put(to, at, value + fake_number(to, at, type), type);
}

static void run_by_weights(void *state) {
    const gru_op *op = state;
    const int units = op->rnn.units;
    const int64_t n = (int64_t)op->steps * op->batch;
    memset(op->workspace, 0xff, WORKSPACE);
    if (op->reserve[0] != MARK + 1) fprintf(stderr, "the pass by weights comes last\n");
    for (int which = 0; which < 6; which++)
        for (int u = 0; u < units; u++) {
            const int columns = columns_of(&op->rnn, which);
            char *base = op->out;
            double sum = 0;
            for (int64_t at = 0; at < n; at++)
                sum += (double)*kept(op, 4 + which, at * units + u);
            add(base + bias_at(&op->rnn, which), u, sum, op->rnn.type);
            for (int i = 0; i < columns; i++) {
                sum = 0;
                for (int64_t at = which < 3 ? 0 : op->batch; at < n; at++)
                    sum += kept_factor(op, 4 + which, at * units + u) *
                           (which < 3 ? factor(op, op->x, at * columns + i)
                                      : factor(op, op->y, (at - op->batch) * columns + i));
                add(base + matrix_at(&op->rnn, which), (int64_t)u * columns + i, sum, op->rnn.type);
            }
        }
    op->reserve[0] = 0;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static size_t data_bytes(cudnnRNNDataDescriptor_t data) {
    return (size_t)data->steps * (size_t)data->batch * (size_t)data->features *
           (fake_bytes(data->type));
}

static cudnnStatus_t check_gru(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                               const int32_t *lengths, cudnnRNNDataDescriptor_t x,
                               cudnnRNNDataDescriptor_t y, cudnnTensorDescriptor_t h,
                               size_t weight_bytes) {
    CHECK(handle && rnn && rnn->set && x && x->set && y && y->set && h && h->set, "null");
    CHECK(x->features == rnn->input && y->features == rnn->units, "features");
    CHECK(x->steps == y->steps && x->batch == y->batch, "steps");
    CHECK(h->n_dims == 3 && h->dims[0] == 1 && h->dims[1] == x->batch && h->dims[2] == rnn->units,
          "the state");
    CHECK(x->type == rnn->type && y->type == rnn->type && h->type == rnn->type, "types");
    CHECK(weight_bytes == bias_at(rnn, -1), "the weights' size");
    CHECK_MEMORY(lengths, (size_t)x->batch * sizeof(int32_t));
    return CUDNN_STATUS_SUCCESS;
}

#define TRY(expr)                                          \
    do {                                                   \
        const cudnnStatus_t tried_ = (expr);               \
        if (tried_ != CUDNN_STATUS_SUCCESS) return tried_; \
    } while (0)

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                              cudnnForwardMode_t mode, const int32_t *lengths,
                              cudnnRNNDataDescriptor_t x_desc, const void *x,
                              cudnnRNNDataDescriptor_t y_desc, void *y,
                              cudnnTensorDescriptor_t h_desc, const void *hx, void *hy,
                              cudnnTensorDescriptor_t c_desc, const void *cx, void *cy,
                              size_t weight_bytes, const void *weights, size_t workspace_bytes,
                              void *workspace, size_t reserved, void *reserve) {
    BEGIN("cudnnRNNForward");
    const bool training = mode == CUDNN_FWD_MODE_TRAINING;
    TRY(check_gru(handle, rnn, lengths, x_desc, y_desc, h_desc, weight_bytes));
    CHECK(!hx && !hy && !c_desc && !cx && !cy, "states");
    CHECK(workspace_bytes >= (training ? WORKSPACE : 2 * WORKSPACE), "workspace");
    CHECK_MEMORY(workspace, workspace_bytes);
    CHECK_MEMORY(weights, weight_bytes);
    CHECK_MEMORY(x, data_bytes(x_desc));
    CHECK_MEMORY(y, data_bytes(y_desc));
    CHECK(reserved == (training ? reserve_bytes(rnn, x_desc) : 0), "the reserve's size");
    if (training) CHECK_MEMORY(reserve, reserved);
    const gru_op op = {.rnn = *rnn,
                       .steps = x_desc->steps,
                       .batch = x_desc->batch,
                       .training = training,
                       .x = x,
                       .weights = weights,
                       .out = y,
                       .reserve = reserve,
                       .workspace = workspace};
    return fake__dnn_launch(handle, run_forward, &op, sizeof(op));
}

cudnnStatus_t cudnnRNNBackwardData_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, const int32_t *lengths,
    cudnnRNNDataDescriptor_t y_desc, const void *y, const void *dy, cudnnRNNDataDescriptor_t x_desc,
    void *dx, cudnnTensorDescriptor_t h_desc, const void *hx, const void *dhy, void *dhx,
    cudnnTensorDescriptor_t c_desc, const void *cx, const void *dcy, void *dcx, size_t weight_bytes,
    const void *weights, size_t workspace_bytes, void *workspace, size_t reserved, void *reserve) {
    BEGIN("cudnnRNNBackwardData_v8");
    TRY(check_gru(handle, rnn, lengths, x_desc, y_desc, h_desc, weight_bytes));
    CHECK(!hx && !dhy && !dhx && !c_desc && !cx && !dcy && !dcx, "states");
    CHECK(workspace_bytes >= WORKSPACE && reserved == reserve_bytes(rnn, x_desc), "sizes");
    CHECK_MEMORY(workspace, workspace_bytes);
    CHECK_MEMORY(reserve, reserved);
    CHECK_MEMORY(weights, weight_bytes);
    CHECK_MEMORY(y, data_bytes(y_desc));
    CHECK_MEMORY(dy, data_bytes(y_desc));
    CHECK_MEMORY(dx, data_bytes(x_desc));
    const gru_op op = {.rnn = *rnn,
                       .steps = x_desc->steps,
                       .batch = x_desc->batch,
                       .y = y,
                       .dy = dy,
                       .weights = weights,
                       .out = dx,
                       .reserve = reserve,
                       .workspace = workspace};
    return fake__dnn_launch(handle, run_by_data, &op, sizeof(op));
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnWgradMode_t mode, const int32_t *lengths,
    cudnnRNNDataDescriptor_t x_desc, const void *x, cudnnTensorDescriptor_t h_desc, const void *hx,
    cudnnRNNDataDescriptor_t y_desc, const void *y, size_t weight_bytes, void *d_weights,
    size_t workspace_bytes, void *workspace, size_t reserved, void *reserve) {
    BEGIN("cudnnRNNBackwardWeights_v8");
    TRY(check_gru(handle, rnn, lengths, x_desc, y_desc, h_desc, weight_bytes));
    CHECK(!hx && mode == CUDNN_WGRAD_MODE_ADD, "mode");
    CHECK(workspace_bytes >= WORKSPACE && reserved == reserve_bytes(rnn, x_desc), "sizes");
    CHECK_MEMORY(workspace, workspace_bytes);
    CHECK_MEMORY(reserve, reserved);
    CHECK_MEMORY(d_weights, weight_bytes);
    CHECK_MEMORY(x, data_bytes(x_desc));
    CHECK_MEMORY(y, data_bytes(y_desc));
    const gru_op op = {.rnn = *rnn,
                       .steps = x_desc->steps,
                       .batch = x_desc->batch,
                       .x = x,
                       .y = y,
                       .out = d_weights,
                       .reserve = reserve,
                       .workspace = workspace};
    return fake__dnn_launch(handle, run_by_weights, &op, sizeof(op));
}
