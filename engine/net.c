/*
 * net.c - shapes and parameters of a model, layer by layer.
 *
 * Each kind of layer has one function. It reads the input shape, and writes the output shape and
 * the parameters. The table `planners` lists them by kind.
 */
#include "engine/net.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_error.h"
#include "engine/layer_tables.h"
#include "engine/model.h"

/* Far more than a machine can hold, far less than what overflows. */
#define ELEMENTS_MAX ((int64_t)1 << 40)

#define SHAPE_TEXT 96

typedef struct planner {
    engine_net *net;
    engine_layer *layer;
    iter_error *err;
} planner;

typedef iter_status (*plan_fn)(planner *p);

/* ---- Messages -------------------------------------------------------------------------------- */

/* "f32 [3, 32, 32]" */
static const char *shape_text(const planner *p, char out[SHAPE_TEXT]) {
    const engine_shape *in = &p->layer->in;
    iter_desc desc = {.dtype = ITER_F32, .n_dims = in->n_dims};
    if (p->layer == p->net->layers) desc.dtype = p->net->data.dtype;
    memcpy(desc.dims, in->dims, sizeof(in->dims));
    return iter_desc_text(&desc, out, SHAPE_TEXT);
}

static iter_status fail_wants(const planner *p, const char *wants) {
    char text[SHAPE_TEXT];
    return iter__engine_fail(p->err, ITER_EINVAL, "%s: expects %s, got %s%s", p->layer->name, wants,
                             shape_text(p, text), p->layer->in.ids ? " of token ids" : "");
}

static iter_status want_image(const planner *p) {
    return p->layer->in.n_dims == 3 ? ITER_OK : fail_wants(p, "an image [C, H, W]");
}

static iter_status want_steps(const planner *p) {
    return p->layer->in.n_dims == 2 ? ITER_OK : fail_wants(p, "a sequence [T, F]");
}

static iter_status want_numbers(const planner *p) {
    return p->layer->in.ids ? fail_wants(p, "numbers") : ITER_OK;
}

static iter_status want_features(const planner *p) {
    if (p->layer->in.n_dims == 1 && !p->layer->in.ids) return ITER_OK;
    return fail_wants(p, p->layer->in.n_dims == 3 ? "features [F] (put flatten before it)"
                         : p->layer->in.ids ? "features [F] (the chain's to:f32 makes ids numbers)"
                                            : "features [F] (put last-step, mean-steps or "
                                              "flatten before it)");
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* Adds a parameter to the layer; add_weight() turns it from a bias into a weight. */
static iter_status add_param(planner *p, const char *suffix, const char *layout, int32_t n_dims,
                             const int64_t *dims, engine_param **out) {
    engine_net *net = p->net;
    if (net->n_params == ENGINE_MAX_PARAMS)
        return iter__engine_fail(p->err, ITER_EINVAL, "%s: a model has at most %d parameters",
                                 p->layer->name, ENGINE_MAX_PARAMS);
    engine_param *param = &net->params[net->n_params];
    iter_param *public = &param->public;
    snprintf(public->name, sizeof(public->name), "%s.%s", p->layer->name, suffix);
    public->desc.dtype = ITER_F32;
    public->desc.n_dims = n_dims;
    memcpy(public->desc.dims, dims, sizeof(*dims) * (size_t)n_dims);
    snprintf(public->desc.layout, sizeof(public->desc.layout), "%s", layout);
    param->n_elements = iter_desc_elements(&public->desc);
    param->layer = (int32_t)(p->layer - net->layers);
    param->bias = true;
    if (param->n_elements > ELEMENTS_MAX) {
        char text[SHAPE_TEXT];
        return iter__engine_fail(p->err, ITER_EINVAL, "%s: %s would be %s, which is too large",
                                 p->layer->name, suffix,
                                 iter_desc_text(&public->desc, text, sizeof(text)));
    }
    if (p->layer->n_params++ == 0) p->layer->first_param = net->n_params;
    net->n_params++;
    if (out) *out = param;
    return ITER_OK;
}

static iter_status add_weight(planner *p, const char *suffix, const char *layout, int32_t n_dims,
                              const int64_t *dims, int32_t init, double init_range, double fan_in,
                              double fan_out) {
    engine_param *param = NULL;
    ENGINE_TRY(add_param(p, suffix, layout, n_dims, dims, &param));
    param->bias = false;
    param->init = init;
    param->init_range = init_range;
    param->fan_in = fan_in;
    param->fan_out = fan_out;
    return ITER_OK;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Positions of a window along one side; 0 = it fits nowhere. */
static int64_t n_places(int64_t in, int64_t size, int64_t stride, int64_t pad) {
    const int64_t room = in + 2 * pad - size;
    return room < 0 ? 0 : room / stride + 1;
}

static iter_status set_windows(planner *p, int64_t channels, int64_t size, int64_t stride,
                               int64_t pad) {
    const engine_shape *in = &p->layer->in;
    const int64_t height = n_places(in->dims[1], size, stride, pad);
    const int64_t width = n_places(in->dims[2], size, stride, pad);
    if (height == 0 || width == 0) {
        char text[SHAPE_TEXT];
        return iter__engine_fail(p->err, ITER_EINVAL,
                                 "%s: a window of %" PRId64 " x %" PRId64 " with pad %" PRId64
                                 " is larger than its input, %s",
                                 p->layer->name, size, size, pad, shape_text(p, text));
    }
    p->layer->out = (engine_shape){.n_dims = 3, .dims = {channels, height, width}};
    return ITER_OK;
}

static iter_status plan_conv2d(planner *p) {
    const iter_conv2d_options *o = &p->layer->options.conv2d;
    ENGINE_TRY(want_image(p));
    ENGINE_TRY(set_windows(p, o->channels, o->kernel, o->stride, o->pad));
    const int64_t in = p->layer->in.dims[0];
    const double area = (double)o->kernel * (double)o->kernel;
    ENGINE_TRY(add_weight(p, "weight", "OIHW", 4,
                          (int64_t[]){o->channels, in, o->kernel, o->kernel}, o->init,
                          o->init_range, (double)in * area, (double)o->channels * area));
    return o->bias ? add_param(p, "bias", "O", 1, &o->channels, NULL) : ITER_OK;
}

static iter_status plan_pool(planner *p) {
    const iter_pool_options *o = &p->layer->options.pool;
    ENGINE_TRY(want_image(p));
    return set_windows(p, p->layer->in.dims[0], o->size, o->stride ? o->stride : o->size, o->pad);
}

static iter_status plan_elementwise(planner *p) {
    ENGINE_TRY(want_numbers(p));
    p->layer->out = p->layer->in;
    return ITER_OK;
}

static iter_status plan_flatten(planner *p) {
    ENGINE_TRY(want_numbers(p));
    p->layer->out = (engine_shape){.n_dims = 1, .dims = {iter__shape_elements(&p->layer->in)}};
    return ITER_OK;
}

static iter_status plan_dense(planner *p) {
    const iter_dense_options *o = &p->layer->options.dense;
    ENGINE_TRY(want_features(p));
    const int64_t in = p->layer->in.dims[0];
    p->layer->out = (engine_shape){.n_dims = 1, .dims = {o->units}};
    ENGINE_TRY(add_weight(p, "weight", "OI", 2, (int64_t[]){o->units, in}, o->init, o->init_range,
                          (double)in, (double)o->units));
    return o->bias ? add_param(p, "bias", "O", 1, &o->units, NULL) : ITER_OK;
}

static iter_status plan_embedding(planner *p) {
    const iter_embedding_options *o = &p->layer->options.embedding;
    if (!p->layer->in.ids) return fail_wants(p, "token ids, i32 or i64 [T]");
    p->layer->out = (engine_shape){.n_dims = 2, .dims = {p->layer->in.dims[0], o->units}};
    /* Fan-in and fan-out as MXNet's Xavier takes them from the shape. */
    return add_weight(p, "weight", "", 2, (int64_t[]){o->rows, o->units}, o->init, o->init_range,
                      (double)o->units, (double)o->rows);
}

static iter_status plan_gru(planner *p) {
    const iter_gru_options *o = &p->layer->options.gru;
    ENGINE_TRY(want_steps(p));
    const int64_t in = p->layer->in.dims[1], gates = 3 * o->units;
    p->layer->out = (engine_shape){.n_dims = 2, .dims = {p->layer->in.dims[0], o->units}};
    p->net->segments |= o->segments;
    ENGINE_TRY(add_weight(p, "input.weight", "", 2, (int64_t[]){gates, in}, o->init, o->init_range,
                          (double)in, (double)o->units));
    ENGINE_TRY(add_weight(p, "recurrent.weight", "", 2, (int64_t[]){gates, o->units}, o->init,
                          o->init_range, (double)o->units, (double)o->units));
    ENGINE_TRY(add_param(p, "input.bias", "", 1, &gates, NULL));
    return add_param(p, "recurrent.bias", "", 1, &gates, NULL);
}

static iter_status plan_steps(planner *p) {
    ENGINE_TRY(want_steps(p));
    p->layer->out = (engine_shape){.n_dims = 1, .dims = {p->layer->in.dims[1]}};
    return ITER_OK;
}

static iter_status fail_label(const planner *p, const char *wants) {
    char text[SHAPE_TEXT];
    return iter__engine_fail(p->err, ITER_EINVAL, "%s: expects %s as label, got %s", p->layer->name,
                             wants, iter_desc_text(&p->net->label, text, sizeof(text)));
}

static iter_status plan_classes(planner *p) {
    ENGINE_TRY(want_features(p));
    const iter_desc *label = &p->net->label;
    const iter_dtype dtype = label->dtype;
    if (label->n_dims != 1 || (dtype != ITER_I32 && dtype != ITER_I64 && dtype != ITER_U8))
        return fail_label(p, "class numbers, i32, i64 or u8 [N]");
    p->net->n_outputs = p->net->n_classes = p->layer->in.dims[0];
    p->layer->out = (engine_shape){.n_dims = 1, .dims = {1}};
    return ITER_OK;
}

/* Its weights are the embedding's; its own parameter is a bias. */
static iter_status plan_tied(planner *p) {
    engine_net *net = p->net;
    const engine_layer *first = &net->layers[0];
    char wants[96];
    if (first->kind != ENGINE_EMBEDDING)
        return iter__engine_fail(p->err, ITER_EINVAL,
                                 "%s: takes the weights of an embedding, but the model begins with "
                                 "%s",
                                 p->layer->name, first->name);
    const iter_embedding_options *o = &first->options.embedding;
    const int64_t steps = p->layer->in.dims[0];
    snprintf(wants, sizeof(wants), "a sequence [T, %" PRId64 "], as wide as %s", o->units,
             first->name);
    if (p->layer->in.n_dims != 2 || p->layer->in.dims[1] != o->units) return fail_wants(p, wants);
    const iter_desc *label = &net->label;
    if (label->n_dims != 2 || label->dims[1] != steps ||
        (label->dtype != ITER_I32 && label->dtype != ITER_I64)) {
        snprintf(wants, sizeof(wants), "an id for each step, i32 or i64 [N, %" PRId64 "],", steps);
        return fail_label(p, wants);
    }
    net->n_targets = steps;
    net->n_outputs = steps * o->units;
    net->n_classes = o->rows;
    p->layer->out = (engine_shape){.n_dims = 1, .dims = {1}};
    return add_param(p, "bias", "", 1, &o->rows, NULL);
}

static iter_status plan_values(planner *p) {
    ENGINE_TRY(want_features(p));
    const iter_desc *label = &p->net->label;
    const int64_t n_outputs = p->layer->in.dims[0];
    const bool fits =
        label->n_dims == 1 ? n_outputs == 1 : label->n_dims == 2 && label->dims[1] == n_outputs;
    if (!fits || (label->dtype != ITER_F32 && label->dtype != ITER_F64)) {
        char wants[64];
        snprintf(wants, sizeof(wants), "values, f32 or f64 [N, %" PRId64 "]", n_outputs);
        return fail_label(p, wants);
    }
    p->net->n_outputs = n_outputs;
    p->layer->out = (engine_shape){.n_dims = 1, .dims = {1}};
    return ITER_OK;
}

static const plan_fn planners[ENGINE_N_KINDS] = {
    [ENGINE_CONV2D] = plan_conv2d,
    [ENGINE_MAXPOOL] = plan_pool,
    [ENGINE_AVGPOOL] = plan_pool,
    [ENGINE_RELU] = plan_elementwise,
    [ENGINE_TANH] = plan_elementwise,
    [ENGINE_SIGMOID] = plan_elementwise,
    [ENGINE_DROPOUT] = plan_elementwise,
    [ENGINE_FLATTEN] = plan_flatten,
    [ENGINE_DENSE] = plan_dense,
    [ENGINE_EMBEDDING] = plan_embedding,
    [ENGINE_GRU] = plan_gru,
    [ENGINE_LAST_STEP] = plan_steps,
    [ENGINE_MEAN_STEPS] = plan_steps,
    [ENGINE_SOFTMAX_CROSS_ENTROPY] = plan_classes,
    [ENGINE_MSE] = plan_values,
    [ENGINE_L2] = plan_values,
    [ENGINE_TIED_SOFTMAX] = plan_tied,
};

/* ---- Data and label -------------------------------------------------------------------------- */

static bool is_ids(iter_dtype dtype) {
    return dtype == ITER_I32 || dtype == ITER_I64;
}

static void set_layout(iter_desc *desc, const char *layout) {
    snprintf(desc->layout, sizeof(desc->layout), "%s", layout);
}

void iter__net_view_data(iter_tensor *tensor) {
    iter_desc *desc = &tensor->desc;
    int64_t *dims = desc->dims, *strides = tensor->strides;
    const char *layout = desc->layout;
    if (desc->n_dims == 1) {
        desc->n_dims = 2;
        dims[1] = 1;
        strides[1] = 1;
        set_layout(desc, is_ids(desc->dtype) ? "NT" : "NF");
    } else if (desc->n_dims == 2) {
        if (strcmp(layout, "TN") != 0) set_layout(desc, is_ids(desc->dtype) ? "NT" : "NF");
    } else if (desc->n_dims == 3 && strcmp(layout, "NHW") == 0) {
        desc->n_dims = 4;
        dims[3] = dims[2];
        strides[3] = strides[2];
        dims[2] = dims[1];
        strides[2] = strides[1];
        dims[1] = 1;
        strides[1] = strides[2] * dims[2];
        set_layout(desc, "NCHW");
    } else if (desc->n_dims == 3 && (layout[0] == 'N' || !layout[0])) {
        set_layout(desc, "NTF");
    } else if (desc->n_dims == 3 && layout[0] == 'T' && layout[1] == 'N') {
        set_layout(desc, "TNF");
    } else if (desc->n_dims == 4 && !layout[0]) {
        set_layout(desc, "NCHW");
    }
}

void iter__net_view_label(engine_kind loss, iter_tensor *tensor) {
    iter_desc *desc = &tensor->desc;
    while (loss == ENGINE_SOFTMAX_CROSS_ENTROPY && desc->n_dims > 1 &&
           desc->dims[desc->n_dims - 1] == 1)
        desc->n_dims--;
    set_layout(desc, desc->n_dims == 1 ? "N" : loss == ENGINE_TIED_SOFTMAX ? "NT" : "NF");
}

static iter_status check_fixed(const iter_desc *desc, const char *what, iter_error *err) {
    char text[SHAPE_TEXT];
    for (int32_t i = 0; i < desc->n_dims; i++)
        if (desc->dims[i] < 1)
            return iter__engine_fail(err, ITER_EINVAL, "%s: %s has no fixed size%s", what,
                                     iter_desc_text(desc, text, sizeof(text)),
                                     desc->dims[i] == ITER_VARIABLE
                                         ? ": give rows one length, as with pad-batch:N"
                                         : "");
    if (desc->n_dims > 0) return ITER_OK;
    return iter__engine_fail(err, ITER_EINVAL, "%s: a batch needs a dimension", what);
}

/* The shape of one row, as the first layer sees it. */
static iter_status plan_input(engine_net *net, iter_error *err) {
    const iter_desc *data = &net->data;
    const iter_dtype dtype = data->dtype;
    const int64_t *d = data->dims;
    engine_shape *in = &net->input;
    char text[SHAPE_TEXT];
    *in = (engine_shape){.ids = is_ids(dtype)};
    if (!in->ids && dtype != ITER_F32 && dtype != ITER_F16 && dtype != ITER_BF16 &&
        dtype != ITER_F64 && dtype != ITER_U8)
        return iter__engine_fail(err, ITER_EINVAL,
                                 "data: expects f32, f16, bf16, f64, u8, or i32 or i64 for ids; "
                                 "got %s (the chain's to:f32 converts)",
                                 iter_desc_text(data, text, sizeof(text)));
    if (strcmp(data->layout, "NCHW") == 0 && !in->ids)
        *in = (engine_shape){.n_dims = 3, .dims = {d[1], d[2], d[3]}};
    else if (strcmp(data->layout, "NHWC") == 0 && !in->ids)
        *in = (engine_shape){.n_dims = 3, .dims = {d[3], d[1], d[2]}};
    else if (strcmp(data->layout, "NTF") == 0 && !in->ids)
        *in = (engine_shape){.n_dims = 2, .dims = {d[1], d[2]}};
    else if (strcmp(data->layout, "TNF") == 0 && !in->ids)
        *in = (engine_shape){.n_dims = 2, .dims = {d[0], d[2]}};
    else if (strcmp(data->layout, "NF") == 0)
        *in = (engine_shape){.n_dims = 1, .dims = {d[1]}};
    else if (data->n_dims == 2 && in->ids)
        *in = (engine_shape){.n_dims = 1, .dims = {d[!iter__net_batch_dim(data)]}, .ids = true};
    else
        return iter__engine_fail(err, ITER_EINVAL,
                                 "data: %s is neither images (NCHW, NHWC, NHW), nor a sequence "
                                 "(NT, TN of ids, NTF, TNF), nor features [N, F]",
                                 iter_desc_text(data, text, sizeof(text)));
    net->batch = d[iter__net_batch_dim(data)];
    return ITER_OK;
}

static iter_status check_size(const planner *p) {
    const engine_shape *out = &p->layer->out;
    int64_t n = p->net->batch;
    bool fits = true;
    for (int i = 0; i < out->n_dims; i++)
        fits &= !__builtin_mul_overflow(n, out->dims[i], &n);
    if (fits && n <= ELEMENTS_MAX) return ITER_OK;
    return iter__engine_fail(p->err, ITER_EINVAL, "%s: its output is too large", p->layer->name);
}

/* The input that the first layer expects that does not take any shape. */
static engine_shape wanted_input(const engine_net *net) {
    for (int32_t i = 0; i < net->n_layers; i++) {
        if (planners[net->layers[i].kind] == plan_elementwise) continue;
        switch (net->layers[i].kind) {
        case ENGINE_CONV2D:
        case ENGINE_MAXPOOL:
        case ENGINE_AVGPOOL:
        case ENGINE_FLATTEN: return (engine_shape){.n_dims = 3};
        case ENGINE_EMBEDDING: return (engine_shape){.n_dims = 1, .ids = true};
        case ENGINE_GRU:
        case ENGINE_LAST_STEP:
        case ENGINE_MEAN_STEPS: return (engine_shape){.n_dims = 2};
        default: return (engine_shape){.n_dims = 1};
        }
    }
    return (engine_shape){.n_dims = 1};
}

/* ---- Public within the engine ---------------------------------------------------------------- */

int32_t iter__net_batch_dim(const iter_desc *desc) {
    const char *at = strchr(desc->layout, 'N');
    return at ? (int32_t)(at - desc->layout) : 0;
}

bool iter__net_channels_last(const engine_net *net) {
    return strcmp(net->data.layout, "NHWC") == 0;
}

bool iter__net_time_first(const engine_net *net) {
    return net->data.layout[0] == 'T';
}

uint32_t iter__dropout_threshold(double p) {
    return (uint32_t)lround(p * 65536);
}

void iter__net_layers(const iter_model *model, engine_net *out) {
    int32_t seen[ENGINE_N_KINDS] = {0};
    memset(out, 0, sizeof(*out));
    out->n_layers = iter__model_n_layers(model);
    for (int32_t i = 0; i < out->n_layers; i++) {
        const engine_model_layer *from = iter__model_layer(model, i);
        engine_layer *layer = &out->layers[i];
        layer->kind = from->kind;
        layer->options = from->options;
        snprintf(layer->name, sizeof(layer->name), "%s%d", iter__layer_tables[from->kind]->name,
                 (int)seen[from->kind]++);
    }
    out->input = wanted_input(out);
}

iter_status iter__net_plan(const iter_model *model, const iter_desc *data, const iter_desc *label,
                           uint64_t seed, engine_net *out, iter_error *err) {
    iter__net_layers(model, out);
    if (out->n_layers == 0) return iter__engine_fail(err, ITER_EINVAL, "model: it has no layers");
    const engine_layer *last = &out->layers[out->n_layers - 1];
    if (!iter__kind_is_loss(last->kind))
        return iter__engine_fail(err, ITER_EINVAL,
                                 "model: it ends with %s, which is not a loss: "
                                 "the last layer must be softmax-cross-entropy, mse, l2 or "
                                 "tied-softmax",
                                 last->name);
    ENGINE_TRY(check_fixed(data, "data", err));
    ENGINE_TRY(check_fixed(label, "label", err));
    iter_tensor seen_data = {.desc = *data}, seen_label = {.desc = *label};
    iter__net_view_data(&seen_data);
    iter__net_view_label(last->kind, &seen_label);
    out->data = seen_data.desc;
    out->label = seen_label.desc;
    ENGINE_TRY(plan_input(out, err));
    if (out->label.dims[0] != out->batch)
        return iter__engine_fail(err, ITER_EINVAL,
                                 "label: its batch has %" PRId64 " rows, that of the data %" PRId64,
                                 out->label.dims[0], out->batch);
    const engine_shape *in = &out->input;
    out->n_targets = 1;
    for (int32_t i = 0; i < out->n_layers; i++) {
        planner p = {out, &out->layers[i], err};
        p.layer->in = *in;
        p.layer->first_param = out->n_params;
        p.layer->rng_key = iter_rng_key(seed, p.layer->name, 0);
        ENGINE_TRY(planners[p.layer->kind](&p));
        ENGINE_TRY(check_size(&p));
        in = &p.layer->out;
    }
    return ITER_OK;
}
