/*
 * cuda_images.c - convolutions and pooling.
 *
 * cuDNN computes convolutions, our own kernels pool. As everywhere in the engine, they give the
 * gradient to the first of equal pixels and pass NaN on; cuDNN documents neither, nor that it pools
 * bf16. Besides, the layers after it can then work in place.
 */
#include <stdio.h>
#include <string.h>

#include "engine/cuda/cuda_plan.h"
#include "engine/engine_error.h"

static const engine_layer *layer_of(const cuda_plan *plan, const cuda_node *node) {
    return &plan->net->layers[node->first_layer];
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static dnn_images images_of(const cuda_plan *plan, const cuda_node *node) {
    const engine_layer *layer = layer_of(plan, node);
    const cuda_place *in = &plan->places[node->in], *out = &plan->places[node->out];
    const bool conv = layer->kind == ENGINE_CONV2D;
    const iter_conv2d_options *c = &layer->options.conv2d;
    const iter_pool_options *p = &layer->options.pool;
    const dnn_images images = {plan->net->batch,
                               in->channels,
                               in->dims[1],
                               in->dims[2],
                               out->channels,
                               out->dims[1],
                               out->dims[2],
                               conv ? c->kernel : p->size,
                               conv        ? c->stride
                               : p->stride ? p->stride
                                           : p->size,
                               conv ? c->pad : p->pad};
    return images;
}

/* ---- Convolution ----------------------------------------------------------------------------- */

static void set_workspace(cuda_node *node) {
    const dnn_conv *conv = &node->as.conv;
    node->workspace_bytes =
        larger(conv->workspace[DNN_FORWARD],
               larger(conv->workspace[DNN_BY_DATA], conv->workspace[DNN_BY_WEIGHTS]));
}

static iter_status conv_prepare(cuda_plan *plan, cuda_node *node, iter_error *err) {
    const dnn_images images = images_of(plan, node);
    ENGINE_TRY(iter__cudnn_conv_make(&plan->machine, &node->as.conv, &images, plan->numbers,
                                     plan->places[node->in].wants,
                                     plan->algorithms == ITER_ALGORITHMS_FAST, err));
    set_workspace(node);
    return ITER_OK;
}

/* In f32 cuDNN reads the masters themselves, [O, C, H, W]. Otherwise it reads a copy: in f16, or as
 * [O, H, W, C] with padded channels. */
static iter_status conv_place(cuda_plan *plan, cuda_node *node, iter_error *err) {
    (void)err;
    const dnn_images s = images_of(plan, node);
    const int32_t p = layer_of(plan, node)->first_param;
    const int64_t n = plan->net->params[p].n_elements, channels = layer_of(plan, node)->in.dims[0];
    const size_t size = iter__cuda_number_bytes(plan);
    const int64_t n_padded = s.out_channels * s.size * s.size * s.channels;
    const bool own = plan->numbers.channels_last || plan->numbers.type != ENGINE_F32;
    const CUdeviceptr copy = own ? iter__cuda_take(plan, n_padded, size) : 0;
    node->weights.gradient = iter__cuda_take(plan, n_padded, size);
    node->weights.at = own ? copy : iter__cuda_master(plan, p);
    engine_piece *piece = iter__cuda_add_piece(plan, p, 0, n, node->weights.gradient,
                                               plan->numbers.type, copy, plan->numbers.type);
    if (!plan->numbers.channels_last) return ITER_OK;
    piece->plain = 0;
    piece->dims[0] = (int32_t)channels;
    piece->dims[1] = piece->dims[2] = (int32_t)s.size;
    piece->strides[0] = s.size * s.size * s.channels;
    piece->strides[1] = 1;
    piece->strides[2] = s.size * s.channels;
    piece->strides[3] = s.channels;
    return ITER_OK;
}

/* A convolution before this one with equal shapes, which uses the same algorithms; NULL = none. */
static const cuda_node *equal_before(const cuda_plan *plan, const cuda_node *node) {
    const dnn_images images = images_of(plan, node);
    for (const cuda_node *other = plan->nodes; other < node; other++) {
        if (other->ops != node->ops || other->as.conv.by_data != node->as.conv.by_data) continue;
        const dnn_images others = images_of(plan, other);
        if (memcmp(&images, &others, sizeof(images)) == 0) return other;
    }
    return NULL;
}

static iter_status conv_measure(cuda_plan *plan, cuda_node *node, CUdeviceptr workspace,
                                size_t bytes, iter_error *err) {
    const cuda_place *in = &plan->places[node->in], *out = &plan->places[node->out];
    const dnn_trial trial = {in->values,       in->gradient,           out->values, out->gradient,
                             node->weights.at, node->weights.gradient, workspace,   bytes};
    const cuda_node *equal = equal_before(plan, node);
    if (equal)
        ENGINE_TRY(
            iter__cudnn_conv_choose_as(&plan->machine, &node->as.conv, &equal->as.conv, err));
    else
        ENGINE_TRY(iter__cudnn_conv_measure(
            &plan->machine, &node->as.conv, &trial, plan->algorithms == ITER_ALGORITHMS_FAST,
            plan->numbers.type != ENGINE_F32 || plan->numbers.tf32, err));
    set_workspace(node);
    return ITER_OK;
}

static iter_status conv_forward(cuda_plan *plan, const cuda_node *node, bool training,
                                iter_error *err) {
    (void)training;
    return iter__cudnn_conv_forward(&plan->machine, &node->as.conv, plan->places[node->in].values,
                                    node->weights.at, plan->places[node->out].values,
                                    plan->workspace, err);
}

static iter_status conv_backward(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    const cuda_place *in = &plan->places[node->in], *out = &plan->places[node->out];
    ENGINE_TRY(iter__cudnn_conv_by_weights(&plan->machine, &node->as.conv, in->values,
                                           out->gradient, node->weights.gradient, plan->workspace,
                                           err));
    if (!in->gradient) return ITER_OK;
    return iter__cudnn_conv_by_data(&plan->machine, &node->as.conv, node->weights.at, out->gradient,
                                    in->gradient, plan->workspace, err);
}

static void conv_drop(cuda_plan *plan, cuda_node *node) {
    iter__cudnn_conv_drop(&plan->machine, &node->as.conv);
}

static void conv_text(const cuda_plan *plan, const cuda_node *node, char *out, size_t capacity) {
    (void)plan;
    iter__cudnn_conv_text(&node->as.conv, out, capacity);
}

const cuda_node_ops iter__cuda_conv = {
    .prepare = conv_prepare,
    .place = conv_place,
    .measure = conv_measure,
    .forward = conv_forward,
    .backward = conv_backward,
    .drop = conv_drop,
    .text = conv_text,
};

/* ---- Pooling --------------------------------------------------------------------------------- */

static engine_pool_args pool_args(const cuda_plan *plan, const cuda_node *node, int64_t n) {
    const cuda_place *in = &plan->places[node->in], *out = &plan->places[node->out];
    const dnn_images s = images_of(plan, node);
    const engine_pool_args args = {.in = in->values,
                                   .out = out->values,
                                   .d_out = out->gradient,
                                   .d_in = in->gradient,
                                   .n = n,
                                   .channels = (int32_t)s.channels,
                                   .height = (int32_t)s.height,
                                   .width = (int32_t)s.width,
                                   .out_height = (int32_t)s.out_height,
                                   .out_width = (int32_t)s.out_width,
                                   .size = (int32_t)s.size,
                                   .stride = (int32_t)s.stride,
                                   .pad = (int32_t)s.pad,
                                   .order = (int32_t)in->order,
                                   .type = (int32_t)plan->numbers.type,
                                   .lanes = in->order == ENGINE_NHWC ? ENGINE_LANES : 1,
                                   .mean = layer_of(plan, node)->kind == ENGINE_AVGPOOL};
    return args;
}

static iter_status pool_forward(cuda_plan *plan, const cuda_node *node, bool training,
                                iter_error *err) {
    (void)training;
    const int64_t n = plan->places[node->out].n_elements;
    const engine_pool_args args = pool_args(plan, node, n);
    return iter__machine_launch_over(&plan->machine, kernel_engine_pool, n / args.lanes, &args,
                                     err);
}

static iter_status pool_backward(cuda_plan *plan, const cuda_node *node, iter_error *err) {
    const int64_t n_in = plan->places[node->in].n_elements,
                  n_out = plan->places[node->out].n_elements;
    engine_pool_args args = pool_args(plan, node, n_out);
    if (args.stride == args.size && args.pad == 0)
        return iter__machine_launch_over(&plan->machine, kernel_engine_pool_back_apart,
                                         n_out / args.lanes, &args, err);
    args.n = n_in;
    return iter__machine_launch_over(&plan->machine, kernel_engine_pool_back, n_in, &args, err);
}

const cuda_node_ops iter__cuda_pool = {
    .forward = pool_forward,
    .backward = pool_backward,
};
