/*
 * convert.c - the pack kernels as a plain call: any type, any strides, any order of axes.
 *
 * The axes are sorted by the order of the output's memory. Neighbouring axes that form one run on
 * both sides are merged. The last one or two axes decide which kernel runs; the others are an
 * odometer around it:
 *
 *   line       the last axis is dense on both sides
 *   pixels     the last two axes are dense, channels inside
 *   split3     three interleaved channels to planes; join3 is the inverse
 *   transpose  the last axis is dense in the output, another one in the input: tiles are transposed
 *              on the stack, then converted as lines
 *   strided    everything else, element by element
 */
#include <string.h>

#include <iter/convert.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/cpu.h"
#include "iter/core/error.h"
#include "iter/spec/options.h"
#include "transforms/pack/elements.h"
#include "transforms/pack/pack_kernels.h"
#include "transforms/pack/widen.h"

/* A tile: rows along the input's dense axis, columns along the output's. */
#define TILE_ROWS    16
#define TILE_COLUMNS 64

typedef enum convert_mode {
    ITER__CONVERT_LINE,
    ITER__CONVERT_PIXELS,
    ITER__CONVERT_SPLIT3,
    ITER__CONVERT_JOIN3,
    ITER__CONVERT_TRANSPOSE,
    ITER__CONVERT_STRIDED
} convert_mode;

typedef struct convert_axis {
    int64_t n;
    ptrdiff_t in, out; /* bytes from one index to the next */
    bool is_channel;   /* the channels, if they differ in factor or bias */
} convert_axis;

struct iter_convert {
    iter_dtype in_type, out_type;
    iter__kind kind;
    const iter__kernels *kernels;
    iter__widen *widen;
    convert_mode mode;
    convert_axis outer[ITER_MAX_DIMS];
    int32_t n_outer;
    /* the kernel's axes: b the last one, a the other one (n = 1 if there is none) */
    convert_axis a, b;
    bool is_empty;
    int64_t n_factors;           /* channels with factors of their own, or 1 */
    double *scale, *bias;        /* [n_factors] */
    float *scale32, *bias32;     /* [n_factors] */
    float *scale_row, *bias_row; /* [16 * n_factors], for pixels */
};

/* ---- Prepare: axes --------------------------------------------------------------------------- */

static iter_status check_shape(const iter_desc *desc, const char *side, iter_error *err) {
    if (!iter_dtype_bytes(desc->dtype))
        return iter__fail(err, ITER_EINVAL, "convert: the %s has no known element type", side);
    if (desc->n_dims < 0 || desc->n_dims > ITER_MAX_DIMS)
        return iter__fail(err, ITER_EINVAL, "convert: the %s has %d dimensions, 0 to %d are legal",
                          side, (int)desc->n_dims, ITER_MAX_DIMS);
    for (int32_t i = 0; i < desc->n_dims; i++)
        if (desc->dims[i] < 0)
            return iter__fail(err, ITER_EINVAL, "convert: dimension %d of the %s is %lld", (int)i,
                              side, (long long)desc->dims[i]);
    return ITER_OK;
}

/* Whether the layout has a letter for each dimension, all different. */
static bool has_letters(const iter_desc *desc) {
    if ((int32_t)strlen(desc->layout) != desc->n_dims || desc->n_dims == 0) return false;
    for (int32_t i = 0; i < desc->n_dims; i++)
        if (strchr(desc->layout + i + 1, desc->layout[i])) return false;
    return true;
}

static iter_status find_axes(const iter_desc *in, const iter_desc *out, const int32_t *given,
                             int32_t *axes, iter_error *err) {
    bool used[ITER_MAX_DIMS] = {false};
    const bool by_letters = !given && has_letters(in) && has_letters(out);
    for (int32_t i = 0; i < out->n_dims; i++) {
        axes[i] = given ? given[i] : i;
        if (by_letters) {
            const char *place = strchr(in->layout, out->layout[i]);
            if (!place)
                return iter__fail(err, ITER_EINVAL, "convert: layout \"%s\" has no '%c' of \"%s\"",
                                  in->layout, out->layout[i], out->layout);
            axes[i] = (int32_t)(place - in->layout);
        }
        if (axes[i] < 0 || axes[i] >= in->n_dims || used[axes[i]])
            return iter__fail(err, ITER_EINVAL, "convert: axes are not a permutation of 0..%d",
                              (int)in->n_dims - 1);
        used[axes[i]] = true;
    }
    for (int32_t i = 0; i < out->n_dims; i++)
        if (in->dims[axes[i]] != out->dims[i])
            return iter__fail(err, ITER_EINVAL,
                              "convert: dimension %d of the output is %lld, of the input %lld",
                              (int)i, (long long)out->dims[i], (long long)in->dims[axes[i]]);
    return ITER_OK;
}

/* The dimension of the input that holds the channels; -1 = none. */
static int32_t find_channel(const iter_desc *in, const iter_desc *out, const int32_t *axes) {
    const char *place = has_letters(in) ? strchr(in->layout, 'C') : NULL;
    if (place) return (int32_t)(place - in->layout);
    place = has_letters(out) ? strchr(out->layout, 'C') : NULL;
    return place ? axes[place - out->layout] : -1;
}

static void dense_strides(const iter_desc *desc, int64_t *strides) {
    int64_t stride = 1;
    for (int32_t i = desc->n_dims - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= desc->dims[i];
    }
}

static ptrdiff_t size_of(ptrdiff_t stride) {
    return stride < 0 ? -stride : stride;
}

/* A stable insertion sort: the axis with the largest output stride comes first. */
static void sort_axes(convert_axis *axes, int32_t n) {
    for (int32_t i = 1; i < n; i++) {
        const convert_axis axis = axes[i];
        int32_t j = i;
        for (; j > 0 && size_of(axes[j - 1].out) < size_of(axis.out); j--)
            axes[j] = axes[j - 1];
        axes[j] = axis;
    }
}

/* Merges neighbouring axes that form one run on both sides. */
static int32_t merge_axes(convert_axis *axes, int32_t n) {
    int32_t m = 0;
    for (int32_t i = 0; i < n; i++) {
        convert_axis *last = m ? &axes[m - 1] : NULL;
        const convert_axis *next = &axes[i];
        if (last && !last->is_channel && !next->is_channel &&
            last->in == next->in * (ptrdiff_t)next->n &&
            last->out == next->out * (ptrdiff_t)next->n) {
            last->n *= next->n;
            last->in = next->in;
            last->out = next->out;
        } else {
            axes[m++] = *next;
        }
    }
    return m;
}

/* ---- Prepare: the kernel --------------------------------------------------------------------- */

static void take_axis(convert_axis *axes, int32_t *n, int32_t which, convert_axis *out) {
    *out = axes[which];
    for (int32_t i = which; i + 1 < *n; i++)
        axes[i] = axes[i + 1];
    (*n)--;
}

/* Chooses the mode, and moves the kernel's axes from axes[n] to a and b. */
static void choose_mode(iter_convert *c, convert_axis *axes, int32_t *n) {
    const ptrdiff_t in_bytes = (ptrdiff_t)iter_dtype_bytes(c->in_type);
    const ptrdiff_t out_bytes = (ptrdiff_t)iter_dtype_bytes(c->out_type);
    const convert_axis one = {1, in_bytes, out_bytes, false};
    c->a = c->b = one;
    if (*n == 0) {
        c->mode = ITER__CONVERT_LINE;
        return;
    }
    const convert_axis last = axes[*n - 1];
    const convert_axis before = *n > 1 ? axes[*n - 2] : one;
    const bool is_pair = *n > 1;
    int32_t dense = -1; /* the axis that is dense in the input */
    for (int32_t i = 0; i < *n; i++)
        if (axes[i].in == in_bytes) dense = i;
    if (last.in == in_bytes && last.out == out_bytes && !last.is_channel) {
        c->mode = ITER__CONVERT_LINE;
        take_axis(axes, n, *n - 1, &c->b);
    } else if (c->kernels && last.is_channel && last.in == in_bytes && last.out == out_bytes &&
               is_pair && before.in == last.in * last.n && before.out == last.out * last.n) {
        c->mode = ITER__CONVERT_PIXELS;
        take_axis(axes, n, *n - 1, &c->b);
        take_axis(axes, n, *n - 1, &c->a);
    } else if (c->kernels && dense >= 0 && axes[dense].n == 3 && dense != *n - 1 &&
               last.out == out_bytes && last.in == 3 * in_bytes && !last.is_channel &&
               axes[dense].out % out_bytes == 0 && axes[dense].out > 0) {
        c->mode = ITER__CONVERT_SPLIT3;
        take_axis(axes, n, *n - 1, &c->b);
        take_axis(axes, n, dense, &c->a);
    } else if (c->kernels && is_pair && last.n == 3 && last.out == out_bytes &&
               before.out == 3 * out_bytes && before.in == in_bytes && !before.is_channel &&
               last.in % in_bytes == 0 && last.in > 0) {
        c->mode = ITER__CONVERT_JOIN3;
        take_axis(axes, n, *n - 1, &c->b);
        take_axis(axes, n, *n - 1, &c->a);
    } else if (last.out == out_bytes && dense >= 0 && dense != *n - 1 && last.n > 1 &&
               (c->kernels || c->kind == ITER__KIND_RAW || !last.is_channel)) {
        c->mode = ITER__CONVERT_TRANSPOSE;
        take_axis(axes, n, *n - 1, &c->b);
        take_axis(axes, n, dense, &c->a);
    } else {
        /* The inner loop has one factor, so the channels must be an outer axis. */
        c->mode = ITER__CONVERT_STRIDED;
        take_axis(axes, n, last.is_channel && is_pair ? *n - 2 : *n - 1, &c->b);
        if (c->b.is_channel) {
            axes[(*n)++] = c->b;
            c->b = one;
        }
    }
}

static iter_status make_factors(iter_convert *c, const iter_convert_options *o, iter_error *err) {
    const size_t n = (size_t)c->n_factors;
    const double none = o->scale || o->bias ? 0 : -0.0;
    c->scale = iter__alloc(2 * n, sizeof(double));
    c->scale32 = iter__alloc(2 * n, sizeof(float));
    c->scale_row = iter__alloc(2 * 16 * n, sizeof(float));
    if (!c->scale || !c->scale32 || !c->scale_row)
        return iter__fail(err, ITER_ENOMEM, "convert: out of memory");
    c->bias = c->scale + n;
    c->bias32 = c->scale32 + n;
    c->bias_row = c->scale_row + 16 * n;
    for (size_t i = 0; i < n; i++) {
        c->scale[i] = o->scale ? o->scale[i] : 1;
        c->bias[i] = o->bias ? o->bias[i] : none;
        c->scale32[i] = (float)c->scale[i];
        c->bias32[i] = (float)c->bias[i];
    }
    for (size_t i = 0; i < 16 * n; i++) {
        c->scale_row[i] = c->scale32[i % n];
        c->bias_row[i] = c->bias32[i % n];
    }
    return ITER_OK;
}

static iter_status check_factors(const iter_convert_options *o, const iter_desc *in,
                                 int32_t channel, iter_error *err) {
    if (!o->scale && !o->bias) return ITER_OK;
    if (o->n_channels < 1)
        return iter__fail(err, ITER_EINVAL, "convert: scale or bias, but n_channels is %d",
                          (int)o->n_channels);
    if (o->n_channels == 1) return ITER_OK;
    if (channel < 0)
        return iter__fail(err, ITER_EINVAL,
                          "convert: %d channels, but neither layout has a dimension 'C'",
                          (int)o->n_channels);
    if (in->dims[channel] != o->n_channels)
        return iter__fail(err, ITER_EINVAL, "convert: %d channels, but dimension 'C' is %lld",
                          (int)o->n_channels, (long long)in->dims[channel]);
    return ITER_OK;
}

static iter_status prepare(iter_convert *c, const iter_desc *in, const iter_desc *out,
                           const iter_convert_options *o, iter_error *err) {
    int32_t order[ITER_MAX_DIMS];
    int64_t in_strides[ITER_MAX_DIMS], out_strides[ITER_MAX_DIMS];
    ITER_TRY(check_shape(in, "input", err));
    ITER_TRY(check_shape(out, "output", err));
    if (in->n_dims != out->n_dims)
        return iter__fail(err, ITER_EINVAL, "convert: %d dimensions to %d", (int)in->n_dims,
                          (int)out->n_dims);
    ITER_TRY(find_axes(in, out, o->axes, order, err));
    const int32_t channel = find_channel(in, out, order);
    ITER_TRY(check_factors(o, in, channel, err));
    dense_strides(in, in_strides);
    dense_strides(out, out_strides);
    c->in_type = in->dtype;
    c->out_type = out->dtype;
    c->kind = iter__kind_of(in->dtype, out->dtype, o->scale || o->bias);
    c->n_factors = (o->scale || o->bias) ? o->n_channels : 1;
    if (c->kind == ITER__KIND_F32 || (c->kind == ITER__KIND_RAW && in->dtype == ITER_U8))
        c->kernels = iter__kernels_get(iter__cpu_level(), in->dtype, out->dtype);
    if (c->kind == ITER__KIND_INT)
        c->widen = iter__widen_get(iter__cpu_level(), in->dtype, out->dtype);
    int32_t n = 0;
    for (int32_t i = 0; i < out->n_dims; i++) {
        const int64_t in_stride = (o->in_strides ? o->in_strides : in_strides)[order[i]];
        const int64_t out_stride = (o->out_strides ? o->out_strides : out_strides)[i];
        if (out->dims[i] == 0) c->is_empty = true;
        if (out->dims[i] == 1) continue;
        if (out_stride == 0 && out->dims[i] > 1)
            return iter__fail(err, ITER_EINVAL, "convert: stride %d of the output is 0", (int)i);
        c->outer[n++] =
            (convert_axis){out->dims[i], in_stride * (ptrdiff_t)iter_dtype_bytes(in->dtype),
                           out_stride * (ptrdiff_t)iter_dtype_bytes(out->dtype),
                           c->n_factors > 1 && order[i] == channel};
    }
    sort_axes(c->outer, n);
    n = merge_axes(c->outer, n);
    choose_mode(c, c->outer, &n);
    c->n_outer = n;
    return make_factors(c, o, err);
}

/* ---- Run: one call of the kernel ------------------------------------------------------------- */

/* n dense elements with one factor. */
static void run_line(const iter_convert *c, char *out, const char *in, size_t n, int64_t channel,
                     const char *next) {
    if (c->kind == ITER__KIND_RAW)
        memcpy(out, in, n * iter_dtype_bytes(c->in_type));
    else if (c->widen)
        c->widen(out, in, n, next);
    else if (c->kernels)
        c->kernels->line(out, in, n, c->scale32[channel], c->bias32[channel], next);
    else
        iter__elements_convert(
            c->in_type, c->out_type, c->kind, in, (ptrdiff_t)iter_dtype_bytes(c->in_type), out,
            (ptrdiff_t)iter_dtype_bytes(c->out_type), n, c->scale[channel], c->bias[channel]);
}

static void run_pixels(const iter_convert *c, char *out, const char *in, const char *next) {
    const size_t channels = (size_t)c->b.n;
    if (channels == 3) {
        c->kernels->pixels3(out, in, (size_t)c->a.n, c->scale_row, c->bias_row, next);
        return;
    }
    for (int64_t i = 0; i < c->a.n; i += 16) {
        const size_t n = (size_t)iter__min_i64(c->a.n - i, 16);
        c->kernels->table(out + i * c->a.out, in + i * c->a.in, n * channels, c->scale_row,
                          c->bias_row);
    }
}

/* The three factors. If the kernel's three-element axis is not the channels (own is false), all
 * three are those of `channel`. */
static void three_factors(const iter_convert *c, bool own, int64_t channel, float *scale,
                          float *bias) {
    for (int64_t i = 0; i < 3; i++) {
        scale[i] = c->scale32[own ? i : channel];
        bias[i] = c->bias32[own ? i : channel];
    }
}

static void run_three(const iter_convert *c, char *out, const char *in, int64_t channel,
                      const char *next) {
    float scale[3], bias[3];
    if (c->mode == ITER__CONVERT_SPLIT3) {
        const size_t plane = (size_t)c->a.out / iter_dtype_bytes(c->out_type);
        three_factors(c, c->a.is_channel, channel, scale, bias);
        c->kernels->split3(out, plane, in, (size_t)c->b.n, scale, bias, next);
    } else {
        const size_t plane = (size_t)c->b.in / iter_dtype_bytes(c->in_type);
        three_factors(c, c->b.is_channel, channel, scale, bias);
        c->kernels->join3(out, in, plane, (size_t)c->a.n, scale, bias, next);
    }
}

/* Axis a is dense in the input, axis b in the output. */
static void run_transpose(const iter_convert *c, char *out, const char *in, int64_t channel) {
    const size_t in_bytes = iter_dtype_bytes(c->in_type);
    char tile[TILE_ROWS * TILE_COLUMNS * 8];
    if (c->kind == ITER__KIND_RAW) {
        for (int64_t y = 0; y < c->b.n; y += TILE_COLUMNS) {
            const int64_t n = iter__min_i64(c->b.n - y, TILE_COLUMNS);
            iter__transpose(in_bytes, in + y * c->b.in, c->b.in, out + y * c->b.out, c->a.out,
                            (size_t)n, (size_t)c->a.n);
        }
        return;
    }
    const ptrdiff_t row = (ptrdiff_t)(TILE_COLUMNS * in_bytes);
    for (int64_t y = 0; y < c->b.n; y += TILE_COLUMNS) {
        const int64_t n_y = iter__min_i64(c->b.n - y, TILE_COLUMNS);
        for (int64_t x = 0; x < c->a.n; x += TILE_ROWS) {
            const int64_t n_x = iter__min_i64(c->a.n - x, TILE_ROWS);
            iter__transpose(in_bytes, in + y * c->b.in + x * c->a.in, c->b.in, tile, row,
                            (size_t)n_y, (size_t)n_x);
            for (int64_t i = 0; i < n_x; i++) {
                const char *from = tile + i * row;
                char *to = out + y * c->b.out + (x + i) * c->a.out;
                if (c->b.is_channel)
                    c->kernels->table(to, from, (size_t)n_y, c->scale32 + y, c->bias32 + y);
                else
                    run_line(c, to, from, (size_t)n_y, c->a.is_channel ? x + i : channel, from);
            }
        }
    }
}

static void run_kernel(const iter_convert *c, char *out, const char *in, int64_t channel,
                       const char *next) {
    switch (c->mode) {
    case ITER__CONVERT_LINE: run_line(c, out, in, (size_t)c->b.n, channel, next); break;
    case ITER__CONVERT_PIXELS: run_pixels(c, out, in, next); break;
    case ITER__CONVERT_SPLIT3:
    case ITER__CONVERT_JOIN3: run_three(c, out, in, channel, next); break;
    case ITER__CONVERT_TRANSPOSE: run_transpose(c, out, in, channel); break;
    case ITER__CONVERT_STRIDED:
        iter__elements_convert(c->in_type, c->out_type, c->kind, in, c->b.in, out, c->b.out,
                               (size_t)c->b.n, c->scale[channel], c->bias[channel]);
        break;
    }
}

/* ---- Public ---------------------------------------------------------------------------------- */

iter_status iter_convert_prepare(const iter_desc *in, const iter_desc *out,
                                 const iter_convert_options *options, iter_convert **out_convert,
                                 iter_error *err) {
    iter_convert_options o;
    *out_convert = NULL;
    ITER_TRY(iter__options_copy(&o, sizeof(o), options, sizeof(o.struct_size), err));
    iter_convert *c = iter__alloc(1, sizeof(*c));
    if (!c) return iter__fail(err, ITER_ENOMEM, "convert: out of memory");
    const iter_status status = prepare(c, in, out, &o, err);
    if (status < 0) {
        iter_convert_destroy(c);
        return status;
    }
    *out_convert = c;
    return ITER_OK;
}

void iter_convert_run(const iter_convert *c, const void *in, void *out, const void *next_in) {
    int64_t at[ITER_MAX_DIMS] = {0};
    const char *from = in;
    char *to = out;
    int64_t channel = 0;
    const ptrdiff_t ahead = next_in ? (const char *)next_in - (const char *)in : 0;
    if (c->is_empty) return;
    for (;;) {
        run_kernel(c, to, from, channel, from + ahead);
        int32_t i = c->n_outer - 1;
        for (; i >= 0; i--) {
            const convert_axis *axis = &c->outer[i];
            from += axis->in;
            to += axis->out;
            at[i]++;
            if (axis->is_channel) channel = at[i];
            if (at[i] < axis->n) break;
            from -= axis->in * axis->n;
            to -= axis->out * axis->n;
            at[i] = 0;
            if (axis->is_channel) channel = 0;
        }
        if (i < 0) return;
    }
}

void iter_convert_destroy(iter_convert *c) {
    if (!c) return;
    iter__free(c->scale);
    iter__free(c->scale32);
    iter__free(c->scale_row);
    iter__free(c);
}

iter_status iter_convert_tensor(const iter_tensor *in, const iter_tensor *out, const double *scale,
                                const double *bias, int32_t n_channels, iter_error *err) {
    iter_convert_options options = ITER_CONVERT_OPTIONS_INIT;
    iter_convert *convert = NULL;
    options.scale = scale;
    options.bias = bias;
    options.n_channels = n_channels;
    options.in_strides = in->strides;
    options.out_strides = out->strides;
    ITER_TRY(iter_convert_prepare(&in->desc, &out->desc, &options, &convert, err));
    iter_convert_run(convert, in->data, out->data, NULL);
    iter_convert_destroy(convert);
    return ITER_OK;
}
