/*
 * layer_tables.c - every layer and optimiser with its options, as rows.
 *
 * If 0 is out of bounds but the default is 0, the option is required: iter__layer_check() asks for
 * it.
 */
#include <stddef.h>

#include <iter/option_rows.h>
#include <iter/stages.h>

#include "engine/engine_error.h"
#include "engine/layer_tables.h"
#include "engine/optimizer.h"

#define CHANNELS_MAX 65536
#define UNITS_MAX    (1 << 20)
#define WINDOW_MAX   1024
#define ROWS_MAX     2147483647 /* ids are i32 */
#define RATE_MAX     1e6

#define INIT_ROWS(type)                                                                           \
    ITER_ROW_CHOICE("init", "how weights begin", type, init, "glorot|he|uniform"),                \
        ITER_ROW_DOUBLE("init-range", "of init=uniform: weights in +- this", type, init_range, 0, \
                        RATE_MAX, 0)
/* ---- Layers ---------------------------------------------------------------------------------- */

static const iter_option conv2d_rows[] = {
    ITER_ROW_INT("channels", "of the output", iter_conv2d_options, channels, 1, CHANNELS_MAX, 1),
    ITER_ROW_INT("kernel", "height and width", iter_conv2d_options, kernel, 1, WINDOW_MAX, 2),
    ITER_ROW_INT("stride", "from one place to the next", iter_conv2d_options, stride, 1, WINDOW_MAX,
                 0),
    ITER_ROW_INT("pad", "zeros on every side", iter_conv2d_options, pad, 0, WINDOW_MAX, 0),
    ITER_ROW_BOOL("bias", "adds one number a channel", iter_conv2d_options, bias),
    INIT_ROWS(iter_conv2d_options),
    ITER_ROW_END,
};
static const iter_conv2d_options conv2d_defaults = {.kernel = 3, .stride = 1, .bias = true};

static const iter_option pool_rows[] = {
    ITER_ROW_INT("size", "height and width of a window", iter_pool_options, size, 1, WINDOW_MAX, 1),
    ITER_ROW_INT("stride", "from one window to the next; 0 = size", iter_pool_options, stride, 0,
                 WINDOW_MAX, 0),
    ITER_ROW_INT("pad", "on every side, less than size", iter_pool_options, pad, 0, WINDOW_MAX - 1,
                 0),
    ITER_ROW_END,
};

static const iter_option dropout_rows[] = {
    ITER_ROW_DOUBLE("p", "share that is zeroed, below 1", iter_dropout_options, p, 0, 1, 1),
    ITER_ROW_END,
};

static const iter_option dense_rows[] = {
    ITER_ROW_INT("units", "features of the output", iter_dense_options, units, 1, UNITS_MAX, 1),
    ITER_ROW_BOOL("bias", "adds one number a unit", iter_dense_options, bias),
    INIT_ROWS(iter_dense_options),
    ITER_ROW_END,
};
static const iter_dense_options dense_defaults = {.bias = true};

static const iter_option embedding_rows[] = {
    ITER_ROW_INT("rows", "ids are 0 to rows - 1", iter_embedding_options, rows, 1, ROWS_MAX, 1),
    ITER_ROW_INT("units", "features of a row", iter_embedding_options, units, 1, UNITS_MAX, 2),
    INIT_ROWS(iter_embedding_options),
    ITER_ROW_END,
};

static const iter_option gru_rows[] = {
    ITER_ROW_INT("units", "features of the state", iter_gru_options, units, 1, UNITS_MAX, 1),
    ITER_ROW_CHOICE("reset", "the reset gate works after or before the product", iter_gru_options,
                    reset, "after|before"),
    ITER_ROW_BOOL("segments", "the state is zeros again where the batch's segments change",
                  iter_gru_options, segments),
    INIT_ROWS(iter_gru_options),
    ITER_ROW_END,
};

#define TABLE(text, rows, start, size, what)                                          \
    &(const iter_ops) {                                                               \
        .struct_size = sizeof(iter_ops), .name = text, .help = what, .options = rows, \
        .defaults = start, .options_size = size                                       \
    }

const iter_ops *const iter__layer_tables[ENGINE_N_KINDS] = {
    [ENGINE_CONV2D] = TABLE("conv2d", conv2d_rows, &conv2d_defaults, sizeof(iter_conv2d_options),
                            "convolution of images with zero padding"),
    [ENGINE_MAXPOOL] = TABLE("maxpool", pool_rows, NULL, sizeof(iter_pool_options),
                             "largest value of every window"),
    [ENGINE_AVGPOOL] = TABLE("avgpool", pool_rows, NULL, sizeof(iter_pool_options),
                             "mean of every window, of what lies inside"),
    [ENGINE_RELU] = TABLE("relu", NULL, NULL, 0, "max(x, 0)"),
    [ENGINE_TANH] = TABLE("tanh", NULL, NULL, 0, "tanh(x)"),
    [ENGINE_SIGMOID] = TABLE("sigmoid", NULL, NULL, 0, "1 / (1 + exp(-x))"),
    [ENGINE_DROPOUT] = TABLE("dropout", dropout_rows, NULL, sizeof(iter_dropout_options),
                             "zero with probability p, else times 1 / (1 - p)"),
    [ENGINE_FLATTEN] = TABLE("flatten", NULL, NULL, 0, "one row of features, in the order C, H, W"),
    [ENGINE_DENSE] = TABLE("dense", dense_rows, &dense_defaults, sizeof(iter_dense_options),
                           "product with a matrix"),
    [ENGINE_EMBEDDING] = TABLE("embedding", embedding_rows, NULL, sizeof(iter_embedding_options),
                               "a row of a table for every id"),
    [ENGINE_GRU] = TABLE("gru", gru_rows, NULL, sizeof(iter_gru_options), "gated recurrent unit"),
    [ENGINE_LAST_STEP] = TABLE("last-step", NULL, NULL, 0, "features of the last step"),
    [ENGINE_MEAN_STEPS] = TABLE("mean-steps", NULL, NULL, 0, "mean over the steps"),
    [ENGINE_SOFTMAX_CROSS_ENTROPY] =
        TABLE("softmax-cross-entropy", NULL, NULL, 0, "loss of a classifier"),
    [ENGINE_MSE] = TABLE("mse", NULL, NULL, 0, "loss: mean squared difference"),
    [ENGINE_L2] = TABLE("l2", NULL, NULL, 0, "loss: half of the mean squared difference"),
    [ENGINE_TIED_SOFTMAX] = TABLE("tied-softmax", NULL, NULL, 0,
                                  "loss of a language model, with the embedding's weights"),
};

static iter_status missing(engine_kind kind, const char *option, iter_error *err) {
    return iter__engine_fail(err, ITER_EINVAL, "%s: %s is required", iter__layer_tables[kind]->name,
                             option);
}

static iter_status check_init(engine_kind kind, int32_t init, double range, iter_error *err) {
    if (init != ITER_INIT_UNIFORM || range > 0) return ITER_OK;
    return iter__engine_fail(err, ITER_EINVAL, "%s: init=uniform needs init-range above 0",
                             iter__layer_tables[kind]->name);
}

iter_status iter__layer_check(engine_kind kind, const engine_layer_options *o, iter_error *err) {
    if (iter__layer_tables[kind]->options_size)
        ENGINE_TRY(iter_stage_check(iter__layer_tables[kind], o, err));
    switch (kind) {
    case ENGINE_CONV2D:
        if (!o->conv2d.channels) return missing(kind, "channels", err);
        return check_init(kind, o->conv2d.init, o->conv2d.init_range, err);
    case ENGINE_MAXPOOL:
    case ENGINE_AVGPOOL:
        if (!o->pool.size) return missing(kind, "size", err);
        if (o->pool.pad < o->pool.size) return ITER_OK;
        return iter__engine_fail(
            err, ITER_EINVAL, "%s: pad is %lld, it must be less than size, %lld",
            iter__layer_tables[kind]->name, (long long)o->pool.pad, (long long)o->pool.size);
    case ENGINE_DROPOUT:
        if (o->dropout.p < 1) return ITER_OK;
        return iter__engine_fail(err, ITER_EINVAL, "dropout: p is 1, it must be less");
    case ENGINE_DENSE:
        if (!o->dense.units) return missing(kind, "units", err);
        return check_init(kind, o->dense.init, o->dense.init_range, err);
    case ENGINE_EMBEDDING:
        if (!o->embedding.rows) return missing(kind, "rows", err);
        if (!o->embedding.units) return missing(kind, "units", err);
        return check_init(kind, o->embedding.init, o->embedding.init_range, err);
    case ENGINE_GRU:
        if (!o->gru.units) return missing(kind, "units", err);
        return check_init(kind, o->gru.init, o->gru.init_range, err);
    default: return ITER_OK;
    }
}

/* ---- Optimisers ------------------------------------------------------------------------------ */

#define SCHEDULE_ROWS                                                                            \
    ITER_ROW_DOUBLE("weight-decay", "of weights, not of biases", engine_optimizer, weight_decay, \
                    0, RATE_MAX, 0),                                                             \
        ITER_ROW_INT("step", "epochs after which lr is multiplied by factor; 0 = never",         \
                     engine_optimizer, step_epochs, 0, 4294967295.0, 0),                         \
        ITER_ROW_DOUBLE("factor", "what lr is multiplied by", engine_optimizer, factor, 0,       \
                        RATE_MAX, 0)

static const iter_option sgd_rows[] = {
    ITER_ROW_DOUBLE("lr", "learning rate", engine_optimizer, lr, 0, RATE_MAX, 1),
    ITER_ROW_DOUBLE("momentum", "share of the last change that is kept", engine_optimizer, momentum,
                    0, 1, 2),
    SCHEDULE_ROWS,
    ITER_ROW_END,
};
static const engine_optimizer sgd_defaults = {.kind = ENGINE_SGD, .lr = 0.01, .factor = 0.1};

static const iter_option adam_rows[] = {
    ITER_ROW_DOUBLE("lr", "learning rate", engine_optimizer, lr, 0, RATE_MAX, 1),
    ITER_ROW_DOUBLE("beta1", "decay of the first moment, below 1", engine_optimizer, beta1, 0, 1,
                    0),
    ITER_ROW_DOUBLE("beta2", "decay of the second moment, below 1", engine_optimizer, beta2, 0, 1,
                    0),
    ITER_ROW_DOUBLE("epsilon", "added to the root of the second moment", engine_optimizer, epsilon,
                    0, RATE_MAX, 0),
    SCHEDULE_ROWS,
    ITER_ROW_END,
};
static const engine_optimizer adam_defaults = {
    .kind = ENGINE_ADAM, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .factor = 0.1};

const iter_ops *const iter__optimizer_tables[ENGINE_N_OPTIMIZERS] = {
    [ENGINE_SGD] = TABLE("sgd", sgd_rows, &sgd_defaults, sizeof(engine_optimizer),
                         "stochastic gradient descent, with momentum"),
    [ENGINE_ADAM] =
        TABLE("adam", adam_rows, &adam_defaults, sizeof(engine_optimizer), "Kingma & Ba 2015"),
};
