/*
 * convert.h - the pack kernel as a plain call: type, scale, normalise, layout, strides in one pass.
 *
 *     iter_convert *convert;
 *     iter_convert_options opt = ITER_CONVERT_OPTIONS_INIT;
 *     opt.n_channels = 3; opt.scale = scale; opt.bias = bias; // out = in * scale[c] + bias[c]
 *     iter_convert_prepare(&in, &out, &opt, &convert, &err);  // such as u8 CHW to f32 HWC
 *     iter_convert_run(convert, pixels, row, NULL);
 *     iter_convert_destroy(convert);
 */
#ifndef ITER_CONVERT_H
#define ITER_CONVERT_H

#include <iter/tensor.h>

ITER_BEGIN_DECLS

typedef struct iter_convert iter_convert;

/** Zero in any field means its default. New fields go at the end. */
typedef struct iter_convert_options {
    size_t struct_size;  /* sizeof(iter_convert_options); ITER_CONVERT_OPTIONS_INIT sets it */
    const double *scale; /* [n_channels] factor a channel; NULL = 1 */
    const double *bias;  /* [n_channels] added after the factor; NULL = 0 */
    /* length of scale and bias: that of dimension 'C', or 1 for one factor and bias everywhere */
    int32_t n_channels;
    /* [n_dims] out dimension i is in dimension axes[i]; NULL = by layout letters if both sides have
     * them, else in the same order */
    const int32_t *axes;
    const int64_t *in_strides;  /* [n_dims] elements; NULL = dense in C order */
    const int64_t *out_strides; /* [n_dims] elements; NULL = dense in C order */
} iter_convert_options;

#define ITER_CONVERT_OPTIONS_INIT \
    { sizeof(iter_convert_options), 0, 0, 0, 0, 0, 0 }

/**
 * Prepares a conversion between two shapes with the same elements, up to a permutation of the axes.
 *
 *   in, out  fixed shapes; any dtype to any
 *
 * Numbers    Integer to integer without scale and bias is exact and saturates. Everything else is
 *            computed in f32, or in f64 if either side is f64 or an integer of 32 or 64 bits: one
 *            rounded multiply, one rounded add, never fused. The result is rounded to nearest even;
 *            if the output is an integer, it is also saturated, and NaN becomes 0.
 * Ownership  *out_convert belongs to the caller; options are copied.
 * Errors     EINVAL (shapes that do not match, bad axes), EUNSUPPORTED, ENOMEM.
 * Threads    any; a prepared conversion is read-only and may be run by several threads at once.
 */
ITER_API ITER_NODISCARD iter_status iter_convert_prepare(const iter_desc *in, const iter_desc *out,
                                                         const iter_convert_options *options,
                                                         iter_convert **out_convert,
                                                         iter_error *err);

/**
 * Converts one tensor. Allocates nothing and cannot fail. Every SIMD level gives the same bits.
 *
 *   in       bytes of the prepared input; any alignment
 *   out      memory of the prepared output, aligned to its element; must not overlap `in`
 *   next_in  NULL, or the input of the next call: this call prefetches its cache lines
 */
ITER_API void iter_convert_run(const iter_convert *convert, const void *in, void *out,
                               const void *next_in);

/** Frees a prepared conversion. NULL is ignored. */
ITER_API void iter_convert_destroy(iter_convert *convert);

/** prepare, run, destroy. Errors as iter_convert_prepare(). */
ITER_API ITER_NODISCARD iter_status iter_convert_tensor(const iter_tensor *in,
                                                        const iter_tensor *out, const double *scale,
                                                        const double *bias, int32_t n_channels,
                                                        iter_error *err);

/** The SIMD level in use: "generic", "avx2", "avx512" or "neon". The environment variable ITER_CPU
 * can lower it. */
ITER_API const char *iter_cpu_level(void);

ITER_END_DECLS

#endif
