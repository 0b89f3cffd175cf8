/*
 * reference_images.h - convolution and pooling of the reference backends: the definitions, summed
 * row by row of the output image. Source: MXNet's and PyTorch's documented formulas.
 */
#ifndef ENGINE_REFERENCE_REFERENCE_IMAGES_H
#define ENGINE_REFERENCE_REFERENCE_IMAGES_H

#include "engine/reference/reference_layers.h"

/* A window that moves over one channel: out[y, x] looks at in[y * stride + ky - pad, ...]. */
typedef struct image_window {
    int64_t height, width, out_height, out_width, size, stride, pad;
} image_window;

static image_window window_of(const engine_layer *layer, int64_t size, int64_t stride,
                              int64_t pad) {
    const image_window v = {layer->in.dims[1],
                            layer->in.dims[2],
                            layer->out.dims[1],
                            layer->out.dims[2],
                            size,
                            stride ? stride : size,
                            pad};
    return v;
}

/* ---- Convolution ----------------------------------------------------------------------------- */

static image_window conv_window(const engine_layer *layer) {
    const iter_conv2d_options *o = &layer->options.conv2d;
    return window_of(layer, o->kernel, o->stride, o->pad);
}

/* The range of x for which column x * stride + kx - pad lies inside the image: [*first, *end). */
static void columns_inside(const image_window *v, int64_t kx, int64_t *first, int64_t *end) {
    *first = 0;
    *end = v->out_width;
    while (*first < *end && *first * v->stride + kx - v->pad < 0)
        (*first)++;
    while (*first < *end && (*end - 1) * v->stride + kx - v->pad >= v->width)
        (*end)--;
}

/* The weight [o, c, ky, 0]. */
static int64_t conv_weight(const engine_layer *layer, int64_t o, int64_t c, int64_t ky) {
    const int64_t size = layer->options.conv2d.kernel;
    return ((o * layer->in.dims[0] + c) * size + ky) * size;
}

/* sums[x] += the contribution of one input channel to a row of one output channel */
static void conv_add_row(const image_window *v, const REAL *channel, const REAL *kernel, int64_t y,
                         double *sums) {
    for (int64_t ky = 0; ky < v->size; ky++) {
        const int64_t in_y = y * v->stride + ky - v->pad;
        if (in_y < 0 || in_y >= v->height) continue;
        for (int64_t kx = 0; kx < v->size; kx++) {
            const double weight = (double)kernel[ky * v->size + kx];
            const REAL *row = channel + in_y * v->width;
            int64_t first, end;
            columns_inside(v, kx, &first, &end);
            for (int64_t x = first; x < end; x++)
                sums[x] += weight * (double)row[x * v->stride + kx - v->pad];
        }
    }
}

static void conv_forward(const layer_work *w) {
    const engine_layer *layer = w->layer;
    const image_window v = conv_window(layer);
    const int64_t channels = layer->in.dims[0], outputs = layer->out.dims[0];
    for (int64_t n = 0; n < w->n_rows; n++)
        for (int64_t o = 0; o < outputs; o++)
            for (int64_t y = 0; y < v.out_height; y++) {
                for (int64_t x = 0; x < v.out_width; x++)
                    w->sums[x] = w->weights[1] ? (double)w->weights[1][o] : 0;
                for (int64_t c = 0; c < channels; c++)
                    conv_add_row(&v, w->in + (n * channels + c) * v.height * v.width,
                                 w->weights[0] + conv_weight(layer, o, c, 0), y, w->sums);
                round_sums(w->out + ((n * outputs + o) * v.out_height + y) * v.out_width, w->sums,
                           v.out_width);
            }
}

/* The gradient of weight [o, c, ky, kx]; first summed per column. */
static double conv_weight_gradient(const layer_work *w, const image_window *v, int64_t o, int64_t c,
                                   int64_t ky, int64_t kx) {
    const int64_t channels = w->layer->in.dims[0], outputs = w->layer->out.dims[0];
    int64_t first, end;
    double sum = 0;
    columns_inside(v, kx, &first, &end);
    for (int64_t x = first; x < end; x++)
        w->sums[x] = 0;
    for (int64_t n = 0; n < w->n_rows; n++)
        for (int64_t y = 0; y < v->out_height; y++) {
            const int64_t in_y = y * v->stride + ky - v->pad;
            if (in_y < 0 || in_y >= v->height) continue;
            const REAL *row = w->in + ((n * channels + c) * v->height + in_y) * v->width;
            const REAL *d_row = w->d_out + ((n * outputs + o) * v->out_height + y) * v->out_width;
            for (int64_t x = first; x < end; x++)
                w->sums[x] += (double)d_row[x] * (double)row[x * v->stride + kx - v->pad];
        }
    for (int64_t x = first; x < end; x++)
        sum += w->sums[x];
    return sum;
}

static double conv_bias_gradient(const layer_work *w, int64_t o) {
    const int64_t outputs = w->layer->out.dims[0];
    const int64_t pixels = w->layer->out.dims[1] * w->layer->out.dims[2];
    double sum = 0;
    for (int64_t n = 0; n < w->n_rows; n++)
        for (int64_t i = 0; i < pixels; i++)
            sum += (double)w->d_out[(n * outputs + o) * pixels + i];
    return sum;
}

/* sums[x] = gradient of row in_y of input channel c of image n */
static void conv_row_gradient(const layer_work *w, const image_window *v, int64_t n, int64_t c,
                              int64_t in_y) {
    const int64_t outputs = w->layer->out.dims[0];
    memset(w->sums, 0, (size_t)v->width * sizeof(*w->sums));
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t ky = 0; ky < v->size; ky++) {
            const int64_t y = (in_y + v->pad - ky) / v->stride;
            if (in_y + v->pad - ky < 0 || (in_y + v->pad - ky) % v->stride || y >= v->out_height)
                continue;
            const REAL *d_row = w->d_out + ((n * outputs + o) * v->out_height + y) * v->out_width;
            for (int64_t kx = 0; kx < v->size; kx++) {
                const double weight = (double)w->weights[0][conv_weight(w->layer, o, c, ky) + kx];
                int64_t first, end;
                columns_inside(v, kx, &first, &end);
                for (int64_t x = first; x < end; x++)
                    w->sums[x * v->stride + kx - v->pad] += weight * (double)d_row[x];
            }
        }
}

static void conv_backward(const layer_work *w) {
    const image_window v = conv_window(w->layer);
    const int64_t channels = w->layer->in.dims[0], outputs = w->layer->out.dims[0];
    for (int64_t o = 0; o < outputs; o++) {
        for (int64_t c = 0; c < channels; c++)
            for (int64_t ky = 0; ky < v.size; ky++)
                for (int64_t kx = 0; kx < v.size; kx++)
                    w->gradients[0][conv_weight(w->layer, o, c, ky) + kx] =
                        (REAL)conv_weight_gradient(w, &v, o, c, ky, kx);
        if (w->gradients[1]) w->gradients[1][o] = (REAL)conv_bias_gradient(w, o);
    }
    for (int64_t i = 0; i < w->n_rows * channels && w->d_in; i++)
        for (int64_t y = 0; y < v.height; y++) {
            conv_row_gradient(w, &v, i / channels, i % channels, y);
            round_sums(w->d_in + (i * v.height + y) * v.width, w->sums, v.width);
        }
}

/* ---- Pooling --------------------------------------------------------------------------------- */

static image_window pool_window(const engine_layer *layer) {
    const iter_pool_options *o = &layer->options.pool;
    return window_of(layer, o->size, o->stride, o->pad);
}

/* The part of window (y, x) inside the image: rows [top, bottom), columns [left, right). */
typedef struct image_part {
    int64_t top, bottom, left, right;
} image_part;

static image_part part_inside(const image_window *v, int64_t y, int64_t x) {
    image_part part = {y * v->stride - v->pad, y * v->stride - v->pad + v->size,
                       x * v->stride - v->pad, x * v->stride - v->pad + v->size};
    if (part.top < 0) part.top = 0;
    if (part.left < 0) part.left = 0;
    if (part.bottom > v->height) part.bottom = v->height;
    if (part.right > v->width) part.right = v->width;
    return part;
}

/* Index of the first of the largest pixels; if a pixel is NaN, the index of the last NaN. */
static int64_t largest_of(const image_window *v, const image_part *part, const REAL *channel) {
    int64_t best = part->top * v->width + part->left;
    for (int64_t y = part->top; y < part->bottom; y++)
        for (int64_t x = part->left; x < part->right; x++)
            if (channel[y * v->width + x] > channel[best] || isnan(channel[y * v->width + x]))
                best = y * v->width + x;
    return best;
}

static double mean_of(const image_window *v, const image_part *part, const REAL *channel) {
    double sum = 0;
    for (int64_t y = part->top; y < part->bottom; y++)
        for (int64_t x = part->left; x < part->right; x++)
            sum += (double)channel[y * v->width + x];
    return sum / (double)((part->bottom - part->top) * (part->right - part->left));
}

static void pool_forward(const layer_work *w) {
    const image_window v = pool_window(w->layer);
    REAL *out = w->out;
    for (int64_t i = 0; i < w->n_rows * w->layer->in.dims[0]; i++) {
        const REAL *channel = w->in + i * v.height * v.width;
        for (int64_t y = 0; y < v.out_height; y++)
            for (int64_t x = 0; x < v.out_width; x++) {
                const image_part part = part_inside(&v, y, x);
                *out++ = w->layer->kind == ENGINE_MAXPOOL ? channel[largest_of(&v, &part, channel)]
                                                          : (REAL)mean_of(&v, &part, channel);
            }
    }
}

/* d_channel += the gradient of one window: all of it for the largest pixel, or equal shares. */
static void pool_hand_back(const layer_work *w, const image_window *v, const image_part *part,
                           const REAL *channel, REAL d_out, REAL *d_channel) {
    if (w->layer->kind == ENGINE_MAXPOOL) {
        d_channel[largest_of(v, part, channel)] += d_out;
        return;
    }
    const REAL share = d_out / (REAL)((part->bottom - part->top) * (part->right - part->left));
    for (int64_t y = part->top; y < part->bottom; y++)
        for (int64_t x = part->left; x < part->right; x++)
            d_channel[y * v->width + x] += share;
}

static void pool_backward(const layer_work *w) {
    const image_window v = pool_window(w->layer);
    const REAL *d_out = w->d_out;
    memset(w->d_in, 0, (size_t)n_in(w) * sizeof(REAL));
    for (int64_t i = 0; i < w->n_rows * w->layer->in.dims[0]; i++) {
        const int64_t at = i * v.height * v.width;
        for (int64_t y = 0; y < v.out_height; y++)
            for (int64_t x = 0; x < v.out_width; x++) {
                const image_part part = part_inside(&v, y, x);
                pool_hand_back(w, &v, &part, w->in + at, *d_out++, w->d_in + at);
            }
    }
}

#endif
