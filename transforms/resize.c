/*
 * resize.c - resize, resize-short and random-resized-crop: another height and width.
 *
 * random-resized-crop: Szegedy et al., "Going deeper with convolutions", 2015. Sides, places and
 * the fallback after ten tries are torchvision's.
 */
#include <math.h>

#include <iter/transforms.h>

#include "iter/core/arith.h"
#include "iter/core/cpu.h"
#include "iter/core/error.h"
#include "transforms/resample/resample.h"
#include "transforms/stages.h"

#define CROP_TRIES 10
#define AUTO_TIMES 2

/* ---- What the three share -------------------------------------------------------------------- */

typedef struct resize_state {
    resample_filter filter;
    const resample_kernels *kernels;
    resample_run *run; /* from begin_rows() to the last row */
} resize_state;

static resample_filter filter_of(int32_t interpolation, bool antialias) {
    if (interpolation == ITER_INTERPOLATION_BICUBIC) return RESAMPLE_BICUBIC;
    if (interpolation == ITER_INTERPOLATION_AREA) return RESAMPLE_AREA;
    if (interpolation == ITER_INTERPOLATION_NEAREST) return RESAMPLE_NEAREST;
    return antialias ? RESAMPLE_BILINEAR : RESAMPLE_LINEAR;
}

static iter_status prepare(resize_state *s, int32_t interpolation, bool antialias) {
    s->filter = filter_of(interpolation, antialias);
    s->kernels = iter__resample_kernels(iter__cpu_level());
    return ITER_OK;
}

static iter_status check_antialias(int32_t interpolation, bool antialias, iter_error *err) {
    if (interpolation != ITER_INTERPOLATION_BICUBIC || antialias) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "bicubic always goes with antialias: leave out antialias=no, or use "
                      "interpolation=bilinear");
}

/* *out = *in as height x width, ITER_VARIABLE if these are not known yet. Images of any size need
 * no scratch. Fails with EINVAL unless `in` is u8 HWC, or if a side is too large. */
static iter_status plan_sides(resample_filter filter, const iter_desc *in, int64_t height,
                              int64_t width, iter_desc *out, size_t *out_scratch, iter_error *err) {
    stage_image image;
    *out_scratch = 0;
    ITER_TRY(iter__stage_bytes(in, &image, err));
    if (height > RESAMPLE_MAX_SIDE || width > RESAMPLE_MAX_SIDE ||
        image.height > RESAMPLE_MAX_SIDE || image.width > RESAMPLE_MAX_SIDE)
        return iter__fail(err, ITER_EINVAL, "%lld x %lld to %lld x %lld: a side is above %d",
                          (long long)image.height, (long long)image.width, (long long)height,
                          (long long)width, RESAMPLE_MAX_SIDE);
    iter__stage_resize(in, height, width, out);
    if (!image.is_any)
        *out_scratch = iter__resample_scratch(filter, image.height, image.width, height, width,
                                              (int32_t)image.channels);
    return ITER_OK;
}

static iter_status resize_apply(void *state, const void *options, const iter_tensor *in,
                                iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
    const resize_state *s = state;
    const resample_image image = {in->data, (ptrdiff_t)(in->desc.dims[1] * in->desc.dims[2]),
                                  in->desc.dims[0], in->desc.dims[1]};
    (void)options, (void)rng, (void)err;
    iter__resample(s->filter, &image, out->data, out->desc.dims[0], out->desc.dims[1],
                   (int32_t)in->desc.dims[2], s->kernels, scratch);
    return ITER_OK;
}

static size_t resize_begin_rows(void *state, const void *options, const iter_tensor *in,
                                iter_tensor *out, void *scratch) {
    resize_state *s = state;
    size_t reach = 0;
    (void)options;
    s->run = iter__resample_begin(s->filter, in->desc.dims[0], in->desc.dims[1], out->data,
                                  out->desc.dims[0], out->desc.dims[1], (int32_t)in->desc.dims[2],
                                  s->kernels, scratch, &reach);
    return reach;
}

static int64_t resize_take_rows(void *state, const uint8_t *const *rows, int32_t n) {
    const resize_state *s = state;
    return iter__resample_rows(s->run, rows, n);
}

/* Lets the decoder make the part smaller, but not smaller than the result; AUTO leaves at least a
 * halving to the filter. */
static void wish_scale(iter_image_wish *wish, int32_t jpeg_scale, int64_t height, int64_t width) {
    if (jpeg_scale == ITER_JPEG_EXACT) return;
    const int64_t times = jpeg_scale == ITER_JPEG_AUTO ? AUTO_TIMES : 1;
    wish->min_height = times * height;
    wish->min_width = times * width;
}

/* The options that all three have. */
#define RESIZE_ROWS(type)                                                                          \
    ITER_ROW_CHOICE("interpolation", "how pixels are computed", type, interpolation,               \
                    "bilinear|bicubic|area|nearest"),                                              \
        ITER_ROW_BOOL("antialias",                                                                 \
                      "bilinear: use all pixels that fall into one, not the nearest two", type,    \
                      antialias),                                                                  \
        ITER_ROW_CHOICE("jpeg-scale",                                                              \
                        "fast: the decoder may make JPEGs smaller itself; auto: large ones", type, \
                        jpeg_scale, "exact|fast|auto")

/* ---- resize ---------------------------------------------------------------------------------- */

static iter_status resize_plan(const void *options, const iter_desc *in, iter_desc *out,
                               size_t *out_scratch, iter_error *err) {
    const iter_resize_options *o = options;
    int64_t side[2];
    *out_scratch = 0;
    ITER_TRY(iter__stage_window(o->size, o->height, o->width, side, err));
    ITER_TRY(check_antialias(o->interpolation, o->antialias, err));
    return plan_sides(filter_of(o->interpolation, o->antialias), in, side[0], side[1], out,
                      out_scratch, err);
}

static iter_status resize_start(void *state, const void *options, iter_error *err) {
    const iter_resize_options *o = options;
    (void)err;
    return prepare(state, o->interpolation, o->antialias);
}

static void resize_wish(const void *options, const iter_desc *in, iter_rng *rng,
                        iter_image_wish *out) {
    const iter_resize_options *o = options;
    (void)rng;
    *out = (iter_image_wish){.part = {0, 0, in->dims[0], in->dims[1]}};
    wish_scale(out, o->jpeg_scale, o->size > 0 ? o->size : o->height,
               o->size > 0 ? o->size : o->width);
}

static const iter_option resize_rows[] = {
    STAGE_SIZE_ROWS(iter_resize_options, "height and width"),
    RESIZE_ROWS(iter_resize_options),
    ITER_ROW_END,
};
static const iter_resize_options resize_defaults = ITER_RESIZE_OPTIONS_INIT;

const iter_transform_ops iter__transform_resize = {
    .base = STAGE_BASE(resize, "resize", "another height and width", sizeof(resize_state)),
    .role = ITER_DATA,
    .plan = resize_plan,
    .start = resize_start,
    .apply = resize_apply,
    .begin_rows = resize_begin_rows,
    .take_rows = resize_take_rows,
    .wish = resize_wish,
};

/* ---- resize-short ---------------------------------------------------------------------------- */

static void short_sides(int64_t size, int64_t height, int64_t width, int64_t out[2]) {
    out[0] = height <= width ? size : size * height / width;
    out[1] = height <= width ? size * width / height : size;
}

static iter_status resize_short_plan(const void *options, const iter_desc *in, iter_desc *out,
                                     size_t *out_scratch, iter_error *err) {
    const iter_resize_short_options *o = options;
    stage_image image;
    int64_t side[2] = {ITER_VARIABLE, ITER_VARIABLE};
    *out_scratch = 0;
    if (o->size < 1) return iter__fail(err, ITER_EINVAL, "wants a size of at least 1: size=N");
    ITER_TRY(iter__stage_bytes(in, &image, err));
    if (!image.is_any) short_sides(o->size, image.height, image.width, side);
    ITER_TRY(check_antialias(o->interpolation, o->antialias, err));
    return plan_sides(filter_of(o->interpolation, o->antialias), in, side[0], side[1], out,
                      out_scratch, err);
}

static iter_status resize_short_start(void *state, const void *options, iter_error *err) {
    const iter_resize_short_options *o = options;
    (void)err;
    return prepare(state, o->interpolation, o->antialias);
}

static void resize_short_wish(const void *options, const iter_desc *in, iter_rng *rng,
                              iter_image_wish *out) {
    const iter_resize_short_options *o = options;
    int64_t side[2];
    (void)rng;
    *out = (iter_image_wish){.part = {0, 0, in->dims[0], in->dims[1]}};
    short_sides(o->size, in->dims[0], in->dims[1], side);
    wish_scale(out, o->jpeg_scale, side[0], side[1]);
}

static const iter_option resize_short_rows[] = {
    ITER_ROW_INT("size", "length of the short side", iter_resize_short_options, size, 0,
                 STAGE_SIDE_MAX, 1),
    RESIZE_ROWS(iter_resize_short_options),
    ITER_ROW_END,
};
static const iter_resize_short_options resize_short_defaults = ITER_RESIZE_SHORT_OPTIONS_INIT;

const iter_transform_ops iter__transform_resize_short = {
    .base = STAGE_BASE(resize_short, "resize-short", "the short side to a length",
                       sizeof(resize_state)),
    .role = ITER_DATA,
    .plan = resize_short_plan,
    .start = resize_short_start,
    .apply = resize_apply,
    .begin_rows = resize_begin_rows,
    .take_rows = resize_take_rows,
    .wish = resize_short_wish,
};

/* ---- random-resized-crop --------------------------------------------------------------------- */

static iter_status random_resized_crop_plan(const void *options, const iter_desc *in,
                                            iter_desc *out, size_t *out_scratch, iter_error *err) {
    const iter_random_resized_crop_options *o = options;
    int64_t side[2];
    *out_scratch = 0;
    ITER_TRY(iter__stage_window(o->size, o->height, o->width, side, err));
    ITER_TRY(iter__stage_bounds(&o->scale, "scale", 1, err));
    ITER_TRY(iter__stage_bounds(&o->ratio, "ratio", 1000, err));
    ITER_TRY(check_antialias(o->interpolation, o->antialias, err));
    return plan_sides(filter_of(o->interpolation, o->antialias), in, side[0], side[1], out,
                      out_scratch, err);
}

static iter_status random_resized_crop_start(void *state, const void *options, iter_error *err) {
    const iter_random_resized_crop_options *o = options;
    (void)err;
    return prepare(state, o->interpolation, o->antialias);
}

/* The largest window in the middle whose aspect is within bounds. */
static iter_rect middle_window(const double *ratio, int64_t height, int64_t width) {
    const double aspect = (double)width / (double)height;
    iter_rect part = {0, 0, height, width};
    if (aspect < ratio[0]) part.height = (int64_t)rint((double)width / ratio[0]);
    if (aspect > ratio[1]) part.width = (int64_t)rint((double)height * ratio[1]);
    part.height = iter__max_i64(part.height, 1);
    part.width = iter__max_i64(part.width, 1);
    part.y = (height - part.height) / 2;
    part.x = (width - part.width) / 2;
    return part;
}

static iter_rect draw_window(const iter_random_resized_crop_options *o, int64_t height,
                             int64_t width, iter_rng *rng) {
    for (int i = 0; i < CROP_TRIES; i++) {
        double sides[2];
        iter__stage_draw_sides(rng, o->scale.values, o->ratio.values, height, width, sides);
        if (sides[0] < 1 || sides[0] > (double)height || sides[1] < 1 || sides[1] > (double)width)
            continue;
        iter_rect part = {0, 0, (int64_t)sides[0], (int64_t)sides[1]};
        part.y = (int64_t)iter_rng_below(rng, (uint64_t)(height - part.height + 1));
        part.x = (int64_t)iter_rng_below(rng, (uint64_t)(width - part.width + 1));
        return part;
    }
    return middle_window(o->ratio.values, height, width);
}

static void random_resized_crop_wish(const void *options, const iter_desc *in, iter_rng *rng,
                                     iter_image_wish *out) {
    const iter_random_resized_crop_options *o = options;
    *out = (iter_image_wish){.part = draw_window(o, in->dims[0], in->dims[1], rng)};
    wish_scale(out, o->jpeg_scale, o->size > 0 ? o->size : o->height,
               o->size > 0 ? o->size : o->width);
}

static const iter_option random_resized_crop_rows[] = {
    STAGE_SIZE_ROWS(iter_random_resized_crop_options, "height and width of the result"),
    ITER_ROW_LIST("scale", "least and largest share of the image's area",
                  iter_random_resized_crop_options, scale, 0, 0, 0),
    ITER_ROW_LIST("ratio", "least and largest width / height", iter_random_resized_crop_options,
                  ratio, 0, 0, 0),
    RESIZE_ROWS(iter_random_resized_crop_options),
    ITER_ROW_END,
};
static const iter_random_resized_crop_options random_resized_crop_defaults =
    ITER_RANDOM_RESIZED_CROP_OPTIONS_INIT;

const iter_transform_ops iter__transform_random_resized_crop = {
    .base = STAGE_BASE(random_resized_crop, "random-resized-crop",
                       "a window of random area and aspect, resized", sizeof(resize_state)),
    .role = ITER_DATA,
    .plan = random_resized_crop_plan,
    .start = random_resized_crop_start,
    .apply = resize_apply,
    .begin_rows = resize_begin_rows,
    .take_rows = resize_take_rows,
    .wish = random_resized_crop_wish,
};
