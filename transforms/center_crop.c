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
    return ITER_OK;
}

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_center_crop_options *o = options;
    int64_t height, width, channels, window[2];
    ITER_TRY(iter__stage_window(o->size, o->height, o->width, window, err));
    iter_fold_size(fold, &height, &width, &channels);
    iter_fold_crop(fold, (height - window[0]) / 2, (width - window[1]) / 2, window[0], window[1]);
    return ITER_OK;
}

/* ---- Images of any size ------------------------------------------------------------------------ */

/* The window; the whole image where it does not fit, which plan() then says. */
static void wish(const void *options, const iter_desc *in, iter_rng *rng, iter_image_wish *out) {
    const iter_center_crop_options *o = options;
    const int64_t height = o->size > 0 ? o->size : o->height;
    const int64_t width = o->size > 0 ? o->size : o->width;
    (void)rng;
    *out = (iter_image_wish){.part = {0, 0, in->dims[0], in->dims[1]}};
    if (height > in->dims[0] || width > in->dims[1]) return;
    out->part = (iter_rect){(in->dims[0] - height) / 2, (in->dims[1] - width) / 2, height, width};
}

static iter_status apply(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         iter_rng *rng, void *scratch, iter_error *err) {
    (void)state, (void)options, (void)rng, (void)scratch, (void)err;
    iter__stage_copy(in, out, false, false);
    return ITER_OK;
}

#define AT(field) offsetof(iter_center_crop_options, field)
static const iter_option rows[] = {
    {"size", "height and width of the window", ITER_OPTION_INT, AT(size), 0, 65535, NULL, 1},
    {"height", "height, where there is no size", ITER_OPTION_INT, AT(height), 0, 65535, NULL, 0},
    {"width", "width, where there is no size", ITER_OPTION_INT, AT(width), 0, 65535, NULL, 0},
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
