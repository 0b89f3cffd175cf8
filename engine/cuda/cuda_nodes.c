/*
 * cuda_nodes.c - chooses a net's nodes, the places that share memory, and the gradients to compute.
 *
 * Consecutive bias, activation and dropout are one node. After a convolution, a dense layer or a
 * maxpool it works in place, because no node reads the old values; elsewhere it writes to a place
 * of its own.
 */
#include <string.h>

#include "engine/cuda/cuda_plan.h"
#include "engine/engine_error.h"

/* Tensor cores want channels in multiples of CHANNEL_STEP. TF32 wants CHANNELS_LEAST: below, cuDNN
 * sums the gradient of a convolution's weights by a kernel for grouped convolutions, which takes as
 * long as all the rest of the published CNN's step (H100: 0.71 of 1.55 ms). */
#define CHANNEL_STEP   8
#define CHANNELS_LEAST 32

/* ---- Places ---------------------------------------------------------------------------------- */

static int64_t padded(const cuda_plan *plan, int64_t channels) {
    if (!plan->numbers.channels_last) return channels;
    if (plan->numbers.tf32 && channels < CHANNELS_LEAST) return CHANNELS_LEAST;
    return (channels + CHANNEL_STEP - 1) / CHANNEL_STEP * CHANNEL_STEP;
}

static void describe_image(const cuda_plan *plan, cuda_place *place) {
    const int64_t *d = place->shape.dims, pixels = d[1] * d[2];
    const bool last = plan->numbers.channels_last;
    place->order = last ? ENGINE_NHWC : ENGINE_NCHW;
    place->channels = padded(plan, d[0]);
    place->row_stride = place->channels * pixels;
    memcpy(place->dims, d, sizeof(place->dims));
    place->strides[0] = last ? 1 : pixels;
    place->strides[1] = d[2] * (last ? place->channels : 1);
    place->strides[2] = last ? place->channels : 1;
    place->n_elements = plan->net->batch * place->row_stride;
}

static void describe_steps(const cuda_plan *plan, cuda_place *place) {
    const bool steps = place->shape.n_dims == 2;
    const int64_t features = place->shape.dims[steps];
    place->order = ENGINE_TNF;
    place->channels = features;
    place->row_stride = features;
    place->dims[0] = 1;
    place->dims[1] = steps ? place->shape.dims[0] : 1;
    place->dims[2] = features;
    place->strides[1] = plan->net->batch * features;
    place->strides[2] = 1;
    place->n_elements = plan->net->batch * place->dims[1] * features;
}

static void describe_places(cuda_plan *plan) {
    const engine_net *net = plan->net;
    plan->n_places = net->n_layers;
    for (int32_t i = 0; i < plan->n_places; i++) {
        cuda_place *place = &plan->places[i];
        place->shape = i == 0 ? net->input : net->layers[i - 1].out;
        place->shares = i;
        if (place->shape.n_dims == 3)
            describe_image(plan, place);
        else
            describe_steps(plan, place);
        /* cuDNN's gru computes the gradient of its input before that of the weights. */
        const bool is_gru = i < net->n_layers - 1 && net->layers[i].kind == ENGINE_GRU;
        place->wants = i == 0
                           ? plan->keep_input_gradient || is_gru
                           : plan->places[i - 1].wants || net->layers[i - 1].n_params > 0 || is_gru;
    }
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static cuda_node *add_node(cuda_plan *plan, const cuda_node_ops *ops, int32_t layer, int32_t n,
                           int32_t in, int32_t out) {
    cuda_node *node = &plan->nodes[plan->n_nodes++];
    *node = (cuda_node){.ops = ops, .first_layer = layer, .n_layers = n, .in = in, .out = out};
    return node;
}

static engine_activation activation_of(engine_kind kind) {
    switch (kind) {
    case ENGINE_RELU: return ENGINE_ACT_RELU;
    case ENGINE_TANH: return ENGINE_ACT_TANH;
    case ENGINE_SIGMOID: return ENGINE_ACT_SIGMOID;
    default: return ENGINE_AS_IT_IS;
    }
}

/* Adds a node for an activation and then a dropout from layer `i` on, if they are there. Returns
 * the next layer. Place `in` holds the input; in_place: the output replaces it. */
static int32_t add_map(cuda_plan *plan, int32_t i, int32_t in, int32_t bias, bool in_place) {
    const engine_net *net = plan->net;
    cuda_map map = {.bias = bias, .dropout = -1};
    int32_t end = i;
    if (activation_of(net->layers[end].kind) != ENGINE_AS_IT_IS)
        map.activation = activation_of(net->layers[end++].kind);
    if (net->layers[end].kind == ENGINE_DROPOUT) map.dropout = end++;
    if (end == i && bias < 0) return i;
    const int32_t out = end;
    for (int32_t k = i + 1; k < end; k++) /* nothing is kept between the two */
        plan->places[k].shares = in_place ? plan->places[in].shares : out;
    if (in_place && out > in) plan->places[out].shares = plan->places[in].shares;
    const int32_t first = bias >= 0 ? i - 1 : i;
    add_node(plan, &iter__cuda_map_node, first, end - first, in, out)->as.map = map;
    return end;
}

/* True if the place already has the memory layout of its flattened features. */
static bool is_flat(const cuda_plan *plan, const cuda_place *place) {
    if (place->shape.n_dims == 3)
        return place->order == ENGINE_NCHW ||
               (place->dims[1] * place->dims[2] == 1 && place->channels == place->dims[0]);
    return place->dims[1] == 1 || plan->net->batch == 1;
}

static int32_t add_flatten(cuda_plan *plan, int32_t i) {
    cuda_place *out = &plan->places[i + 1];
    if (is_flat(plan, &plan->places[i])) {
        out->shares = plan->places[i].shares;
        if (plan->places[i].shares_values) { /* the gradient belongs to its own place */
            out->shares = i;
        }
    } else {
        add_node(plan, &iter__cuda_flatten, i, 1, i, i + 1);
    }
    return i + 1;
}

/* Adds the node or nodes of layer i. Returns the next layer, or i if there is no node for this
 * kind. */
static int32_t add_layer(cuda_plan *plan, int32_t i) {
    const engine_layer *layer = &plan->net->layers[i];
    const int32_t bias = layer->n_params > 1 ? layer->first_param + 1 : -1;
    switch (layer->kind) {
    case ENGINE_CONV2D:
        add_node(plan, &iter__cuda_conv, i, 1, i, i + 1);
        return add_map(plan, i + 1, i + 1, bias, true);
    case ENGINE_DENSE:
        add_node(plan, &iter__cuda_dense, i, 1, i, i + 1);
        return add_map(plan, i + 1, i + 1, bias, true);
    case ENGINE_MAXPOOL:
    case ENGINE_AVGPOOL:
        add_node(plan, &iter__cuda_pool, i, 1, i, i + 1);
        return add_map(plan, i + 1, i + 1, -1, true);
    case ENGINE_FLATTEN: return add_flatten(plan, i);
    case ENGINE_EMBEDDING: add_node(plan, &iter__cuda_embedding, i, 1, i, i + 1); return i + 1;
    case ENGINE_GRU: add_node(plan, &iter__cuda_gru, i, 1, i, i + 1); return i + 1;
    case ENGINE_LAST_STEP:
        plan->places[i + 1].shares = i;
        plan->places[i + 1].shares_values = true;
        add_node(plan, &iter__cuda_last_step, i, 1, i, i + 1);
        return i + 1;
    case ENGINE_MEAN_STEPS: add_node(plan, &iter__cuda_mean_steps, i, 1, i, i + 1); return i + 1;
    default: return add_map(plan, i, i, -1, false);
    }
}

/* What of a layer the backend lacks, NULL = nothing. Language models train on the processor alone;
 * cuDNN's gru resets after the product. */
static const char *lacking_of(const engine_layer *layer) {
    if (layer->kind == ENGINE_TIED_SOFTMAX) return "this layer";
    if (layer->kind != ENGINE_GRU) return NULL;
    if (layer->options.gru.segments) return "segments=yes";
    return layer->options.gru.reset == ITER_GRU_RESET_BEFORE ? "reset=before" : NULL;
}

static iter_status check_lacking(const engine_net *net, iter_error *err) {
    for (int32_t i = 0; i < net->n_layers; i++) {
        const char *lacks = lacking_of(&net->layers[i]);
        if (lacks)
            return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                     "%s: the backend cuda lacks %s; the backends cpu and "
                                     "reference have it",
                                     net->layers[i].name, lacks);
    }
    return ITER_OK;
}

iter_status iter__cuda_make_nodes(cuda_plan *plan, iter_error *err) {
    memset(plan->places, 0, sizeof(plan->places));
    describe_places(plan);
    ENGINE_TRY(check_lacking(plan->net, err));
    for (int32_t i = 0, next; i < plan->net->n_layers - 1; i = next) {
        next = add_layer(plan, i);
        if (next == i)
            return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                     "%s: the backend cuda lacks this layer",
                                     plan->net->layers[i].name);
    }
    return ITER_OK;
}
