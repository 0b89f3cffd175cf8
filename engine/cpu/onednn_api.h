/*
 * onednn_api.h - what differs between versions 2 and 3 of oneDNN's C API, for onednn.c.
 *
 * A description of a tensor is a struct in one and an object in the other, here a dnn_desc. A
 * primitive is described in two calls in one and in one call in the other, here one struct. The
 * bodies are onednn_v2.c and onednn_v3.c; a build has one of them.
 */
#ifndef ENGINE_CPU_ONEDNN_API_H
#define ENGINE_CPU_ONEDNN_API_H

#include <stdbool.h>
#include <stddef.h>

#include <dnnl.h>

typedef struct dnn_desc dnn_desc;

typedef enum dnn_pass { DNN_FORWARD, DNN_BACKWARD_DATA, DNN_BACKWARD_WEIGHTS } dnn_pass;

/* A convolution or, where `window` is set, a pooling; of a backward pass src, dst, weights and bias
 * stand for their gradients where these are what it reads or makes. */
typedef struct dnn_wish {
    dnn_pass pass;
    dnnl_alg_kind_t algorithm;
    const dnn_desc *src, *weights, *bias, *dst; /* bias NULL = none */
    const dnnl_dim_t *window;                   /* [2] of a pooling; NULL = a convolution */
    dnnl_dims_t strides, pads, pads_end;        /* [2] */
    const_dnnl_primitive_desc_t forward;        /* of a backward pass */
    const_dnnl_primitive_attr_t attr;
} dnn_wish;

/* The format of images that this version's fastest convolutions want; any = ask for each one. */
extern const dnnl_format_tag_t iter__dnn_images;

/* f32, of a format tag; *out is the caller's. */
dnnl_status_t iter__dnn_desc_create(dnn_desc **out, int n_dims, const dnnl_dims_t dims,
                                    dnnl_format_tag_t tag);
void iter__dnn_desc_destroy(dnn_desc *desc);
bool iter__dnn_desc_equal(const dnn_desc *a, const dnn_desc *b);
size_t iter__dnn_desc_bytes(const dnn_desc *desc);

/* The description of an argument, DNNL_ARG_*; lives as long as the primitive's. NULL or of 0 bytes =
 * it has no such argument. */
const dnn_desc *iter__dnn_desc_of(const_dnnl_primitive_desc_t primitive, int arg);

dnnl_status_t iter__dnn_memory(dnnl_memory_t *out, const dnn_desc *desc, dnnl_engine_t engine);

dnnl_status_t iter__dnn_describe(dnnl_primitive_desc_t *out, const dnn_wish *wish,
                                 dnnl_engine_t engine);
dnnl_status_t iter__dnn_describe_reorder(dnnl_primitive_desc_t *out, const dnn_desc *from,
                                         const dnn_desc *to, dnnl_engine_t engine,
                                         const_dnnl_primitive_attr_t attr);
dnnl_status_t iter__dnn_add_relu(dnnl_post_ops_t ops);

#endif
