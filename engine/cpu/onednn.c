/*
 * onednn.c - see onednn.h.
 *
 * An operation is a primitive with one memory object per argument. The address of an argument is
 * set only when it has changed, because oneDNN 2 may write zeros into a tensor's padding each time
 * it is set; in a plan only the data of the first layer moves. Scratch is always the caller's
 * (scratchpad_mode user), because primitives would otherwise allocate.
 *
 * Convolutions are requested with format_tag any, so oneDNN chooses the format of weights for each
 * pass. Weights are stored in the forward pass's format. If a backward pass wants another one, they
 * are repacked for it (less than one percent of the pass).
 *
 * 3 x 3 convolutions with stride 1 and at least WINOGRAD_CHANNELS channels run as Winograd's F(4 x
 * 4, 3 x 3) if oneDNN has it (version 2 with AVX-512). That is 1.7 to 2 times as fast as direct
 * convolution on the networks here. It is accurate enough: against double, the error is at most
 * 3e-6 of the largest value, that of direct ones 4e-6 (K = 288 to 65536, normal and rectified
 * data). oneDNN's own choice, algorithm auto, also uses it for three channels, where it is five
 * times slower.
 */
#include "engine/cpu/onednn.h"

#include <oneapi/dnnl/dnnl_debug.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/cpu/onednn_api.h"
#include "engine/engine_error.h"
#include "engine/engine_memory.h"

#define WINOGRAD_CHANNELS 32
#define ARGS_MAX          6
#define ALIGNMENT         64

struct cpu_dnn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr, attr_relu;
};

typedef struct operation {
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    int32_t n_args;
    dnnl_exec_arg_t args[ARGS_MAX];
    const void *at[ARGS_MAX];
    size_t scratch_bytes;
} operation;

/* ---- Errors ---------------------------------------------------------------------------------- */

static iter_status fail(iter_error *err, dnnl_status_t status, const char *what) {
    if (status == dnnl_out_of_memory)
        return iter__engine_fail(err, ITER_ENOMEM, "oneDNN: no memory for %s", what);
    return iter__engine_fail(err, ITER_EUNSUPPORTED, "oneDNN: %s: %s", what,
                             dnnl_status2str(status));
}

#define DNN_TRY(call, what)                                                   \
    do {                                                                      \
        const dnnl_status_t dnn_status_ = (call);                             \
        if (dnn_status_ != dnnl_success) return fail(err, dnn_status_, what); \
    } while (0)

/* ---- The library ----------------------------------------------------------------------------- */

static dnnl_status_t start(cpu_dnn *dnn) {
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t s = dnnl_engine_create(&dnn->engine, dnnl_cpu, 0);
    if (s == dnnl_success)
        s = dnnl_stream_create(&dnn->stream, dnn->engine, dnnl_stream_default_flags);
    if (s == dnnl_success) s = dnnl_primitive_attr_create(&dnn->attr);
    if (s == dnnl_success) s = dnnl_primitive_attr_create(&dnn->attr_relu);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_scratchpad_mode(dnn->attr, dnnl_scratchpad_mode_user);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_scratchpad_mode(dnn->attr_relu, dnnl_scratchpad_mode_user);
    if (s == dnnl_success) s = dnnl_post_ops_create(&ops);
    if (s == dnnl_success) s = iter__dnn_add_relu(ops);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(dnn->attr_relu, ops);
    if (ops) dnnl_post_ops_destroy(ops);
    return s;
}

iter_status iter__dnn_open(cpu_dnn **out, iter_error *err) {
    *out = NULL;
    cpu_dnn *dnn = iter__engine_alloc(1, sizeof(*dnn));
    if (!dnn) return fail(err, dnnl_out_of_memory, "the engine");
    const dnnl_status_t status = start(dnn);
    if (status != dnnl_success) {
        iter__dnn_close(dnn);
        return fail(err, status, "the engine");
    }
    *out = dnn;
    return ITER_OK;
}

void iter__dnn_close(cpu_dnn *dnn) {
    if (!dnn) return;
    if (dnn->attr_relu) dnnl_primitive_attr_destroy(dnn->attr_relu);
    if (dnn->attr) dnnl_primitive_attr_destroy(dnn->attr);
    if (dnn->stream) dnnl_stream_destroy(dnn->stream);
    if (dnn->engine) dnnl_engine_destroy(dnn->engine);
    iter__engine_free(dnn);
}

void iter__dnn_text(char *out, size_t capacity) {
    const dnnl_version_t *v = dnnl_version();
    snprintf(out, capacity, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static void operation_drop(operation *op) {
    for (int32_t i = 0; i < op->n_args; i++)
        dnnl_memory_destroy(op->args[i].memory);
    if (op->primitive) dnnl_primitive_destroy(op->primitive);
    if (op->desc) dnnl_primitive_desc_destroy(op->desc);
    *op = (operation){0};
}

static const char *operation_text(const operation *op) {
    const char *text = "";
    if (!op->desc || dnnl_primitive_desc_query(op->desc, dnnl_query_impl_info_str, 0,
                                               (void *)&text) != dnnl_success)
        return "";
    return text;
}

static iter_status add_arg(cpu_dnn *dnn, operation *op, int arg, const dnn_desc *desc,
                           iter_error *err) {
    dnnl_memory_t memory = NULL;
    DNN_TRY(iter__dnn_memory(&memory, desc, dnn->engine), "an argument");
    op->args[op->n_args++] = (dnnl_exec_arg_t){arg, memory};
    return ITER_OK;
}

/* Makes the primitive of op->desc with arguments args [n]; adds scratch if the primitive wants
 * some. */
static iter_status operation_finish(cpu_dnn *dnn, operation *op, int32_t n, const int *args,
                                    iter_error *err) {
    DNN_TRY(dnnl_primitive_create(&op->primitive, op->desc), operation_text(op));
    for (int32_t i = 0; i < n; i++)
        ENGINE_TRY(add_arg(dnn, op, args[i], iter__dnn_desc_of(op->desc, args[i]), err));
    const dnn_desc *scratch = iter__dnn_desc_of(op->desc, DNNL_ARG_SCRATCHPAD);
    op->scratch_bytes = scratch ? iter__dnn_desc_bytes(scratch) : 0;
    if (op->scratch_bytes) return add_arg(dnn, op, DNNL_ARG_SCRATCHPAD, scratch, err);
    return ITER_OK;
}

/* at [n_args]: the arguments' addresses. Scratch comes last and is used only if it is wanted. */
static iter_status operation_run(cpu_dnn *dnn, operation *op, const void *const *at,
                                 iter_error *err) {
    for (int32_t i = 0; i < op->n_args; i++) {
        if (op->at[i] == at[i]) continue;
        DNN_TRY(dnnl_memory_set_data_handle(op->args[i].memory, (void *)(uintptr_t)at[i]),
                "an argument");
        op->at[i] = at[i];
    }
    DNN_TRY(dnnl_primitive_execute(op->primitive, dnn->stream, op->n_args, op->args),
            operation_text(op));
    DNN_TRY(dnnl_stream_wait(dnn->stream), operation_text(op));
    return ITER_OK;
}

static iter_status reorder_make(cpu_dnn *dnn, operation *op, const dnn_desc *from,
                                const dnn_desc *to, iter_error *err) {
    DNN_TRY(iter__dnn_describe_reorder(&op->desc, from, to, dnn->engine, dnn->attr), "a reorder");
    return operation_finish(dnn, op, 2, (const int[]){DNNL_ARG_FROM, DNNL_ARG_TO}, err);
}

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- Images ---------------------------------------------------------------------------------- */

static const dnnl_format_tag_t tags[] = {
    [CPU_ORDER_ANY] = dnnl_format_tag_any, [CPU_ORDER_NCHW] = dnnl_nchw,
    [CPU_ORDER_NHWC] = dnnl_nhwc,          [CPU_ORDER_BLOCK8] = dnnl_nChw8c,
    [CPU_ORDER_BLOCK16] = dnnl_nChw16c,
};

#define N_ORDERS ((int)(sizeof(tags) / sizeof(tags[0])))

int64_t iter__image_channels(const cpu_image *image) {
    const int64_t block = image->order == CPU_ORDER_BLOCK16  ? 16
                          : image->order == CPU_ORDER_BLOCK8 ? 8
                                                             : 1;
    return (image->c + block - 1) / block * block;
}

int64_t iter__image_elements(const cpu_image *image) {
    return image->n * iter__image_channels(image) * image->h * image->w;
}

static dnnl_status_t describe_image(dnn_desc **out, const cpu_image *image) {
    const dnnl_dims_t dims = {image->n, image->c, image->h, image->w};
    const bool any = image->order == CPU_ORDER_ANY;
    return iter__dnn_desc_create(out, 4, dims, any ? iter__dnn_images : tags[image->order]);
}

cpu_order iter__dnn_order(void) {
    for (int i = CPU_ORDER_NCHW; i < N_ORDERS; i++)
        if (tags[i] == iter__dnn_images) return (cpu_order)i;
    return CPU_ORDER_ANY;
}

/* Which of our orders oneDNN chose for an image; ANY = none of them. */
static dnnl_status_t find_order(const dnn_desc *desc, const cpu_image *image, cpu_order *out) {
    *out = CPU_ORDER_ANY;
    for (int i = CPU_ORDER_NCHW; i < N_ORDERS && *out == CPU_ORDER_ANY; i++) {
        cpu_image with = *image;
        with.order = (cpu_order)i;
        dnn_desc *other = NULL;
        const dnnl_status_t status = describe_image(&other, &with);
        if (status == dnnl_out_of_memory) return status;
        if (status == dnnl_success && iter__dnn_desc_equal(desc, other)) *out = (cpu_order)i;
        iter__dnn_desc_destroy(other);
    }
    return dnnl_success;
}

/* ---- Convolution ----------------------------------------------------------------------------- */

struct cpu_conv {
    cpu_dnn *dnn;
    cpu_conv_spec spec;
    operation forward, backward_data, backward_weights;
    operation in, out;                        /* weights from and to their canonical order */
    operation weights_back, gradient_forward; /* if a backward pass wants another format */
    size_t own_scratch; /* bytes of scratch for primitives; weights come after it */
    cpu_conv_needs needs;
};

/* Descriptions with which a convolution is requested. */
typedef struct conv_descs {
    dnn_desc *src, *dst, *bias, *any, *canonical;
} conv_descs;

static void conv_descs_drop(conv_descs *d) {
    iter__dnn_desc_destroy(d->src);
    iter__dnn_desc_destroy(d->dst);
    iter__dnn_desc_destroy(d->bias);
    iter__dnn_desc_destroy(d->any);
    iter__dnn_desc_destroy(d->canonical);
    *d = (conv_descs){0};
}

static iter_status conv_descs_make(conv_descs *d, const cpu_conv_spec *spec, iter_error *err) {
    const dnnl_dims_t weights = {spec->out.c, spec->in.c, spec->kernel, spec->kernel};
    DNN_TRY(describe_image(&d->src, &spec->in), "an image");
    DNN_TRY(describe_image(&d->dst, &spec->out), "an image");
    DNN_TRY(iter__dnn_desc_create(&d->any, 4, weights, dnnl_format_tag_any), "weights");
    DNN_TRY(iter__dnn_desc_create(&d->canonical, 4, weights, dnnl_oihw), "weights");
    if (spec->bias)
        DNN_TRY(iter__dnn_desc_create(&d->bias, 1, (const dnnl_dims_t){spec->out.c}, dnnl_a),
                "a bias");
    return ITER_OK;
}

/* Padding after an image that makes `out` windows fit. */
static int64_t pad_end(int64_t in, int64_t out, int64_t size, int64_t stride, int64_t pad) {
    const int64_t missing = (out - 1) * stride + size - in - pad;
    return missing > 0 ? missing : 0;
}

static dnn_wish conv_wish(const cpu_conv *conv, const conv_descs *d, dnn_pass pass,
                          dnnl_alg_kind_t algorithm) {
    const cpu_conv_spec *s = &conv->spec;
    return (dnn_wish){
        .pass = pass,
        .algorithm = algorithm,
        .src = d->src,
        .dst = d->dst,
        .weights = d->any,
        .bias = d->bias,
        .strides = {s->stride, s->stride},
        .pads = {s->pad, s->pad},
        .pads_end = {pad_end(s->in.h, s->out.h, s->kernel, s->stride, s->pad),
                     pad_end(s->in.w, s->out.w, s->kernel, s->stride, s->pad)},
        .forward = conv->forward.desc,
        .attr = pass == DNN_FORWARD && s->relu ? conv->dnn->attr_relu : conv->dnn->attr,
    };
}

static bool suits_winograd(const cpu_conv_spec *s) {
    return s->kernel == 3 && s->stride == 1 && s->in.c >= WINOGRAD_CHANNELS &&
           s->out.c >= WINOGRAD_CHANNELS;
}

/* Describes the pass with Winograd if it suits and oneDNN has it, else direct. */
static dnnl_status_t conv_describe(cpu_conv *conv, const conv_descs *d, dnn_pass pass,
                                   operation *op) {
    dnnl_status_t status = dnnl_unimplemented;
    if (suits_winograd(&conv->spec)) {
        const dnn_wish wish = conv_wish(conv, d, pass, dnnl_convolution_winograd);
        status = iter__dnn_describe(&op->desc, &wish, conv->dnn->engine);
    }
    if (status != dnnl_success && status != dnnl_out_of_memory) {
        const dnn_wish wish = conv_wish(conv, d, pass, dnnl_convolution_direct);
        status = iter__dnn_describe(&op->desc, &wish, conv->dnn->engine);
    }
    return status;
}

/* Describes the forward pass in the orders of spec; if these are ANY, stores what oneDNN chose. If
 * the choice is none of our orders, the pass counts as unimplemented. */
static iter_status conv_describe_forward(cpu_conv *conv, conv_descs *d, const cpu_conv_spec *spec,
                                         iter_error *err) {
    conv->spec = *spec;
    ENGINE_TRY(conv_descs_make(d, spec, err));
    DNN_TRY(conv_describe(conv, d, DNN_FORWARD, &conv->forward), "a convolution");
    const dnn_desc *src = iter__dnn_desc_of(conv->forward.desc, DNNL_ARG_SRC);
    const dnn_desc *dst = iter__dnn_desc_of(conv->forward.desc, DNNL_ARG_DST);
    DNN_TRY(find_order(src, &spec->in, &conv->spec.in.order), "an image");
    DNN_TRY(find_order(dst, &spec->out, &conv->spec.out.order), "an image");
    if (conv->spec.in.order != CPU_ORDER_ANY && conv->spec.out.order != CPU_ORDER_ANY)
        return ITER_OK;
    dnnl_primitive_desc_destroy(conv->forward.desc);
    conv->forward.desc = NULL;
    return fail(err, dnnl_unimplemented, "an order of images");
}

/* The backward passes read and write images in the forward pass's orders. */
static iter_status conv_describe_backward(cpu_conv *conv, conv_descs *d, iter_error *err) {
    conv_descs_drop(d);
    ENGINE_TRY(conv_descs_make(d, &conv->spec, err));
    if (conv->spec.input_gradient)
        DNN_TRY(conv_describe(conv, d, DNN_BACKWARD_DATA, &conv->backward_data),
                "a convolution's gradient of data");
    DNN_TRY(conv_describe(conv, d, DNN_BACKWARD_WEIGHTS, &conv->backward_weights),
            "a convolution's gradient of weights");
    return ITER_OK;
}

/* Reorders of weights: to and from canonical form, and to the format of a backward pass. */
static iter_status conv_make_reorders(cpu_conv *conv, const conv_descs *d, iter_error *err) {
    cpu_dnn *dnn = conv->dnn;
    const dnn_desc *own = iter__dnn_desc_of(conv->forward.desc, DNNL_ARG_WEIGHTS);
    const dnn_desc *grad = iter__dnn_desc_of(conv->backward_weights.desc, DNNL_ARG_DIFF_WEIGHTS);
    size_t other_bytes = 0;
    ENGINE_TRY(reorder_make(dnn, &conv->in, d->canonical, own, err));
    ENGINE_TRY(reorder_make(dnn, &conv->out, own, d->canonical, err));
    if (!iter__dnn_desc_equal(own, grad)) {
        ENGINE_TRY(reorder_make(dnn, &conv->gradient_forward, grad, own, err));
        other_bytes = iter__dnn_desc_bytes(grad);
    }
    if (conv->spec.input_gradient) {
        const dnn_desc *back = iter__dnn_desc_of(conv->backward_data.desc, DNNL_ARG_WEIGHTS);
        if (!iter__dnn_desc_equal(own, back)) {
            ENGINE_TRY(reorder_make(dnn, &conv->weights_back, own, back, err));
            other_bytes = most(other_bytes, iter__dnn_desc_bytes(back));
        }
    }
    const operation *all[] = {&conv->forward, &conv->backward_data, &conv->backward_weights,
                              &conv->weights_back, &conv->gradient_forward};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        conv->own_scratch = most(conv->own_scratch, aligned(all[i]->scratch_bytes));
    conv->needs = (cpu_conv_needs){
        .n_weights = (int64_t)(iter__dnn_desc_bytes(own) / sizeof(float)),
        .scratch_bytes = conv->own_scratch + aligned(other_bytes),
        .forward = operation_text(&conv->forward),
        .backward_data = operation_text(&conv->backward_data),
        .backward_weights = operation_text(&conv->backward_weights),
    };
    return ITER_OK;
}

static iter_status conv_make(cpu_conv *conv, const conv_descs *d, iter_error *err) {
    cpu_dnn *dnn = conv->dnn;
    const int32_t n = conv->spec.bias ? 4 : 3;
    const int forward[] = {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS};
    const int data[] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS};
    const int weights[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS,
                           DNNL_ARG_DIFF_BIAS};
    ENGINE_TRY(operation_finish(dnn, &conv->forward, n, forward, err));
    if (conv->spec.input_gradient)
        ENGINE_TRY(operation_finish(dnn, &conv->backward_data, 3, data, err));
    ENGINE_TRY(operation_finish(dnn, &conv->backward_weights, n, weights, err));
    return conv_make_reorders(conv, d, err);
}

/* Uses the orders as requested; if oneDNN then chooses none of ours, channels last everywhere. */
static iter_status conv_plan(cpu_conv *conv, const cpu_conv_spec *spec, iter_error *err) {
    conv_descs d = {0};
    iter_status status = conv_describe_forward(conv, &d, spec, err);
    if (status < 0 && status != ITER_ENOMEM) {
        cpu_conv_spec last = *spec;
        if (!last.in.order) last.in.order = CPU_ORDER_NHWC;
        if (!last.out.order) last.out.order = CPU_ORDER_NHWC;
        conv_descs_drop(&d);
        status = conv_describe_forward(conv, &d, &last, err);
    }
    if (status >= 0) status = conv_describe_backward(conv, &d, err);
    if (status >= 0) status = conv_make(conv, &d, err);
    conv_descs_drop(&d);
    return status;
}

iter_status iter__dnn_conv_create(cpu_dnn *dnn, cpu_conv_spec *spec, cpu_conv **out,
                                  iter_error *err) {
    *out = NULL;
    cpu_conv *conv = iter__engine_alloc(1, sizeof(*conv));
    if (!conv) return fail(err, dnnl_out_of_memory, "a convolution");
    conv->dnn = dnn;
    const iter_status status = conv_plan(conv, spec, err);
    if (status < 0) {
        iter__dnn_conv_destroy(conv);
        return status;
    }
    *spec = conv->spec;
    *out = conv;
    return ITER_OK;
}

void iter__dnn_conv_destroy(cpu_conv *conv) {
    if (!conv) return;
    operation_drop(&conv->forward);
    operation_drop(&conv->backward_data);
    operation_drop(&conv->backward_weights);
    operation_drop(&conv->in);
    operation_drop(&conv->out);
    operation_drop(&conv->weights_back);
    operation_drop(&conv->gradient_forward);
    iter__engine_free(conv);
}

cpu_conv_needs iter__dnn_conv_needs(const cpu_conv *conv) {
    return conv->needs;
}

iter_status iter__dnn_conv_forward(cpu_conv *conv, const float *src, const float *weight,
                                   const float *bias, float *dst, void *scratch, iter_error *err) {
    const void *with[] = {src, dst, weight, bias, scratch};
    const void *without[] = {src, dst, weight, scratch};
    return operation_run(conv->dnn, &conv->forward, conv->spec.bias ? with : without, err);
}

iter_status iter__dnn_conv_backward_data(cpu_conv *conv, const float *ddst, const float *weight,
                                         float *dsrc, void *scratch, iter_error *err) {
    if (conv->weights_back.primitive) {
        const void *other = (const char *)scratch + conv->own_scratch;
        const void *at[] = {weight, other, scratch};
        ENGINE_TRY(operation_run(conv->dnn, &conv->weights_back, at, err));
        weight = other;
    }
    const void *at[] = {dsrc, ddst, weight, scratch};
    return operation_run(conv->dnn, &conv->backward_data, at, err);
}

iter_status iter__dnn_conv_backward_weights(cpu_conv *conv, const float *src, const float *ddst,
                                            float *dweight, float *dbias, void *scratch,
                                            iter_error *err) {
    const bool reorders = conv->gradient_forward.primitive;
    const void *made = reorders ? (const char *)scratch + conv->own_scratch : (const void *)dweight;
    const void *with[] = {src, ddst, made, dbias, scratch};
    const void *without[] = {src, ddst, made, scratch};
    ENGINE_TRY(
        operation_run(conv->dnn, &conv->backward_weights, conv->spec.bias ? with : without, err));
    if (!reorders) return ITER_OK;
    const void *at[] = {made, dweight, scratch};
    return operation_run(conv->dnn, &conv->gradient_forward, at, err);
}

/* A reorder that is not part of a step has its own scratch. */
static iter_status reorder_alone(cpu_dnn *dnn, operation *op, const void *from, void *to,
                                 iter_error *err) {
    void *scratch = op->scratch_bytes ? iter__engine_alloc(op->scratch_bytes, 1) : NULL;
    if (op->scratch_bytes && !scratch) return fail(err, dnnl_out_of_memory, "a reorder");
    const void *at[] = {from, to, scratch};
    const iter_status status = operation_run(dnn, op, at, err);
    iter__engine_free(scratch);
    return status;
}

iter_status iter__dnn_conv_weights_in(cpu_conv *conv, const float *canonical, float *weight,
                                      iter_error *err) {
    return reorder_alone(conv->dnn, &conv->in, canonical, weight, err);
}

iter_status iter__dnn_conv_weights_out(cpu_conv *conv, const float *weight, float *canonical,
                                       iter_error *err) {
    return reorder_alone(conv->dnn, &conv->out, weight, canonical, err);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

struct cpu_pool {
    cpu_dnn *dnn;
    operation forward, backward;
    bool workspace;
    cpu_pool_needs needs;
};

static iter_status pool_plan(cpu_pool *pool, const cpu_pool_spec *s, const dnn_desc *src,
                             const dnn_desc *dst, iter_error *err) {
    cpu_dnn *dnn = pool->dnn;
    const dnnl_dims_t window = {s->size, s->size};
    dnn_wish wish = {
        .algorithm = s->max ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding,
        .src = src,
        .dst = dst,
        .window = window,
        .strides = {s->stride, s->stride},
        .pads = {s->pad, s->pad},
        .pads_end = {pad_end(s->in.h, s->out.h, s->size, s->stride, s->pad),
                     pad_end(s->in.w, s->out.w, s->size, s->stride, s->pad)},
        .attr = dnn->attr,
    };
    DNN_TRY(iter__dnn_describe(&pool->forward.desc, &wish, dnn->engine), "a pooling");
    wish.pass = DNN_BACKWARD_DATA;
    wish.forward = pool->forward.desc;
    DNN_TRY(iter__dnn_describe(&pool->backward.desc, &wish, dnn->engine), "a pooling's gradient");
    const dnn_desc *workspace = iter__dnn_desc_of(pool->forward.desc, DNNL_ARG_WORKSPACE);
    pool->needs.workspace_bytes = workspace ? iter__dnn_desc_bytes(workspace) : 0;
    pool->workspace = pool->needs.workspace_bytes > 0;
    const int32_t n = pool->workspace ? 3 : 2;
    const int forward[] = {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WORKSPACE};
    const int backward[] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WORKSPACE};
    ENGINE_TRY(operation_finish(dnn, &pool->forward, n, forward, err));
    ENGINE_TRY(operation_finish(dnn, &pool->backward, n, backward, err));
    pool->needs.scratch_bytes = most(pool->forward.scratch_bytes, pool->backward.scratch_bytes);
    pool->needs.forward = operation_text(&pool->forward);
    pool->needs.backward = operation_text(&pool->backward);
    return ITER_OK;
}

iter_status iter__dnn_pool_create(cpu_dnn *dnn, const cpu_pool_spec *spec, cpu_pool **out,
                                  iter_error *err) {
    dnn_desc *src = NULL, *dst = NULL;
    *out = NULL;
    cpu_pool *pool = iter__engine_alloc(1, sizeof(*pool));
    if (!pool) return fail(err, dnnl_out_of_memory, "a pooling");
    pool->dnn = dnn;
    dnnl_status_t made = describe_image(&src, &spec->in);
    if (made == dnnl_success) made = describe_image(&dst, &spec->out);
    const iter_status status =
        made == dnnl_success ? pool_plan(pool, spec, src, dst, err) : fail(err, made, "an image");
    iter__dnn_desc_destroy(src);
    iter__dnn_desc_destroy(dst);
    if (status < 0)
        iter__dnn_pool_destroy(pool);
    else
        *out = pool;
    return status;
}

void iter__dnn_pool_destroy(cpu_pool *pool) {
    if (!pool) return;
    operation_drop(&pool->forward);
    operation_drop(&pool->backward);
    iter__engine_free(pool);
}

cpu_pool_needs iter__dnn_pool_needs(const cpu_pool *pool) {
    return pool->needs;
}

iter_status iter__dnn_pool_forward(cpu_pool *pool, const float *src, float *dst, void *workspace,
                                   void *scratch, iter_error *err) {
    const void *with[] = {src, dst, workspace, scratch};
    const void *without[] = {src, dst, scratch};
    return operation_run(pool->dnn, &pool->forward, pool->workspace ? with : without, err);
}

iter_status iter__dnn_pool_backward(cpu_pool *pool, const float *ddst, float *dsrc, void *workspace,
                                    void *scratch, iter_error *err) {
    const void *with[] = {dsrc, ddst, workspace, scratch};
    const void *without[] = {dsrc, ddst, scratch};
    return operation_run(pool->dnn, &pool->backward, pool->workspace ? with : without, err);
}

/* ---- Other orders, products ------------------------------------------------------------------ */

struct cpu_repack {
    cpu_dnn *dnn;
    operation run;
};

iter_status iter__dnn_repack_create(cpu_dnn *dnn, const cpu_image *from, const cpu_image *to,
                                    cpu_repack **out, iter_error *err) {
    dnn_desc *a = NULL, *b = NULL;
    *out = NULL;
    cpu_repack *repack = iter__engine_alloc(1, sizeof(*repack));
    if (!repack) return fail(err, dnnl_out_of_memory, "a reorder");
    repack->dnn = dnn;
    dnnl_status_t made = describe_image(&a, from);
    if (made == dnnl_success) made = describe_image(&b, to);
    const iter_status status = made == dnnl_success ? reorder_make(dnn, &repack->run, a, b, err)
                                                    : fail(err, made, "an image");
    iter__dnn_desc_destroy(a);
    iter__dnn_desc_destroy(b);
    if (status < 0)
        iter__dnn_repack_destroy(repack);
    else
        *out = repack;
    return status;
}

void iter__dnn_repack_destroy(cpu_repack *repack) {
    if (!repack) return;
    operation_drop(&repack->run);
    iter__engine_free(repack);
}

size_t iter__dnn_repack_scratch(const cpu_repack *repack) {
    return repack->run.scratch_bytes;
}

iter_status iter__dnn_repack_run(cpu_repack *repack, const float *from, float *to, void *scratch,
                                 iter_error *err) {
    const void *at[] = {from, to, scratch};
    return operation_run(repack->dnn, &repack->run, at, err);
}

bool iter__dnn_sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                     const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                     int64_t ldc) {
    return dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b,
                      ldb, beta, c, ldc) == dnnl_success;
}
