/* center_crop.c - the window in the middle of the image. */
#include "iter/core/error.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
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

/* Rows or columns cut off before the window, of n in all. */
static int64_t before(int64_t n, int32_t rounding) {
    const int64_t half = n / 2;
    return rounding == ITER_ROUNDING_TORCHVISION && n % 2 ? half + half % 2 : half;
}

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_center_crop_options *o = options;
    int64_t height, width, channels, window[2];
    ITER_TRY(iter__stage_window(o->size, o->height, o->width, window, err));
    iter_fold_size(fold, &height, &width, &channels);
    iter_fold_crop(fold, before(height - window[0], o->rounding),
                   before(width - window[1], o->rounding), window[0], window[1]);
    return ITER_OK;
}

STAGE_APPLY(apply, iter__transform_center_crop)
STAGE_WISH(wish, iter__transform_center_crop)

#define AT(field) offsetof(iter_center_crop_options, field)
static const iter_option rows[] = {
    {"size", "height and width of the window", ITER_OPTION_INT, AT(size), 0, 65535, NULL, 1},
    {"height", "height, where there is no size", ITER_OPTION_INT, AT(height), 0, 65535, NULL, 0},
    {"width", "width, where there is no size", ITER_OPTION_INT, AT(width), 0, 65535, NULL, 0},
    {"rounding", "whose middle, if an odd number is cut off", ITER_OPTION_CHOICE, AT(rounding), 0,
     0, "pillow|torchvision", 0},
    {0},
};
static const iter_center_crop_options defaults = ITER_CENTER_CROP_OPTIONS_INIT;

const iter_transform_ops iter__transform_center_crop = {
    .base = {sizeof(iter_transform_ops), "center-crop", "cut a window out of the image's middle",
             rows, &defaults, sizeof(defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .apply = apply,
    .wish = wish,
    .fold_plan = fold_plan,
};
