/* onednn_v3.c - onednn_api.h for oneDNN 3, which describes tensors by objects. */
#if defined(ITER_HAVE_DNNL) && ITER_HAVE_DNNL == 3

#include "engine/cpu/onednn_api.h"

/* Version 3 has no Winograd. Of its direct convolutions the fastest are those by batched products,
 * which use channels last and waste nothing on 50 or 100 channels. If asked with `any`, version 3.2
 * nevertheless chooses blocked ones. */
const dnnl_format_tag_t iter__dnn_images = dnnl_nhwc;

static const_dnnl_memory_desc_t of(const dnn_desc *desc) {
    return (const_dnnl_memory_desc_t)desc;
}

dnnl_status_t iter__dnn_desc_create(dnn_desc **out, int n_dims, const dnnl_dims_t dims,
                                    dnnl_format_tag_t tag) {
    dnnl_memory_desc_t desc = NULL;
    const dnnl_status_t status =
        dnnl_memory_desc_create_with_tag(&desc, n_dims, dims, dnnl_f32, tag);
    *out = status == dnnl_success ? (dnn_desc *)desc : NULL;
    return status;
}

void iter__dnn_desc_destroy(dnn_desc *desc) {
    if (desc) dnnl_memory_desc_destroy((dnnl_memory_desc_t)desc);
}

bool iter__dnn_desc_equal(const dnn_desc *a, const dnn_desc *b) {
    return dnnl_memory_desc_equal(of(a), of(b));
}

size_t iter__dnn_desc_bytes(const dnn_desc *desc) {
    return dnnl_memory_desc_get_size(of(desc));
}

const dnn_desc *iter__dnn_desc_of(const_dnnl_primitive_desc_t primitive, int arg) {
    return (const dnn_desc *)dnnl_primitive_desc_query_md(primitive, dnnl_query_exec_arg_md, arg);
}

dnnl_status_t iter__dnn_memory(dnnl_memory_t *out, const dnn_desc *desc, dnnl_engine_t engine) {
    return dnnl_memory_create(out, of(desc), engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t describe_convolution(dnnl_primitive_desc_t *out, const dnn_wish *w,
                                          dnnl_engine_t engine) {
    switch (w->pass) {
    case DNN_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(
            out, engine, dnnl_forward_training, w->algorithm, of(w->src), of(w->weights),
            of(w->bias), of(w->dst), w->strides, NULL, w->pads, w->pads_end, w->attr);
    case DNN_BACKWARD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, w->algorithm, of(w->src), of(w->weights), of(w->dst), w->strides, NULL,
            w->pads, w->pads_end, w->forward, w->attr);
    default:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, engine, w->algorithm, of(w->src), of(w->weights), of(w->bias), of(w->dst),
            w->strides, NULL, w->pads, w->pads_end, w->forward, w->attr);
    }
}

static dnnl_status_t describe_pooling(dnnl_primitive_desc_t *out, const dnn_wish *w,
                                      dnnl_engine_t engine) {
    const dnnl_dims_t dense = {0, 0};
    if (w->pass == DNN_FORWARD)
        return dnnl_pooling_forward_primitive_desc_create(
            out, engine, dnnl_forward_training, w->algorithm, of(w->src), of(w->dst), w->strides,
            w->window, dense, w->pads, w->pads_end, w->attr);
    return dnnl_pooling_backward_primitive_desc_create(out, engine, w->algorithm, of(w->src),
                                                       of(w->dst), w->strides, w->window, dense,
                                                       w->pads, w->pads_end, w->forward, w->attr);
}

dnnl_status_t iter__dnn_describe(dnnl_primitive_desc_t *out, const dnn_wish *wish,
                                 dnnl_engine_t engine) {
    *out = NULL;
    return wish->window ? describe_pooling(out, wish, engine)
                        : describe_convolution(out, wish, engine);
}

dnnl_status_t iter__dnn_describe_reorder(dnnl_primitive_desc_t *out, const dnn_desc *from,
                                         const dnn_desc *to, dnnl_engine_t engine,
                                         const_dnnl_primitive_attr_t attr) {
    *out = NULL;
    return dnnl_reorder_primitive_desc_create(out, of(from), engine, of(to), engine, attr);
}

dnnl_status_t iter__dnn_add_relu(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f);
}

#else

typedef int iter__onednn_v3_is_not_built; /* a file must not be empty */

#endif
