/*
 * cpu_images.c - layers of images: convolution, pooling, flatten, and repacking between orders.
 *
 * A convolution says which orders of images it prefers. If the input has another order, the
 * convolution uses it as it is if oneDNN has an optimised kernel for it; else the images are
 * repacked first. Repacking the data of a batch is counted, because a loader could have delivered
 * the preferred order. A relu after a convolution is computed with it. If a dropout follows the
 * relu, the dropout computes both instead.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/cpu_parallel.h"
#include "engine/engine_error.h"

static const char *const order_names[] = {
    [CPU_ORDER_ANY] = "any",       [CPU_ORDER_NCHW] = "nchw",       [CPU_ORDER_NHWC] = "nhwc",
    [CPU_ORDER_BLOCK8] = "nchw8c", [CPU_ORDER_BLOCK16] = "nchw16c",
};

static cpu_image image_of(const cpu_shared *shared, const engine_shape *shape, cpu_order order) {
    return (cpu_image){shared->net->batch, shape->dims[0], shape->dims[1], shape->dims[2], order};
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Repacking ------------------------------------------------------------------------------- */

typedef struct repack_node {
    cpu_node node;
    cpu_repack *there, *back;
    bool is_data;
} repack_node;

static iter_status repack_forward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run;
    const repack_node *r = (const repack_node *)node;
    cpu_shared *shared = node->shared;
    const double before = r->is_data ? seconds_now() : 0;
    ENGINE_TRY(
        iter__dnn_repack_run(r->there, node->in->values, node->out->values, shared->scratch, err));
    if (!r->is_data) return ITER_OK;
    shared->n_converted++;
    shared->convert_seconds += seconds_now() - before;
    return ITER_OK;
}

static iter_status repack_backward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run;
    const repack_node *r = (const repack_node *)node;
    if (!node->in->gradient) return ITER_OK;
    return iter__dnn_repack_run(r->back, node->out->gradient, node->in->gradient,
                                node->shared->scratch, err);
}

static void repack_text(const cpu_node *node, int32_t layer, char *out, size_t capacity) {
    (void)layer;
    snprintf(out, capacity, "%s to %s", order_names[node->in->image.order],
             order_names[node->out->image.order]);
}

static void repack_close(cpu_node *node) {
    repack_node *r = (repack_node *)node;
    iter__dnn_repack_destroy(r->there);
    iter__dnn_repack_destroy(r->back);
}

static const cpu_node_ops repack_ops = {
    .forward = repack_forward,
    .backward = repack_backward,
    .text = repack_text,
    .close = repack_close,
};

/* With one channel or one pixel, channels first and channels last are the same in memory. */
static bool is_same_memory(const cpu_image *image, cpu_order order) {
    const bool plain = (image->order == CPU_ORDER_NCHW || image->order == CPU_ORDER_NHWC) &&
                       (order == CPU_ORDER_NCHW || order == CPU_ORDER_NHWC);
    return image->order == order || (plain && (image->c == 1 || image->h * image->w == 1));
}

/* Converts the images of `in` to another order. */
static iter_status repack(cpu_planner *planner, int32_t layer, cpu_place *in, cpu_order order,
                          cpu_place **out, iter_error *err) {
    cpu_shared *shared = iter__plan_shared(planner);
    cpu_node *node;
    if (is_same_memory(&in->image, order)) {
        *out = iter__plan_alias(planner, in, &in->shape);
        (*out)->image.order = order;
        return ITER_OK;
    }
    *out = iter__cpu_place_new(planner, in, &in->shape, order);
    ENGINE_TRY(
        iter__plan_node(planner, sizeof(repack_node), &repack_ops, layer, 1, in, *out, &node, err));
    repack_node *r = (repack_node *)node;
    r->is_data = iter__plan_is_data(planner, in);
    if (r->is_data)
        snprintf(shared->convert_text, sizeof(shared->convert_text), "images, %s to %s",
                 order_names[in->image.order], order_names[order]);
    ENGINE_TRY(iter__dnn_repack_create(shared->dnn, &in->image, &(*out)->image, &r->there, err));
    iter__plan_scratch(planner, iter__dnn_repack_scratch(r->there));
    if (!in->wants) return ITER_OK;
    ENGINE_TRY(iter__dnn_repack_create(shared->dnn, &(*out)->image, &in->image, &r->back, err));
    iter__plan_scratch(planner, iter__dnn_repack_scratch(r->back));
    return ITER_OK;
}

/* ---- Convolution ----------------------------------------------------------------------------- */

typedef struct conv_node {
    cpu_node node;
    cpu_conv *conv;
    bool relu, bias;
} conv_node;

static iter_status conv_forward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run;
    const conv_node *c = (const conv_node *)node;
    return iter__dnn_conv_forward(c->conv, node->in->values, node->params[0].weight,
                                  c->bias ? node->params[1].weight : NULL, node->out->values,
                                  node->shared->scratch, err);
}

/* The relu's backward pass, in place. */
static void relu_part(void *user, uint32_t t, uint32_t threads) {
    const cpu_node *node = user;
    const cpu_place *out = node->out;
    const int64_t lines = (out->n_elements + 15) / 16;
    const int64_t from = 16 * iter__cpu_part(lines, t, threads);
    int64_t to = 16 * iter__cpu_part(lines, t + 1, threads);
    if (to > out->n_elements) to = out->n_elements;
    if (from < to)
        node->shared->maps->relu_back(to - from, out->values + from, out->gradient + from, 1.0f,
                                      out->gradient + from);
}

static iter_status conv_backward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run;
    const conv_node *c = (const conv_node *)node;
    const cpu_shared *shared = node->shared;
    if (c->relu)
        iter__cpu_parallel(iter__cpu_worth(node->out->n_elements, shared->threads), relu_part,
                           node);
    ENGINE_TRY(iter__dnn_conv_backward_weights(
        c->conv, node->in->values, node->out->gradient, node->params[0].gradient,
        c->bias ? node->params[1].gradient : NULL, shared->scratch, err));
    if (!node->in->gradient) return ITER_OK;
    return iter__dnn_conv_backward_data(c->conv, node->out->gradient, node->params[0].weight,
                                        node->in->gradient, shared->scratch, err);
}

/* A net of images may hide NaN or infinity in its outputs (see backend_cpu.c), but not in these
 * gradients. */
static bool conv_sound(const cpu_node *node) {
    for (int32_t i = 0; i < node->n_params; i++)
        if (!node->shared->maps->finite(node->params[i].n_elements, node->params[i].gradient))
            return false;
    return true;
}

static iter_status conv_convert(cpu_node *node, int32_t param, iter_value value, cpu_way way,
                                void *canonical, iter_error *err) {
    const conv_node *c = (const conv_node *)node;
    float *own = iter__param_at(&node->params[param], value);
    const size_t bytes = (size_t)node->params[param].n_elements * sizeof(float);
    if (param == 0)
        return way == CPU_OUT ? iter__dnn_conv_weights_out(c->conv, own, canonical, err)
                              : iter__dnn_conv_weights_in(c->conv, canonical, own, err);
    memcpy(way == CPU_OUT ? canonical : own, way == CPU_OUT ? own : canonical, bytes);
    return ITER_OK;
}

static void conv_text(const cpu_node *node, int32_t layer, char *out, size_t capacity) {
    const cpu_conv_needs needs = iter__dnn_conv_needs(((const conv_node *)node)->conv);
    if (layer > node->first_layer)
        snprintf(out, capacity, "in one pass with %s", iter__node_layer(node)->name);
    else
        snprintf(out, capacity, "%s to %s; %s, back %s, %s", order_names[node->in->image.order],
                 order_names[node->out->image.order], needs.forward, needs.backward_data,
                 needs.backward_weights);
}

static void conv_close(cpu_node *node) {
    iter__dnn_conv_destroy(((conv_node *)node)->conv);
}

static const cpu_node_ops conv_ops = {
    .forward = conv_forward,
    .backward = conv_backward,
    .sound = conv_sound,
    .convert = conv_convert,
    .text = conv_text,
    .close = conv_close,
};

static bool is_made_for(const char *kernel) {
    return kernel[0] == '\0' ||
           ((strstr(kernel, "jit") || strstr(kernel, "brg")) && !strstr(kernel, "gemm"));
}

/* A convolution of the images as they are, if oneDNN has an optimised kernel for that; else in the
 * order that it prefers. */
static iter_status choose_conv(cpu_shared *shared, cpu_conv_spec *spec, cpu_order comes,
                               bool is_data, cpu_conv **out, iter_error *err) {
    const cpu_conv_spec wish = *spec;
    ENGINE_TRY(iter__dnn_conv_create(shared->dnn, spec, out, err));
    if (spec->in.order == comes || is_data || comes == CPU_ORDER_NCHW) return ITER_OK;
    cpu_conv_spec as_is = wish;
    as_is.in.order = comes;
    cpu_conv *other = NULL;
    const iter_status status = iter__dnn_conv_create(shared->dnn, &as_is, &other, NULL);
    if (status == ITER_ENOMEM) {
        iter__dnn_conv_destroy(*out);
        return iter__engine_fail(err, status, "out of memory");
    }
    if (status < 0) return ITER_OK;
    const cpu_conv_needs needs = iter__dnn_conv_needs(other);
    if (is_made_for(needs.forward) && is_made_for(needs.backward_data) &&
        is_made_for(needs.backward_weights)) {
        iter__dnn_conv_destroy(*out);
        *out = other;
        *spec = as_is;
    } else {
        iter__dnn_conv_destroy(other);
    }
    return ITER_OK;
}

/* Makes node and parameters of a convolution that has been chosen, and takes it over. */
static iter_status add_conv(cpu_planner *planner, int32_t first, const cpu_conv_spec *spec,
                            cpu_conv *conv, cpu_place *in, cpu_place **out, iter_error *err) {
    const engine_layer *layer = &iter__plan_shared(planner)->net->layers[first];
    const cpu_conv_needs needs = iter__dnn_conv_needs(conv);
    cpu_node *node = NULL;
    iter_status status = ITER_OK;
    if (spec->in.order != in->image.order)
        status = repack(planner, first, in, spec->in.order, &in, err);
    if (status >= 0) {
        *out = iter__cpu_place_new(planner, in, &layer->out, spec->out.order);
        (*out)->kept = spec->relu;
        status = iter__plan_node(planner, sizeof(conv_node), &conv_ops, first, spec->relu ? 2 : 1,
                                 in, *out, &node, err);
    }
    if (status < 0) {
        iter__dnn_conv_destroy(conv);
        return status;
    }
    conv_node *c = (conv_node *)node;
    c->conv = conv;
    c->relu = spec->relu;
    c->bias = spec->bias;
    iter__plan_scratch(planner, needs.scratch_bytes);
    iter__plan_param(planner, node, layer->first_param, needs.n_weights, true);
    if (spec->bias)
        iter__plan_param(planner, node, layer->first_param + 1, layer->out.dims[0], true);
    return ITER_OK;
}

iter_status iter__node_conv(cpu_planner *planner, int32_t first, cpu_place *in, cpu_place **out,
                            int32_t *n_layers, iter_error *err) {
    cpu_shared *shared = iter__plan_shared(planner);
    const engine_layer *layer = &shared->net->layers[first];
    const iter_conv2d_options *o = &layer->options.conv2d;
    /* The last layer is a loss, so a relu is always followed by another layer. */
    const bool relu = layer[1].kind == ENGINE_RELU && layer[2].kind != ENGINE_DROPOUT;
    cpu_conv_spec spec = {
        .in = image_of(shared, &layer->in, CPU_ORDER_ANY),
        .out = image_of(shared, &layer->out, CPU_ORDER_ANY),
        .kernel = o->kernel,
        .stride = o->stride,
        .pad = o->pad,
        .bias = o->bias,
        .relu = relu,
        .input_gradient = in->wants,
    };
    cpu_conv *conv = NULL;
    *n_layers = relu ? 2 : 1;
    ENGINE_TRY(
        choose_conv(shared, &spec, in->image.order, iter__plan_is_data(planner, in), &conv, err));
    return add_conv(planner, first, &spec, conv, in, out, err);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

typedef struct pool_node {
    cpu_node node;
    cpu_pool *pool;
    void *workspace;
} pool_node;

static iter_status pool_forward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run;
    const pool_node *p = (const pool_node *)node;
    return iter__dnn_pool_forward(p->pool, node->in->values, node->out->values, p->workspace,
                                  node->shared->scratch, err);
}

static iter_status pool_backward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run;
    const pool_node *p = (const pool_node *)node;
    if (!node->in->gradient) return ITER_OK;
    return iter__dnn_pool_backward(p->pool, node->out->gradient, node->in->gradient, p->workspace,
                                   node->shared->scratch, err);
}

static void pool_text(const cpu_node *node, int32_t layer, char *out, size_t capacity) {
    (void)layer;
    const cpu_pool_needs needs = iter__dnn_pool_needs(((const pool_node *)node)->pool);
    snprintf(out, capacity, "%s; %s, back %s", order_names[node->in->image.order], needs.forward,
             needs.backward);
}

static void pool_close(cpu_node *node) {
    iter__dnn_pool_destroy(((pool_node *)node)->pool);
}

static const cpu_node_ops pool_ops = {
    .forward = pool_forward,
    .backward = pool_backward,
    .text = pool_text,
    .close = pool_close,
};

iter_status iter__node_pool(cpu_planner *planner, int32_t first, cpu_place *in, cpu_place **out,
                            int32_t *n_layers, iter_error *err) {
    cpu_shared *shared = iter__plan_shared(planner);
    const engine_layer *layer = &shared->net->layers[first];
    const iter_pool_options *o = &layer->options.pool;
    cpu_node *node;
    *n_layers = 1;
    *out = iter__cpu_place_new(planner, in, &layer->out, in->image.order);
    ENGINE_TRY(
        iter__plan_node(planner, sizeof(pool_node), &pool_ops, first, 1, in, *out, &node, err));
    pool_node *p = (pool_node *)node;
    const cpu_pool_spec spec = {
        .in = in->image,
        .out = (*out)->image,
        .size = o->size,
        .stride = o->stride ? o->stride : o->size,
        .pad = o->pad,
        .max = layer->kind == ENGINE_MAXPOOL,
    };
    ENGINE_TRY(iter__dnn_pool_create(shared->dnn, &spec, &p->pool, err));
    const cpu_pool_needs needs = iter__dnn_pool_needs(p->pool);
    iter__plan_memory(planner, &p->workspace, needs.workspace_bytes);
    iter__plan_scratch(planner, needs.scratch_bytes);
    return ITER_OK;
}

/* ---- Flatten --------------------------------------------------------------------------------- */

iter_status iter__node_flatten(cpu_planner *planner, int32_t first, cpu_place *in, cpu_place **out,
                               int32_t *n_layers, iter_error *err) {
    const engine_layer *layer = &iter__plan_shared(planner)->net->layers[first];
    if (in->shape.n_dims == 2) return iter__node_steps(planner, first, in, out, n_layers, err);
    *n_layers = 1;
    if (in->shape.n_dims == 3 && in->image.order != CPU_ORDER_NCHW)
        ENGINE_TRY(repack(planner, first, in, CPU_ORDER_NCHW, &in, err));
    *out = iter__plan_alias(planner, in, &layer->out);
    return ITER_OK;
}
