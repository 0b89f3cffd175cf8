/* stages.c - what the plans of image stages share. */
#include "transforms/stages.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/pack_fold.h"

static bool is_any_size(const iter_desc *in) {
    return in->dtype == ITER_U8 && in->n_dims == 3 && in->dims[0] == ITER_VARIABLE &&
           in->dims[1] == ITER_VARIABLE && in->dims[2] > 0 && strcmp(in->layout, "HWC") == 0;
}

iter_status iter__stage_image(const iter_desc *in, stage_image *out, iter_error *err) {
    char shape[128];
    *out = (stage_image){.is_any = is_any_size(in)};
    if (iter__image_of(in, &out->height, &out->width, &out->channels, &out->is_hwc)) return ITER_OK;
    if (out->is_any) {
        *out = (stage_image){.channels = in->dims[2], .is_hwc = true, .is_any = true};
        return ITER_OK;
    }
    return iter__fail(err, ITER_EINVAL,
                      "wants an image, layout \"CHW\", \"HWC\" or \"HW\", but got %s",
                      iter_desc_text(in, shape, sizeof(shape)));
}

iter_status iter__stage_bytes(const iter_desc *in, stage_image *out, iter_error *err) {
    char shape[128];
    ITER_TRY(iter__stage_image(in, out, err));
    if (in->dtype == ITER_U8 && out->is_hwc && out->channels <= 4) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "wants u8 [height, width, 1 to 4] \"HWC\", but got %s; `to:u8,hwc` first",
                      iter_desc_text(in, shape, sizeof(shape)));
}

iter_status iter__stage_colors(const iter_desc *in, stage_image *out, iter_error *err) {
    ITER_TRY(iter__stage_bytes(in, out, err));
    if (out->channels == 1 || out->channels == 3) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "wants 1 or 3 channels, but got %lld",
                      (long long)out->channels);
}

void iter__stage_resize(const iter_desc *in, int64_t height, int64_t width, iter_desc *out) {
    stage_image image;
    *out = *in;
    if (iter__stage_image(in, &image, NULL) < 0) return;
    const int first = in->n_dims == 2 || image.is_hwc ? 0 : 1;
    out->dims[first] = height;
    out->dims[first + 1] = width;
}

iter_status iter__stage_window(int64_t size, int64_t height, int64_t width, int64_t out[2],
                               iter_error *err) {
    out[0] = size > 0 ? size : height;
    out[1] = size > 0 ? size : width;
    if (out[0] > 0 && out[1] > 0) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "wants a size: size=N, or height=N,width=N");
}

iter_status iter__stage_bounds(const iter_option_list *list, const char *name, double most,
                               iter_error *err) {
    if (list->n == 2 && list->values[0] > 0 && list->values[0] <= list->values[1] &&
        list->values[1] <= most)
        return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "wants %s=LEAST;LARGEST, both above 0 and at most %g", name,
                      most);
}

iter_dtype iter__stage_arithmetic(iter_dtype dtype) {
    return dtype == ITER_F64 ? ITER_F64 : ITER_F32;
}

/* ---- Pixels ----------------------------------------------------------------------------------- */

static size_t pixel_bytes(const iter_tensor *image) {
    const int64_t channels = image->desc.n_dims == 3 ? image->desc.dims[2] : 1;
    return (size_t)channels * iter_dtype_bytes(image->desc.dtype);
}

/* n pixels backwards. */
static void mirror(char *out, const char *in, int64_t n, size_t bytes) {
    in += (size_t)n * bytes;
    if (bytes == 3) {
        for (int64_t i = 0; i < n; i++, out += 3) {
            in -= 3;
            memcpy(out, in, 3);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++, out += bytes) {
        in -= bytes;
        memcpy(out, in, bytes);
    }
}

void iter__stage_copy(const iter_tensor *in, iter_tensor *out, bool vertical, bool horizontal) {
    const int64_t height = in->desc.dims[0], width = in->desc.dims[1];
    const size_t bytes = pixel_bytes(in), row = (size_t)width * bytes;
    const char *from = in->data;
    char *to = out->data;
    assert(out->desc.dims[0] == height && out->desc.dims[1] == width);
    if (!vertical && !horizontal) {
        memcpy(to, from, (size_t)height * row);
        return;
    }
    for (int64_t y = 0; y < height; y++, to += row) {
        const char *source = from + (size_t)(vertical ? height - 1 - y : y) * row;
        if (horizontal)
            mirror(to, source, width, bytes);
        else
            memcpy(to, source, row);
    }
}

/* Where position i of an axis of n comes from, or -1. */
static int64_t place(int64_t i, int64_t n, int32_t mode) {
    if (i >= 0 && i < n) return i;
    if (mode == ITER_PAD_CONSTANT) return -1;
    if (mode == ITER_PAD_EDGE || n == 1) return i < 0 ? 0 : n - 1;
    const int64_t period = 2 * (n - 1);
    i = (i % period + period) % period;
    return i < n ? i : period - i;
}

void iter__stage_window_copy(const iter_tensor *in, iter_tensor *out, int64_t y, int64_t x,
                             int32_t mode, double fill) {
    const int64_t in_height = in->desc.dims[0], in_width = in->desc.dims[1];
    const int64_t height = out->desc.dims[0], width = out->desc.dims[1];
    const size_t bytes = pixel_bytes(in);
    const int64_t left = x < 0 ? (-x < width ? -x : width) : 0; /* pixels before the source's */
    const int64_t right =
        x + width > in_width ? (in_width - x > left ? in_width - x : left) : width;
    uint8_t value;
    char *to = out->data;
    assert(in->desc.dtype == ITER_U8);
    iter__element_from_f64(ITER_U8, fill, &value);
    for (int64_t i = 0; i < height; i++, to += (size_t)width * bytes) {
        const int64_t row = place(y + i, in_height, mode);
        const char *from = (const char *)in->data + (row < 0 ? 0 : row) * in_width * (int64_t)bytes;
        if (row < 0) {
            memset(to, value, (size_t)width * bytes);
            continue;
        }
        for (int64_t k = 0; k < width; k++) {
            if (k == left && left < right) {
                memcpy(to + (size_t)k * bytes, from + (size_t)(x + k) * bytes,
                       (size_t)(right - left) * bytes);
                k = right;
                if (k >= width) break;
            }
            const int64_t column = place(x + k, in_width, mode);
            if (column < 0)
                memset(to + (size_t)k * bytes, value, bytes);
            else
                memcpy(to + (size_t)k * bytes, from + (size_t)column * bytes, bytes);
        }
    }
}

/* ---- Rectangles -------------------------------------------------------------------------------- */

/* low * (high / low) ^ u for u in [0, 1) of 24 bits, by the square roots of its binary digits: only operations that are rounded the same
 * everywhere, which exp() and log() are not. */
static double between(double low, double high, float u) {
    uint32_t bits = (uint32_t)(u * 0x1p24f);
    double root = high / low, answer = low;
    for (uint32_t bit = 1u << 23; bit; bit >>= 1) {
        root = sqrt(root);
        if (bits & bit) answer *= root;
    }
    return answer;
}

void iter__stage_draw_sides(iter_rng *rng, const double *share, const double *ratio, int64_t height,
                            int64_t width, double out[2]) {
    const double part = share[0] + (share[1] - share[0]) * (double)iter_rng_uniform(rng);
    const double aspect = between(ratio[0], ratio[1], iter_rng_uniform(rng));
    const double area = (double)height * (double)width * part;
    out[0] = rint(sqrt(area / aspect));
    out[1] = rint(sqrt(area * aspect));
}
