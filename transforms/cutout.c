/*
 * cutout.c - cutout and random-erasing: overwrite a rectangle at a random place.
 *
 * DeVries, Taylor: "Improved regularization of convolutional neural networks with cutout", 2017.
 * Zhong et al.: "Random erasing data augmentation", 2017; sides and places as torchvision draws
 * them.
 */
#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/stages.h"

#define ERASING_TRIES 10

#define FILL_ROW(type) ITER_ROW_DOUBLE("fill", "value inside", type, fill, 0, 0, 0)

/* ---- cutout ---------------------------------------------------------------------------------- */

static iter_status cutout_plan(const void *options, const iter_desc *in, iter_desc *out,
                               size_t *out_scratch, iter_error *err) {
    const iter_cutout_options *o = options;
    ITER_TRY(iter__stage_same_size(in, out, out_scratch, err));
    if (o->size >= 1) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "wants a size of at least 1: size=N");
}

static iter_status cutout_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_cutout_options *o = options;
    (void)err;
    iter_fold_cutout(fold, 0, 0, o->size, o->size, o->fill);
    return ITER_OK;
}

static void cutout_fold_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_cutout_options *o = options;
    int64_t height, width, channels;
    iter_fold_size(fold, &height, &width, &channels);
    const int64_t y = (int64_t)iter_rng_below(rng, (uint64_t)height);
    const int64_t x = (int64_t)iter_rng_below(rng, (uint64_t)width);
    iter_fold_cutout(fold, y - o->size / 2, x - o->size / 2, o->size, o->size, o->fill);
}

STAGE_APPLY(cutout)

static const iter_option cutout_rows[] = {
    ITER_ROW_INT("size", "side of the square", iter_cutout_options, size, 0, STAGE_SIDE_MAX, 1),
    FILL_ROW(iter_cutout_options),
    ITER_ROW_END,
};
static const iter_cutout_options cutout_defaults = ITER_CUTOUT_OPTIONS_INIT;

const iter_transform_ops iter__transform_cutout = {
    .base = STAGE_BASE(cutout, "cutout", "overwrite one square at a random place", 0),
    .role = ITER_DATA,
    .plan = cutout_plan,
    .apply = cutout_apply,
    .fold_plan = cutout_fold_plan,
    .fold_sample = cutout_fold_sample,
};

/* ---- random-erasing -------------------------------------------------------------------------- */

static iter_status random_erasing_plan(const void *options, const iter_desc *in, iter_desc *out,
                                       size_t *out_scratch, iter_error *err) {
    const iter_random_erasing_options *o = options;
    ITER_TRY(iter__stage_same_size(in, out, out_scratch, err));
    ITER_TRY(iter__stage_bounds(&o->scale, "scale", 1, err));
    return iter__stage_bounds(&o->ratio, "ratio", 1000, err);
}

/* Returns false if nothing is to be erased. */
static bool draw_erasing(const iter_random_erasing_options *o, int64_t height, int64_t width,
                         iter_rng *rng, iter_rect *out) {
    if (!iter_rng_chance(rng, o->p)) return false;
    for (int i = 0; i < ERASING_TRIES; i++) {
        double sides[2]; /* ratio is height / width here, so the two change places */
        iter__stage_draw_sides(rng, o->scale.values, o->ratio.values, height, width, sides);
        if (sides[1] < 1 || sides[1] >= (double)height || sides[0] < 1 || sides[0] >= (double)width)
            continue;
        *out = (iter_rect){0, 0, (int64_t)sides[1], (int64_t)sides[0]};
        out->y = (int64_t)iter_rng_below(rng, (uint64_t)(height - out->height + 1));
        out->x = (int64_t)iter_rng_below(rng, (uint64_t)(width - out->width + 1));
        return true;
    }
    return false;
}

static iter_status random_erasing_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_random_erasing_options *o = options;
    (void)err;
    iter_fold_cutout(fold, 0, 0, 1, 1, o->fill);
    return ITER_OK;
}

static void random_erasing_fold_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_random_erasing_options *o = options;
    int64_t height, width, channels;
    iter_rect part;
    iter_fold_size(fold, &height, &width, &channels);
    if (draw_erasing(o, height, width, rng, &part))
        iter_fold_cutout(fold, part.y, part.x, part.height, part.width, o->fill);
}

STAGE_APPLY(random_erasing)

static const iter_option random_erasing_rows[] = {
    STAGE_CHANCE_ROW(iter_random_erasing_options, 1),
    ITER_ROW_LIST("scale", "least and largest share of the image's area",
                  iter_random_erasing_options, scale, 0, 0, 0),
    ITER_ROW_LIST("ratio", "least and largest height / width", iter_random_erasing_options, ratio,
                  0, 0, 0),
    FILL_ROW(iter_random_erasing_options),
    ITER_ROW_END,
};
static const iter_random_erasing_options random_erasing_defaults = ITER_RANDOM_ERASING_OPTIONS_INIT;

const iter_transform_ops iter__transform_random_erasing = {
    .base = STAGE_BASE(random_erasing, "random-erasing",
                       "overwrite one rectangle, with a probability", 0),
    .role = ITER_DATA,
    .plan = random_erasing_plan,
    .apply = random_erasing_apply,
    .fold_plan = random_erasing_fold_plan,
    .fold_sample = random_erasing_fold_sample,
};
