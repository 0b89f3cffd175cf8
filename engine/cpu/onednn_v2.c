/* onednn_v2.c - onednn_api.h for oneDNN 2, which describes tensors by structs. */
#if defined(ITER_HAVE_DNNL) && ITER_HAVE_DNNL == 2

#include "engine/cpu/onednn_api.h"

#include "engine/engine_memory.h"

const dnnl_format_tag_t iter__dnn_images = dnnl_format_tag_any;

static const dnnl_memory_desc_t *of(const dnn_desc *desc) {
    return (const dnnl_memory_desc_t *)desc;
}

dnnl_status_t iter__dnn_desc_create(dnn_desc **out, int n_dims, const dnnl_dims_t dims,
                                    dnnl_format_tag_t tag) {
    *out = NULL;
    dnnl_memory_desc_t *desc = iter__engine_alloc(1, sizeof(*desc));
    if (!desc) return dnnl_out_of_memory;
    const dnnl_status_t status = dnnl_memory_desc_init_by_tag(desc, n_dims, dims, dnnl_f32, tag);
    if (status == dnnl_success)
        *out = (dnn_desc *)desc;
    else
        iter__engine_free(desc);
    return status;
}

void iter__dnn_desc_destroy(dnn_desc *desc) {
    iter__engine_free(desc);
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

static dnnl_status_t start_convolution(dnnl_convolution_desc_t *out, const dnn_wish *w) {
    switch (w->pass) {
    case DNN_FORWARD:
        return dnnl_convolution_forward_desc_init(out, dnnl_forward_training, w->algorithm,
                                                  of(w->src), of(w->weights), of(w->bias),
                                                  of(w->dst), w->strides, w->pads, w->pads_end);
    case DNN_BACKWARD_DATA:
        return dnnl_convolution_backward_data_desc_init(out, w->algorithm, of(w->src),
                                                        of(w->weights), of(w->dst), w->strides,
                                                        w->pads, w->pads_end);
    default:
        return dnnl_convolution_backward_weights_desc_init(out, w->algorithm, of(w->src),
                                                           of(w->weights), of(w->bias), of(w->dst),
                                                           w->strides, w->pads, w->pads_end);
    }
}

static dnnl_status_t start_pooling(dnnl_pooling_desc_t *out, const dnn_wish *w) {
    if (w->pass == DNN_FORWARD)
        return dnnl_pooling_forward_desc_init(out, dnnl_forward_training, w->algorithm, of(w->src),
                                              of(w->dst), w->strides, w->window, w->pads,
                                              w->pads_end);
    return dnnl_pooling_backward_desc_init(out, w->algorithm, of(w->src), of(w->dst), w->strides,
                                           w->window, w->pads, w->pads_end);
}

dnnl_status_t iter__dnn_describe(dnnl_primitive_desc_t *out, const dnn_wish *wish,
                                 dnnl_engine_t engine) {
    union {
        dnnl_convolution_desc_t convolution;
        dnnl_pooling_desc_t pooling;
    } start;
    const dnnl_status_t status = wish->window ? start_pooling(&start.pooling, wish)
                                              : start_convolution(&start.convolution, wish);
    *out = NULL;
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(out, &start, wish->attr, engine, wish->forward);
}

dnnl_status_t iter__dnn_describe_reorder(dnnl_primitive_desc_t *out, const dnn_desc *from,
                                         const dnn_desc *to, dnnl_engine_t engine,
                                         const_dnnl_primitive_attr_t attr) {
    *out = NULL;
    return dnnl_reorder_primitive_desc_create(out, of(from), engine, of(to), engine, attr);
}

dnnl_status_t iter__dnn_add_relu(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
}

#else

typedef int iter__onednn_v2_is_not_built; /* a file must not be empty */

#endif
