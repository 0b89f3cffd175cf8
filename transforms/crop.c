/* crop.c - a window at a fixed place. */
#include "iter/core/error.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
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
        return iter__fail(err, ITER_EINVAL, "rows %lld..%lld, columns %lld..%lld of %lld x %lld",
                          (long long)o->y, (long long)(o->y + o->height - 1), (long long)o->x,
                          (long long)(o->x + o->width - 1), (long long)image.height,
                          (long long)image.width);
    *out_scratch = iter__stage_scratch(in, 0, 0);
    return ITER_OK;
}

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_crop_options *o = options;
    (void)err;
    iter_fold_crop(fold, o->y, o->x, o->height, o->width);
    return ITER_OK;
}

/* ---- Images of any size ------------------------------------------------------------------------ */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* From the image's first pixel, so that plan() sees an image in which the window lies where it is said to. */
static void wish(const void *options, const iter_desc *in, iter_rng *rng, iter_image_wish *out) {
    const iter_crop_options *o = options;
    (void)rng;
    *out = (iter_image_wish){
        .part = {0, 0, least(o->y + o->height, in->dims[0]), least(o->x + o->width, in->dims[1])}};
}

STAGE_APPLY(apply, iter__transform_crop)

#define AT(field) offsetof(iter_crop_options, field)
static const iter_option rows[] = {
    {"y", "first row", ITER_OPTION_INT, AT(y), 0, 65535, NULL, 1},
    {"x", "first column", ITER_OPTION_INT, AT(x), 0, 65535, NULL, 2},
    {"height", "rows", ITER_OPTION_INT, AT(height), 0, 65535, NULL, 3},
    {"width", "columns", ITER_OPTION_INT, AT(width), 0, 65535, NULL, 4},
    {0},
};
static const iter_crop_options defaults = ITER_CROP_OPTIONS_INIT;

const iter_transform_ops iter__transform_crop = {
    .base = {sizeof(iter_transform_ops), "crop", "cut a window out of the image at a fixed place",
             rows, &defaults, sizeof(defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .apply = apply,
    .wish = wish,
    .fold_plan = fold_plan,
};
