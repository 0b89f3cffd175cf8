/*
 * crop.c - crop, center-crop and random-crop: cut a window out of an image.
 *
 * random-crop draws y and x even if the window fits in one place only, so that how many numbers a
 * sample draws does not depend on its size.
 */
#include <iter/transforms.h>

#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "transforms/stages.h"

/* iter_pad_mode has iter_edge's numbers. */
_Static_assert((int)ITER_PAD_CONSTANT == (int)ITER_EDGE_CONSTANT &&
                   (int)ITER_PAD_REFLECT == (int)ITER_EDGE_REFLECT &&
                   (int)ITER_PAD_EDGE == (int)ITER_EDGE_REPLICATE,
               "pad modes differ");

/* ---- crop ------------------------------------------------------------------------------------ */

static iter_status crop_plan(const void *options, const iter_desc *in, iter_desc *out,
                             size_t *out_scratch, iter_error *err) {
    const iter_crop_options *o = options;
    stage_image image;
    *out_scratch = 0;
    ITER_TRY(iter__stage_image(in, &image, err));
    if (o->height < 1 || o->width < 1)
        return iter__fail(err, ITER_EINVAL, "wants y,x,height,width with a height and a width");
    iter__stage_resize(in, o->height, o->width, out);
    if (image.is_any) return ITER_OK;
    if (o->y + o->height > image.height || o->x + o->width > image.width)
        return iter__fail(
            err, ITER_EINVAL,
            "rows %lld..%lld, columns %lld..%lld reach beyond an image of %lld x %lld",
            (long long)o->y, (long long)(o->y + o->height - 1), (long long)o->x,
            (long long)(o->x + o->width - 1), (long long)image.height, (long long)image.width);
    *out_scratch = iter__stage_scratch(in, 0, 0);
    return ITER_OK;
}

static iter_status crop_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_crop_options *o = options;
    (void)err;
    iter_fold_crop(fold, o->y, o->x, o->height, o->width);
    return ITER_OK;
}

/* Starts at the image's first pixel, because apply() cuts where y and x say, in the part it
 * gets. */
static void crop_wish(const void *options, const iter_desc *in, iter_rng *rng,
                      iter_image_wish *out) {
    const iter_crop_options *o = options;
    (void)rng;
    *out = (iter_image_wish){.part = {0, 0, iter__min_i64(o->y + o->height, in->dims[0]),
                                      iter__min_i64(o->x + o->width, in->dims[1])}};
}

STAGE_APPLY(crop)

static const iter_option crop_rows[] = {
    ITER_ROW_INT("y", "first row", iter_crop_options, y, 0, STAGE_SIDE_MAX, 1),
    ITER_ROW_INT("x", "first column", iter_crop_options, x, 0, STAGE_SIDE_MAX, 2),
    ITER_ROW_INT("height", "rows", iter_crop_options, height, 0, STAGE_SIDE_MAX, 3),
    ITER_ROW_INT("width", "columns", iter_crop_options, width, 0, STAGE_SIDE_MAX, 4),
    ITER_ROW_END,
};
static const iter_crop_options crop_defaults = ITER_CROP_OPTIONS_INIT;

const iter_transform_ops iter__transform_crop = {
    .base = STAGE_BASE(crop, "crop", "cut a window out of the image at a fixed place", 0),
    .role = ITER_DATA,
    .plan = crop_plan,
    .apply = crop_apply,
    .wish = crop_wish,
    .fold_plan = crop_fold_plan,
};

/* ---- center-crop ----------------------------------------------------------------------------- */

static iter_status center_crop_plan(const void *options, const iter_desc *in, iter_desc *out,
                                    size_t *out_scratch, iter_error *err) {
    const iter_center_crop_options *o = options;
    stage_image image;
    int64_t window[2];
    *out_scratch = 0;
    ITER_TRY(iter__stage_image(in, &image, err));
    ITER_TRY(iter__stage_window(o->size, o->height, o->width, window, err));
    iter__stage_resize(in, window[0], window[1], out);
    if (image.is_any) return ITER_OK;
    if (window[0] > image.height || window[1] > image.width)
        return iter__fail(err, ITER_EINVAL, "a window of %lld x %lld does not fit into %lld x %lld",
                          (long long)window[0], (long long)window[1], (long long)image.height,
                          (long long)image.width);
    *out_scratch = iter__stage_scratch(in, 0, 0);
    return ITER_OK;
}

/* Rows or columns before the window, of n that are cut off in all. */
static int64_t center_crop_before(int64_t n, int32_t rounding) {
    const int64_t half = n / 2;
    return rounding == ITER_ROUNDING_TORCHVISION && n % 2 ? half + half % 2 : half;
}

static iter_status center_crop_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_center_crop_options *o = options;
    int64_t height, width, channels, window[2];
    ITER_TRY(iter__stage_window(o->size, o->height, o->width, window, err));
    iter_fold_size(fold, &height, &width, &channels);
    iter_fold_crop(fold, center_crop_before(height - window[0], o->rounding),
                   center_crop_before(width - window[1], o->rounding), window[0], window[1]);
    return ITER_OK;
}

STAGE_APPLY(center_crop)
STAGE_WISH(center_crop)

static const iter_option center_crop_rows[] = {
    STAGE_SIZE_ROWS(iter_center_crop_options, "height and width of the window"),
    ITER_ROW_CHOICE("rounding", "whose middle, if an odd number is cut off",
                    iter_center_crop_options, rounding, "pillow|torchvision"),
    ITER_ROW_END,
};
static const iter_center_crop_options center_crop_defaults = ITER_CENTER_CROP_OPTIONS_INIT;

const iter_transform_ops iter__transform_center_crop = {
    .base = STAGE_BASE(center_crop, "center-crop", "cut a window out of the image's middle", 0),
    .role = ITER_DATA,
    .plan = center_crop_plan,
    .apply = center_crop_apply,
    .wish = center_crop_wish,
    .fold_plan = center_crop_fold_plan,
};

/* ---- random-crop ----------------------------------------------------------------------------- */

static iter_status random_crop_plan(const void *options, const iter_desc *in, iter_desc *out,
                                    size_t *out_scratch, iter_error *err) {
    const iter_random_crop_options *o = options;
    stage_image image;
    int64_t window[2];
    *out_scratch = 0;
    ITER_TRY(iter__stage_image(in, &image, err));
    ITER_TRY(iter__stage_window(o->size, o->height, o->width, window, err));
    iter__stage_resize(in, window[0], window[1], out);
    if (image.is_any) return ITER_OK;
    if (window[0] > image.height + 2 * o->pad || window[1] > image.width + 2 * o->pad)
        return iter__fail(err, ITER_EINVAL,
                          "a window of %lld x %lld does not fit into %lld x %lld with pad %lld",
                          (long long)window[0], (long long)window[1], (long long)image.height,
                          (long long)image.width, (long long)o->pad);
    *out_scratch = iter__stage_scratch(in, 2 * o->pad, 2 * o->pad);
    return ITER_OK;
}

/* Pads, then cuts: at a random place, or at (0, 0) when rng is NULL. */
static void random_crop_fold(const iter_random_crop_options *o, iter_fold *fold, iter_rng *rng) {
    int64_t height, width, channels, window[2], y = 0, x = 0;
    if (iter__stage_window(o->size, o->height, o->width, window, NULL) < 0) return;
    if (o->pad > 0)
        iter_fold_pad(fold, o->pad, o->pad, o->pad, o->pad, (iter_edge)o->mode, o->fill);
    iter_fold_size(fold, &height, &width, &channels);
    if (rng) {
        y = (int64_t)iter_rng_below(rng, (uint64_t)(height - window[0] + 1));
        x = (int64_t)iter_rng_below(rng, (uint64_t)(width - window[1] + 1));
    }
    iter_fold_crop(fold, y, x, window[0], window[1]);
}

static iter_status random_crop_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    (void)err;
    random_crop_fold(options, fold, NULL);
    return ITER_OK;
}

static void random_crop_fold_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    random_crop_fold(options, fold, rng);
}

/* Without padding asks for the window: apply() then gets exactly that. With padding asks for the
 * whole image, and apply() draws. */
static void random_crop_wish(const void *options, const iter_desc *in, iter_rng *rng,
                             iter_image_wish *out) {
    const iter_random_crop_options *o = options;
    if (o->pad == 0)
        iter__stage_wish(&iter__transform_random_crop, options, in, rng, out);
    else
        *out = (iter_image_wish){.part = {0, 0, in->dims[0], in->dims[1]}};
}

STAGE_APPLY(random_crop)

static const iter_option random_crop_rows[] = {
    STAGE_SIZE_ROWS(iter_random_crop_options, "height and width of the window"),
    ITER_ROW_INT("pad", "pixels added on every side first", iter_random_crop_options, pad, 0,
                 STAGE_SIDE_MAX, 0),
    ITER_ROW_DOUBLE("fill", "value of added pixels", iter_random_crop_options, fill, 0, 0, 0),
    STAGE_PAD_MODE_ROW(iter_random_crop_options),
    ITER_ROW_END,
};
static const iter_random_crop_options random_crop_defaults = ITER_RANDOM_CROP_OPTIONS_INIT;

const iter_transform_ops iter__transform_random_crop = {
    .base = STAGE_BASE(random_crop, "random-crop",
                       "cut a window out of the image at a random place, padded first", 0),
    .role = ITER_DATA,
    .plan = random_crop_plan,
    .apply = random_crop_apply,
    .wish = random_crop_wish,
    .fold_plan = random_crop_fold_plan,
    .fold_sample = random_crop_fold_sample,
};
