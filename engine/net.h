/*
 * net.h - a model with its shapes: what every backend computes.
 *
 * iter__net_plan() turns a list of layers and the descriptions of data and label into layers with
 * shapes, and parameters with names, shapes and initial distributions. A backend reads the net and
 * keeps it for its whole life. A net holds no values.
 */
#ifndef ENGINE_NET_H
#define ENGINE_NET_H

#include <iter/engine.h>

#define ENGINE_MAX_LAYERS 64
#define ENGINE_MAX_PARAMS 160
#define ENGINE_NO_TARGET  (-100) /* a label that is not predicted, as in PyTorch */

typedef enum engine_kind {
    ENGINE_CONV2D,
    ENGINE_MAXPOOL,
    ENGINE_AVGPOOL,
    ENGINE_RELU,
    ENGINE_TANH,
    ENGINE_SIGMOID,
    ENGINE_DROPOUT,
    ENGINE_FLATTEN,
    ENGINE_DENSE,
    ENGINE_EMBEDDING,
    ENGINE_GRU,
    ENGINE_LAST_STEP,
    ENGINE_MEAN_STEPS,
    ENGINE_SOFTMAX_CROSS_ENTROPY, /* the losses come last */
    ENGINE_MSE,
    ENGINE_L2,
    ENGINE_TIED_SOFTMAX,
    ENGINE_N_KINDS
} engine_kind;

static inline bool iter__kind_is_loss(engine_kind kind) {
    return kind >= ENGINE_SOFTMAX_CROSS_ENTROPY;
}

/* The options of one layer, whatever its kind. */
typedef union engine_layer_options {
    iter_conv2d_options conv2d;
    iter_pool_options pool;
    iter_dropout_options dropout;
    iter_dense_options dense;
    iter_embedding_options embedding;
    iter_gru_options gru;
} engine_layer_options;

/* One row of a batch at some point in the net: image C, H, W; sequence T, F (ids: T); features
 * F. */
typedef struct engine_shape {
    int32_t n_dims; /* 1, 2 or 3 */
    int64_t dims[3];
    bool ids; /* token ids, not numbers */
} engine_shape;

static inline int64_t iter__shape_elements(const engine_shape *shape) {
    int64_t n = 1;
    for (int i = 0; i < shape->n_dims; i++)
        n *= shape->dims[i];
    return n;
}

typedef struct engine_layer {
    engine_kind kind;
    char name[ITER_NAME_MAX]; /* "conv2d0" */
    engine_layer_options options;
    engine_shape in, out;
    /* Order of parameters: conv2d, dense: weight, [bias]; embedding: weight; gru: input.weight,
     * recurrent.weight, input.bias, recurrent.bias. */
    int32_t first_param, n_params;
    uint64_t rng_key; /* of a dropout layer's mask */
} engine_layer;

/* A parameter in canonical, dense form: conv [O, I, H, W]; dense [O, I] with I in the order C, H,
 * W; embedding [rows, units]; gru as documented at iter_gru_options. */
typedef struct engine_param {
    iter_param public;
    int64_t n_elements;
    int32_t layer;
    int32_t init;           /* iter_init; ignored if `bias` */
    double init_range;      /* for ITER_INIT_UNIFORM */
    double fan_in, fan_out; /* for a gru, of one gate */
    bool bias;
} engine_param;

typedef struct engine_net {
    int64_t batch; /* rows of a full batch */
    /* Description of a batch, [N, ...] or [T, N, ...], see iter__net_view_data(). Its layout is
     * "NCHW", "NHWC", "NT", "TN", "NTF", "TNF" or "NF". */
    iter_desc data;
    iter_desc label;    /* of a batch: classes [N] or [N, T]; values [N] or [N, F] */
    engine_shape input; /* one row of data, as the first layer sees it */
    /* Numbers before the loss: features, or for ENGINE_TIED_SOFTMAX steps times features. */
    int64_t n_outputs;
    int64_t n_classes; /* labels are 0 to n_classes - 1; 0 if labels are values */
    /* Labels of a row: 1, or T for ENGINE_TIED_SOFTMAX, where ENGINE_NO_TARGET does not count. */
    int64_t n_targets;
    bool segments;    /* a gru begins anew where the segment changes: batches have segments */
    int32_t n_layers; /* the loss is layers[n_layers - 1] */
    int32_t n_params;
    engine_layer layers[ENGINE_MAX_LAYERS];
    engine_param params[ENGINE_MAX_PARAMS];
} engine_net;

/* Index of the dimension N in the batch's layout ("TN": 1); 0 if there is no N. */
int32_t iter__net_batch_dim(const iter_desc *desc);

/* True if images come with the channels last ("NHWC"); true if sequences come as "TN" or "TNF". */
bool iter__net_channels_last(const engine_net *net);
bool iter__net_time_first(const engine_net *net);

/* Fills in what is known without data: n_layers; kind, name and options of each layer; and what the
 * layers expect as input: ids, and n_dims (3 = images). */
void iter__net_layers(const iter_model *model, engine_net *out);

/* Infers shapes and parameters; `seed` enters the keys of the dropout layers. data and label
 * describe a batch of the loader. Errors: EINVAL naming the layer, what it got and what it
 * expects. */
iter_status iter__net_plan(const iter_model *model, const iter_desc *data, const iter_desc *label,
                           uint64_t seed, engine_net *out, iter_error *err);

/* Changes the view of a batch's tensor to the net's, over the same memory: data [N] becomes [N, 1];
 * "NHW" becomes "NCHW" with one channel; labels that are classes lose dimensions of 1 after N.
 * net->data and net->label already have this form. */
void iter__net_view_data(iter_tensor *tensor);
void iter__net_view_label(engine_kind loss, iter_tensor *tensor);

/* Initial values in canonical form, a function of (seed, parameter's name) alone. out is f32. */
void iter__param_init(const engine_param *param, uint64_t seed, float *out);

/*
 * Dropout's mask: element e of row r at training step s is kept if
 *
 *     u16(key, s, r, e) >= round(p * 65536)
 *
 * u16 is half a word of the Philox block with counter {block, row, step low, step high} and key[2]
 * = low, high word of rng_key. block = place / 8, and the half is place % 8: word (place % 8) / 2,
 * its low half first. For sequences and features, place = e. For images, whose channels backends
 * keep together, place = (y * W + x) * C16 + c, where C16 is C rounded up to a multiple of 16. An
 * element that is kept is multiplied by the float 1 / (1 - p).
 */
uint32_t iter__dropout_threshold(double p);

#endif
