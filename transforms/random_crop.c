/*
 * random_crop.c - a window at a random place of the padded image.
 *
 * Both draws are made even where there is only one place to go, so that the numbers of a sample do not depend on its size.
 */
#include "iter/core/error.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

/* iter_pad_mode has iter_edge's numbers. */
_Static_assert((int)ITER_PAD_CONSTANT == (int)ITER_EDGE_CONSTANT &&
                   (int)ITER_PAD_REFLECT == (int)ITER_EDGE_REFLECT &&
                   (int)ITER_PAD_EDGE == (int)ITER_EDGE_REPLICATE,
               "pad modes differ");

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
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

/* The window, and how many places there are for it. */
static void geometry(const iter_random_crop_options *o, iter_fold *fold, iter_rng *rng) {
    int64_t height, width, channels, window[2];
    if (iter__stage_window(o->size, o->height, o->width, window, NULL) < 0) return;
    if (o->pad > 0)
        iter_fold_pad(fold, o->pad, o->pad, o->pad, o->pad, (iter_edge)o->mode, o->fill);
    iter_fold_size(fold, &height, &width, &channels);
    int64_t y = 0, x = 0;
    if (rng) {
        y = (int64_t)iter_rng_below(rng, (uint64_t)(height - window[0] + 1));
        x = (int64_t)iter_rng_below(rng, (uint64_t)(width - window[1] + 1));
    }
    iter_fold_crop(fold, y, x, window[0], window[1]);
}

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    (void)err;
    geometry(options, fold, NULL);
    return ITER_OK;
}

static void fold_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    geometry(options, fold, rng);
}

/* ---- Images of any size ------------------------------------------------------------------------ */

/* Without padding the window, which apply() then finds to be all there is. With padding all of the image, and apply() draws. */
static void wish(const void *options, const iter_desc *in, iter_rng *rng, iter_image_wish *out) {
    const iter_random_crop_options *o = options;
    if (o->pad == 0)
        iter__stage_wish(&iter__transform_random_crop, options, in, rng, out);
    else
        *out = (iter_image_wish){.part = {0, 0, in->dims[0], in->dims[1]}};
}

STAGE_APPLY(apply, iter__transform_random_crop)

#define AT(field) offsetof(iter_random_crop_options, field)
static const iter_option rows[] = {
    {"size", "height and width of the window", ITER_OPTION_INT, AT(size), 0, 65535, NULL, 1},
    {"height", "height, where there is no size", ITER_OPTION_INT, AT(height), 0, 65535, NULL, 0},
    {"width", "width, where there is no size", ITER_OPTION_INT, AT(width), 0, 65535, NULL, 0},
    {"pad", "pixels added on every side first", ITER_OPTION_INT, AT(pad), 0, 65535, NULL, 0},
    {"fill", "value of added pixels", ITER_OPTION_DOUBLE, AT(fill), 0, 0, NULL, 0},
    {"mode", "what added pixels hold", ITER_OPTION_CHOICE, AT(mode), 0, 0, "constant|reflect|edge",
     0},
    {0},
};
static const iter_random_crop_options defaults = ITER_RANDOM_CROP_OPTIONS_INIT;

const iter_transform_ops iter__transform_random_crop = {
    .base = {sizeof(iter_transform_ops), "random-crop",
             "cut a window out of the image at a random place, padded first", rows, &defaults,
             sizeof(defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .apply = apply,
    .wish = wish,
    .fold_plan = fold_plan,
    .fold_sample = fold_sample,
};
