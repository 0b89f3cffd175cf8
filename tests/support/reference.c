/* reference.c - naive stages: written to be read and believed, not to be fast. */
#include "tests/support/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <iter/rng.h>
#include <iter/transforms.h>

/* ---- Types ----------------------------------------------------------------------------------- */

/* Sign, exponent and mantissa of a small float, by its definition. */
static double small_float(unsigned bits, int exponent_bits, int mantissa_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int mantissa = (int)bits & ((1 << mantissa_bits) - 1);
    const double sign = bits >> (exponent_bits + mantissa_bits) & 1u ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

double reference_load(iter_dtype dtype, const void *data, int64_t i) {
    const char *p = (const char *)data + i * (ptrdiff_t)iter_dtype_bytes(dtype);
    switch ((int)dtype) {
#define LOAD(name, type)         \
    case name: {                 \
        type x;                  \
        memcpy(&x, p, sizeof x); \
        return (double)x;        \
    }
        LOAD(ITER_U8, uint8_t)
        LOAD(ITER_I8, int8_t)
        LOAD(ITER_U16, uint16_t)
        LOAD(ITER_I16, int16_t)
        LOAD(ITER_U32, uint32_t)
        LOAD(ITER_I32, int32_t)
        LOAD(ITER_U64, uint64_t)
        LOAD(ITER_I64, int64_t)
        LOAD(ITER_F32, float)
        LOAD(ITER_F64, double)
    case ITER_BOOL: return *p != 0;
    }
    uint16_t half;
    memcpy(&half, p, sizeof(half));
    return dtype == ITER_F16 ? small_float(half, 5, 10) : small_float(half, 8, 7);
}

/* Spacing of values around x: `digits` binary digits, none finer than 2^lowest. */
static double spacing(double x, int digits, int lowest) {
    int exponent;
    frexp(fabs(x), &exponent); /* |x| in [2^(exponent - 1), 2^exponent) */
    return ldexp(1, exponent - digits > lowest ? exponent - digits : lowest);
}

static double round_float(double x, int digits, int lowest, double largest) {
    if (x == 0 || isnan(x) || isinf(x)) return x;
    const double step = spacing(x, digits, lowest);
    const double y = rint(x / step) * step;
    return fabs(y) > largest ? copysign(INFINITY, x) : copysign(y, x);
}

static double round_integer(double x, double low, double high) {
    if (isnan(x)) return 0;
    x = rint(x);
    return x < low ? low : x > high ? high : x;
}

double reference_round(iter_dtype dtype, double x) {
    switch ((int)dtype) {
    case ITER_U8: return round_integer(x, 0, 255);
    case ITER_I8: return round_integer(x, -128, 127);
    case ITER_U16: return round_integer(x, 0, 65535);
    case ITER_I16: return round_integer(x, -32768, 32767);
    case ITER_U32: return round_integer(x, 0, 4294967295.0);
    case ITER_I32: return round_integer(x, -2147483648.0, 2147483647.0);
    case ITER_U64: return round_integer(x, 0, 18446744073709551615.0);
    case ITER_I64: return round_integer(x, -9223372036854775808.0, 9223372036854775807.0);
    case ITER_BOOL: return x != 0;
    case ITER_F16: return round_float(x, 11, -24, 65504);
    case ITER_BF16: return round_float(x, 8, -133, 0x1.fep127);
    case ITER_F32: return round_float(x, 24, -149, 0x1.fffffep127);
    default: return x;
    }
}

double reference_ulp(iter_dtype dtype, double x) {
    if (dtype == ITER_F16) return spacing(x, 11, -24);
    if (dtype == ITER_BF16) return spacing(x, 8, -133);
    return spacing(x, 24, -149);
}

int reference_is_close(iter_dtype dtype, double got, reference_value want) {
    const double value = want.a * want.x + want.b;
    const double bound = 4 * 0x1p-24 * (fabs(want.a * want.x) + fabs(want.b));
    if (dtype == ITER_F32 || dtype == ITER_F64) return fabs(got - value) <= bound;
    const double once = reference_round(dtype, value);
    if (dtype == ITER_F16 || dtype == ITER_BF16)
        return got == once || fabs(got - once) <= reference_ulp(dtype, once);
    return got == once;
}

/* ---- Random sources -------------------------------------------------------------------------- */

uint64_t reference_u64(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void reference_random(uint64_t *state, iter_dtype dtype, void *out) {
    const uint64_t bits = reference_u64(state);
    const float number = (float)((int)(bits % 511) - 255) / 64;
    const double wide = number * 1.000030517578125;
    uint32_t word;
    uint16_t half;
    switch ((int)dtype) {
    case ITER_BOOL: *(char *)out = (char)(bits & 1); break;
    case ITER_F32: memcpy(out, &number, sizeof(number)); break;
    case ITER_F64: memcpy(out, &wide, sizeof(wide)); break;
    case ITER_BF16:
        memcpy(&word, &number, sizeof(word));
        half = (uint16_t)(word >> 16);
        memcpy(out, &half, sizeof(half));
        break;
    case ITER_F16: /* any finite sign, exponent and mantissa of middling size */
        half = (uint16_t)((bits & 0x83ffu) | (8 + (bits >> 20) % 12) << 10);
        memcpy(out, &half, sizeof(half));
        break;
    default: memcpy(out, &bits, iter_dtype_bytes(dtype));
    }
}

/* ---- Images ---------------------------------------------------------------------------------- */

static reference_value *value_at(const reference_image *image, int64_t c, int64_t y, int64_t x) {
    return &image->values[(c * image->height + y) * image->width + x];
}

static reference_image new_image(const reference_image *like, int64_t height, int64_t width) {
    reference_image image = *like;
    image.height = height;
    image.width = width;
    image.values = calloc((size_t)(image.channels * height * width) + 1, sizeof(*image.values));
    if (!image.values) abort();
    return image;
}

void reference_free(reference_image *image) {
    free(image->values);
    image->values = NULL;
}

static void replace(reference_image *image, reference_image by) {
    reference_free(image);
    *image = by;
}

/* Where element i of dense memory is: channel, row, column. */
static void place_of(const reference_image *image, int64_t i, int64_t *c, int64_t *y, int64_t *x) {
    if (image->is_hwc) {
        *c = i % image->channels;
        *x = i / image->channels % image->width;
        *y = i / image->channels / image->width;
    } else {
        *x = i % image->width;
        *y = i / image->width % image->height;
        *c = i / image->width / image->height;
    }
}

reference_image reference_image_from(const iter_desc *desc, const void *data) {
    reference_image like = {1, 1, 1, 0, desc->dtype, NULL};
    if (strcmp(desc->layout, "CHW") == 0) {
        like.channels = desc->dims[0];
        like.height = desc->dims[1];
        like.width = desc->dims[2];
    } else if (strcmp(desc->layout, "HWC") == 0) {
        like.height = desc->dims[0];
        like.width = desc->dims[1];
        like.channels = desc->dims[2];
        like.is_hwc = 1;
    } else if (strcmp(desc->layout, "HW") == 0) {
        like.height = desc->dims[0];
        like.width = desc->dims[1];
    } else {
        like.width = iter_desc_elements(desc);
    }
    reference_image image = new_image(&like, like.height, like.width);
    for (int64_t i = 0; i < image.channels * image.height * image.width; i++) {
        int64_t c, y, x;
        place_of(&image, i, &c, &y, &x);
        *value_at(&image, c, y, x) = (reference_value){reference_load(desc->dtype, data, i), 1, 0};
    }
    return image;
}

reference_value reference_at(const reference_image *image, int64_t i) {
    int64_t c, y, x;
    place_of(image, i, &c, &y, &x);
    return *value_at(image, c, y, x);
}

/* ---- Stages ---------------------------------------------------------------------------------- */

static void crop(reference_image *image, int64_t y0, int64_t x0, int64_t height, int64_t width) {
    reference_image out = new_image(image, height, width);
    for (int64_t c = 0; c < out.channels; c++)
        for (int64_t y = 0; y < height; y++)
            for (int64_t x = 0; x < width; x++)
                *value_at(&out, c, y, x) = *value_at(image, c, y0 + y, x0 + x);
    replace(image, out);
}

/* numpy.pad's rule, by walking. */
static int64_t bounce(int64_t p, int64_t n) {
    while (n > 1 && (p < 0 || p >= n))
        p = p < 0 ? -p : 2 * (n - 1) - p;
    return n > 1 ? p : 0;
}

static int64_t nearest(int64_t p, int64_t n) {
    return p < 0 ? 0 : p >= n ? n - 1 : p;
}

typedef struct sides {
    int64_t top, left, bottom, right;
} sides;

static void pad(reference_image *image, sides s, int32_t mode, double value) {
    reference_image out =
        new_image(image, image->height + s.top + s.bottom, image->width + s.left + s.right);
    const reference_value fill = {reference_round(image->dtype, value), 1, 0};
    for (int64_t c = 0; c < out.channels; c++)
        for (int64_t y = 0; y < out.height; y++)
            for (int64_t x = 0; x < out.width; x++) {
                int64_t sy = y - s.top, sx = x - s.left;
                const int inside = sy >= 0 && sy < image->height && sx >= 0 && sx < image->width;
                if (mode == ITER_PAD_REFLECT) {
                    sy = bounce(sy, image->height);
                    sx = bounce(sx, image->width);
                } else if (mode == ITER_PAD_EDGE) {
                    sy = nearest(sy, image->height);
                    sx = nearest(sx, image->width);
                }
                *value_at(&out, c, y, x) =
                    mode == ITER_PAD_CONSTANT && !inside ? fill : *value_at(image, c, sy, sx);
            }
    replace(image, out);
}

static void flip(reference_image *image, int32_t axis) {
    reference_image out = new_image(image, image->height, image->width);
    for (int64_t c = 0; c < out.channels; c++)
        for (int64_t y = 0; y < out.height; y++)
            for (int64_t x = 0; x < out.width; x++)
                *value_at(&out, c, y, x) = axis == ITER_FLIP_VERTICAL
                                               ? *value_at(image, c, image->height - 1 - y, x)
                                               : *value_at(image, c, y, image->width - 1 - x);
    replace(image, out);
}

static void cutout(reference_image *image, const iter_cutout_options *o, iter_rng *rng) {
    const int64_t cy = (int64_t)iter_rng_below(rng, (uint64_t)image->height);
    const int64_t cx = (int64_t)iter_rng_below(rng, (uint64_t)image->width);
    const int64_t y0 = cy - o->size / 2, x0 = cx - o->size / 2;
    const reference_value fill = {reference_round(image->dtype, o->fill), 1, 0};
    for (int64_t c = 0; c < image->channels; c++)
        for (int64_t y = 0; y < image->height; y++)
            for (int64_t x = 0; x < image->width; x++)
                if (y >= y0 && y < y0 + o->size && x >= x0 && x < x0 + o->size)
                    *value_at(image, c, y, x) = fill;
}

static void affine(reference_image *image, int64_t c, double scale, double bias) {
    for (int64_t i = 0; i < image->height * image->width; i++) {
        reference_value *v = &image->values[c * image->height * image->width + i];
        v->a *= scale;
        v->b = v->b * scale + bias;
    }
}

static void normalize(reference_image *image, const iter_normalize_options *o) {
    for (int64_t c = 0; c < image->channels; c++) {
        const double mean = o->mean.n == 0 ? 0 : o->mean.values[o->mean.n == 1 ? 0 : c];
        const double std = o->std.n == 0 ? 1 : o->std.values[o->std.n == 1 ? 0 : c];
        if (image->dtype == ITER_U8) affine(image, c, 1.0 / 255.0, 0);
        affine(image, c, 1, -mean);
        affine(image, c, 1 / std, 0);
    }
    image->dtype = image->dtype == ITER_F64 ? ITER_F64 : ITER_F32;
}

/* Casts now if the type rounds more than f32 does. A cast to f32 or f64 is left to the end, which
 * the bound allows. */
static void cast(reference_image *image, iter_dtype dtype) {
    image->dtype = dtype;
    if (dtype == ITER_F32 || dtype == ITER_F64) return;
    for (int64_t i = 0; i < image->channels * image->height * image->width; i++) {
        reference_value *v = &image->values[i];
        v->x = reference_round(dtype, v->a * v->x + v->b);
        v->a = 1;
        v->b = 0;
    }
}

/* ---- Bytes ---- */

typedef enum byte_change { POSTERIZE, SOLARIZE, GAMMA } byte_change;

static double changed(byte_change change, double x, double number, double gain) {
    const int byte = (int)x;
    switch (change) {
    case POSTERIZE: return byte / (1 << (8 - (int)number)) * (1 << (8 - (int)number));
    case SOLARIZE: return byte < number ? byte : 255 - byte;
    case GAMMA: break;
    }
    const double value = floor((255 + 1 - 1e-3) * gain * pow(byte / 255.0, number));
    return value > 255 ? 255 : value;
}

static void change_bytes(reference_image *image, byte_change change, double number, double gain) {
    for (int64_t i = 0; i < image->channels * image->height * image->width; i++) {
        reference_value *v = &image->values[i];
        const double x = reference_round(ITER_U8, v->a * v->x + v->b);
        *v = (reference_value){changed(change, x, number, gain), 1, 0};
    }
}

/* The arithmetic of scale:-1,255, but bytes remain bytes. */
static void invert(reference_image *image) {
    for (int64_t c = 0; c < image->channels; c++)
        affine(image, c, -1, 255);
}

/* Returns false if it is not a stage of bytes. */
static int apply_bytes(reference_image *image, const char *name, const void *options,
                       iter_rng *rng) {
    if (strcmp(name, "posterize") == 0) {
        change_bytes(image, POSTERIZE, (double)((const iter_posterize_options *)options)->bits, 1);
    } else if (strcmp(name, "random-posterize") == 0) {
        const iter_random_posterize_options *o = options;
        if (iter_rng_chance(rng, o->p)) change_bytes(image, POSTERIZE, (double)o->bits, 1);
    } else if (strcmp(name, "solarize") == 0) {
        change_bytes(image, SOLARIZE, (double)((const iter_solarize_options *)options)->threshold,
                     1);
    } else if (strcmp(name, "random-solarize") == 0) {
        const iter_random_solarize_options *o = options;
        if (iter_rng_chance(rng, o->p)) change_bytes(image, SOLARIZE, (double)o->threshold, 1);
    } else if (strcmp(name, "gamma") == 0) {
        const iter_gamma_options *o = options;
        change_bytes(image, GAMMA, o->gamma, o->gain);
    } else if (strcmp(name, "invert") == 0) {
        invert(image);
    } else if (strcmp(name, "random-invert") == 0) {
        if (iter_rng_chance(rng, ((const iter_random_invert_options *)options)->p))
            change_bytes(image, SOLARIZE, 0, 1);
    } else {
        return 0;
    }
    return 1;
}

static void random_crop(reference_image *image, const iter_random_crop_options *o, iter_rng *rng) {
    const int64_t height = o->size ? o->size : o->height, width = o->size ? o->size : o->width;
    pad(image, (sides){o->pad, o->pad, o->pad, o->pad}, o->mode, o->fill);
    const int64_t y = (int64_t)iter_rng_below(rng, (uint64_t)(image->height - height + 1));
    const int64_t x = (int64_t)iter_rng_below(rng, (uint64_t)(image->width - width + 1));
    crop(image, y, x, height, width);
}

static void center_crop(reference_image *image, const iter_center_crop_options *o) {
    const int64_t height = o->size ? o->size : o->height, width = o->size ? o->size : o->width;
    if (o->rounding == ITER_ROUNDING_TORCHVISION) /* int(round(n / 2.0)), halves to even */
        crop(image, (int64_t)rint((double)(image->height - height) / 2.0),
             (int64_t)rint((double)(image->width - width) / 2.0), height, width);
    else
        crop(image, (image->height - height) / 2, (image->width - width) / 2, height, width);
}

static void to(reference_image *image, const iter_to_options *o) {
    if (o->dtype != ITER_DTYPE_NONE) cast(image, (iter_dtype)o->dtype);
    if (o->layout == ITER_LAYOUT_CHW || o->layout == ITER_LAYOUT_NCHW) image->is_hwc = 0;
    if (o->layout == ITER_LAYOUT_HWC || o->layout == ITER_LAYOUT_NHWC) image->is_hwc = 1;
}

int reference_apply(reference_image *image, const iter__stage *stage,
                    const iter__pack_sample *sample) {
    const char *name = stage->ops->base.name;
    const void *options = stage->options;
    iter_rng rng = iter_rng_at(iter_rng_key(sample->seed, name, stage->occurrence), sample->epoch,
                               sample->position);
    if (strcmp(name, "random-crop") == 0) {
        random_crop(image, options, &rng);
    } else if (strcmp(name, "center-crop") == 0) {
        center_crop(image, options);
    } else if (strcmp(name, "crop") == 0) {
        const iter_crop_options *o = options;
        crop(image, o->y, o->x, o->height, o->width);
    } else if (strcmp(name, "pad") == 0) {
        const iter_pad_options *o = options;
        pad(image,
            (sides){o->all + o->top, o->all + o->left, o->all + o->bottom, o->all + o->right},
            o->mode, o->value);
    } else if (strcmp(name, "flip") == 0) {
        flip(image, ((const iter_flip_options *)options)->axis);
    } else if (strcmp(name, "random-flip") == 0) {
        const iter_random_flip_options *o = options;
        if (iter_rng_chance(&rng, o->p)) flip(image, o->axis);
    } else if (strcmp(name, "cutout") == 0) {
        cutout(image, options, &rng);
    } else if (strcmp(name, "scale") == 0) {
        const iter_scale_options *o = options;
        for (int64_t c = 0; c < image->channels; c++)
            affine(image, c, o->factor, o->bias);
        image->dtype = image->dtype == ITER_F64 ? ITER_F64 : ITER_F32;
    } else if (strcmp(name, "normalize") == 0) {
        normalize(image, options);
    } else if (strcmp(name, "cast") == 0) {
        cast(image, (iter_dtype)((const iter_cast_options *)options)->dtype);
    } else if (strcmp(name, "to") == 0) {
        to(image, options);
    } else {
        return apply_bytes(image, name, options, &rng);
    }
    return 1;
}
