/*
 * onednn.h - all that we use of oneDNN: convolution, pooling, sgemm, and the repacking of images.
 *
 * There are two implementations, for the two major versions of its C API: onednn_v2.c and
 * onednn_v3.c. Each is empty if the build has the other version. No other file of ours includes a
 * header of oneDNN.
 *
 * Operations are made when a net is planned. Running one allocates nothing of ours: scratch comes
 * from the caller. All calls run in the caller's thread on as many OpenMP threads as
 * omp_get_max_threads() says. That number must be the same when an operation is made and when it
 * runs. In a parallel region, calls run on one thread. Errors: EUNSUPPORTED naming oneDNN's
 * function and status, ENOMEM.
 */
#ifndef ENGINE_CPU_ONEDNN_H
#define ENGINE_CPU_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

/* Layout of a batch of images in memory. In blocked layouts, the channels are padded with zeros. */
typedef enum cpu_order {
    CPU_ORDER_ANY,  /* oneDNN chooses */
    CPU_ORDER_NCHW, /* also used for everything that is not an image */
    CPU_ORDER_NHWC,
    CPU_ORDER_BLOCK8,  /* n, c / 8, h, w, c % 8 */
    CPU_ORDER_BLOCK16, /* n, c / 16, h, w, c % 16 */
} cpu_order;

typedef struct cpu_image {
    int64_t n, c, h, w;
    cpu_order order;
} cpu_image;

/* Channels in memory; floats of all images, including padding. */
int64_t iter__image_channels(const cpu_image *image);
int64_t iter__image_elements(const cpu_image *image);

/* The order that this version prefers for all images; ANY = it depends on the operation. */
cpu_order iter__dnn_order(void);

typedef struct cpu_dnn cpu_dnn;
typedef struct cpu_conv cpu_conv;
typedef struct cpu_pool cpu_pool;
typedef struct cpu_repack cpu_repack;

iter_status iter__dnn_open(cpu_dnn **out, iter_error *err);
void iter__dnn_close(cpu_dnn *dnn);
/* "oneDNN 2.6.3" */
void iter__dnn_text(char *out, size_t capacity);

/* ---- Convolution ----------------------------------------------------------------------------- */

typedef struct cpu_conv_spec {
    cpu_image in, out; /* if order is ANY, create() stores the chosen one */
    int64_t kernel, stride, pad;
    bool bias, relu;     /* relu: out = max(conv + bias, 0) */
    bool input_gradient; /* backward_data() will be called */
} cpu_conv_spec;

/* What a convolution needs from the caller, in floats and bytes. */
typedef struct cpu_conv_needs {
    int64_t n_weights; /* floats in the order that forward() reads; zeros for padded channels */
    size_t scratch_bytes;
    const char *forward, *backward_data, *backward_weights; /* texts: what computes each pass */
} cpu_conv_needs;

iter_status iter__dnn_conv_create(cpu_dnn *dnn, cpu_conv_spec *spec, cpu_conv **out,
                                  iter_error *err);
void iter__dnn_conv_destroy(cpu_conv *conv);
cpu_conv_needs iter__dnn_conv_needs(const cpu_conv *conv);

/* src, dst and their gradients have the shapes of spec. bias and dbias are [out.c], or NULL if
 * there is none. dweight and dbias are overwritten. scratch [scratch_bytes] is 64-byte aligned; one
 * buffer serves all operations. */
iter_status iter__dnn_conv_forward(cpu_conv *conv, const float *src, const float *weight,
                                   const float *bias, float *dst, void *scratch, iter_error *err);
iter_status iter__dnn_conv_backward_data(cpu_conv *conv, const float *ddst, const float *weight,
                                         float *dsrc, void *scratch, iter_error *err);
iter_status iter__dnn_conv_backward_weights(cpu_conv *conv, const float *src, const float *ddst,
                                            float *dweight, float *dbias, void *scratch,
                                            iter_error *err);

/* From and to [O, I, H, W]. */
iter_status iter__dnn_conv_weights_in(cpu_conv *conv, const float *canonical, float *weight,
                                      iter_error *err);
iter_status iter__dnn_conv_weights_out(cpu_conv *conv, const float *weight, float *canonical,
                                       iter_error *err);

/* ---- Pooling --------------------------------------------------------------------------------- */

typedef struct cpu_pool_spec {
    cpu_image in, out; /* of the same order, which is not ANY */
    int64_t size, stride, pad;
    bool max; /* else the mean of the pixels inside */
} cpu_pool_spec;

typedef struct cpu_pool_needs {
    size_t workspace_bytes; /* must live from forward() to backward() */
    size_t scratch_bytes;
    const char *forward, *backward;
} cpu_pool_needs;

iter_status iter__dnn_pool_create(cpu_dnn *dnn, const cpu_pool_spec *spec, cpu_pool **out,
                                  iter_error *err);
void iter__dnn_pool_destroy(cpu_pool *pool);
cpu_pool_needs iter__dnn_pool_needs(const cpu_pool *pool);

iter_status iter__dnn_pool_forward(cpu_pool *pool, const float *src, float *dst, void *workspace,
                                   void *scratch, iter_error *err);
iter_status iter__dnn_pool_backward(cpu_pool *pool, const float *ddst, float *dsrc, void *workspace,
                                    void *scratch, iter_error *err);

/* ---- Other orders, products ------------------------------------------------------------------ */

/* Converts images of one shape from one order to another. */
iter_status iter__dnn_repack_create(cpu_dnn *dnn, const cpu_image *from, const cpu_image *to,
                                    cpu_repack **out, iter_error *err);
void iter__dnn_repack_destroy(cpu_repack *repack);
size_t iter__dnn_repack_scratch(const cpu_repack *repack); /* bytes */
iter_status iter__dnn_repack_run(cpu_repack *repack, const float *from, float *to, void *scratch,
                                 iter_error *err);

/*
 * C = A B + beta C, row by row: C [m, n]; A [m, k], or [k, m] if transpose_a; B [k, n], or [n, k]
 * if transpose_b. ld* = floats from one row in memory to the next. Several threads may call it at
 * once; in a parallel region each call runs on its own thread. oneDNN may pack matrices into memory
 * that it allocates. If that fails, the result is false and C is undefined.
 */
bool iter__dnn_sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                     const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                     int64_t ldc);

#endif
