/*
 * onednn_api.h - the differences between versions 2 and 3 of oneDNN's C API, for onednn.c.
 *
 * In version 2 the description of a tensor is a struct, in version 3 an object; here it is a
 * dnn_desc. A primitive is described in two calls in version 2, in one call in version 3; here by
 * one struct. The implementations are onednn_v2.c and onednn_v3.c; a build has one of them.
 */
#ifndef ENGINE_CPU_ONEDNN_API_H
#define ENGINE_CPU_ONEDNN_API_H

#include <stdbool.h>
#include <stddef.h>

#include <oneapi/dnnl/dnnl.h>

typedef struct dnn_desc dnn_desc;

typedef enum dnn_pass { DNN_FORWARD, DNN_BACKWARD_DATA, DNN_BACKWARD_WEIGHTS } dnn_pass;

/* A convolution or, if `window` is set, a pooling. In a backward pass, src, dst, weights and bias
 * are their gradients if the pass reads or computes these. */
typedef struct dnn_wish {
    dnn_pass pass;
    dnnl_alg_kind_t algorithm;
    const dnn_desc *src, *weights, *bias, *dst; /* bias NULL = none */
    const dnnl_dim_t *window;                   /* [2] for a pooling; NULL = a convolution */
    dnnl_dims_t strides, pads, pads_end;        /* [2] */
    const_dnnl_primitive_desc_t forward;        /* the forward pass, for a backward pass */
    const_dnnl_primitive_attr_t attr;
} dnn_wish;

/* The format of images that this version's fastest convolutions use; any = ask for each
 * convolution. */
extern const dnnl_format_tag_t iter__dnn_images;

/* An f32 tensor with a format tag; *out is the caller's. */
dnnl_status_t iter__dnn_desc_create(dnn_desc **out, int n_dims, const dnnl_dims_t dims,
                                    dnnl_format_tag_t tag);
void iter__dnn_desc_destroy(dnn_desc *desc);
bool iter__dnn_desc_equal(const dnn_desc *a, const dnn_desc *b);
size_t iter__dnn_desc_bytes(const dnn_desc *desc);

/* The description of an argument, DNNL_ARG_*; valid as long as the primitive's. NULL or 0 bytes =
 * the primitive has no such argument. */
const dnn_desc *iter__dnn_desc_of(const_dnnl_primitive_desc_t primitive, int arg);

dnnl_status_t iter__dnn_memory(dnnl_memory_t *out, const dnn_desc *desc, dnnl_engine_t engine);

dnnl_status_t iter__dnn_describe(dnnl_primitive_desc_t *out, const dnn_wish *wish,
                                 dnnl_engine_t engine);
dnnl_status_t iter__dnn_describe_reorder(dnnl_primitive_desc_t *out, const dnn_desc *from,
                                         const dnn_desc *to, dnnl_engine_t engine,
                                         const_dnnl_primitive_attr_t attr);
dnnl_status_t iter__dnn_add_relu(dnnl_post_ops_t ops);

#endif
