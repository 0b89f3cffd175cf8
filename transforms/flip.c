/* flip.c - flip and random-flip: the mirrored image, always or with a probability. */
#include <iter/transforms.h>

#include "transforms/stages.h"

static iter_status flip_plan(const void *options, const iter_desc *in, iter_desc *out,
                             size_t *out_scratch, iter_error *err) {
    (void)options;
    return iter__stage_same_size(in, out, out_scratch, err);
}

static void flip_fold(iter_fold *fold, int32_t axis) {
    iter_fold_flip(fold, axis == ITER_FLIP_VERTICAL, axis == ITER_FLIP_HORIZONTAL);
}

static iter_status flip_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_flip_options *o = options;
    (void)err;
    flip_fold(fold, o->axis);
    return ITER_OK;
}

static iter_status random_flip_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_random_flip_options *o = options;
    (void)err;
    flip_fold(fold, o->axis);
    return ITER_OK;
}

static void random_flip_fold_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_random_flip_options *o = options;
    if (iter_rng_chance(rng, o->p)) flip_fold(fold, o->axis);
}

STAGE_APPLY(flip)
STAGE_APPLY(random_flip)

#define AXIS_ROW(type, place)                                                                  \
    ITER_ROW_CHOICE_AT("axis", "which sides change places", type, axis, "horizontal|vertical", \
                       place)
static const iter_option flip_rows[] = {AXIS_ROW(iter_flip_options, 1), ITER_ROW_END};
static const iter_flip_options flip_defaults = ITER_FLIP_OPTIONS_INIT;
static const iter_option random_flip_rows[] = {
    STAGE_CHANCE_ROW(iter_random_flip_options, 1),
    AXIS_ROW(iter_random_flip_options, 0),
    ITER_ROW_END,
};
static const iter_random_flip_options random_flip_defaults = ITER_RANDOM_FLIP_OPTIONS_INIT;

const iter_transform_ops iter__transform_flip = {
    .base = STAGE_BASE(flip, "flip", "mirror the image", 0),
    .role = ITER_DATA,
    .plan = flip_plan,
    .apply = flip_apply,
    .fold_plan = flip_fold_plan,
};

const iter_transform_ops iter__transform_random_flip = {
    .base = STAGE_BASE(random_flip, "random-flip", "mirror the image with a probability", 0),
    .role = ITER_DATA,
    .plan = flip_plan,
    .apply = random_flip_apply,
    .fold_plan = random_flip_fold_plan,
    .fold_sample = random_flip_fold_sample,
};
