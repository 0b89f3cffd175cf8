/* flip.c - the mirrored image, always or with a probability. */
#include "iter/core/error.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    stage_image image;
    (void)options;
    *out_scratch = 0;
    ITER_TRY(iter__stage_image(in, &image, err));
    *out = *in;
    *out_scratch = iter__stage_scratch(in, 0, 0);
    return ITER_OK;
}

static void mirror(iter_fold *fold, int32_t axis) {
    iter_fold_flip(fold, axis == ITER_FLIP_VERTICAL, axis == ITER_FLIP_HORIZONTAL);
}

static iter_status flip_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_flip_options *o = options;
    (void)err;
    mirror(fold, o->axis);
    return ITER_OK;
}

static iter_status random_flip_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_random_flip_options *o = options;
    (void)err;
    mirror(fold, o->axis);
    return ITER_OK;
}

static void random_flip_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_random_flip_options *o = options;
    if (iter_rng_chance(rng, o->p)) mirror(fold, o->axis);
}

STAGE_APPLY(flip_apply, iter__transform_flip)
STAGE_APPLY(random_flip_apply, iter__transform_random_flip)

static const iter_option flip_rows[] = {
    {"axis", "which way", ITER_OPTION_CHOICE, offsetof(iter_flip_options, axis), 0, 0,
     "horizontal|vertical", 1},
    {0},
};
static const iter_option random_flip_rows[] = {
    {"p", "probability", ITER_OPTION_DOUBLE, offsetof(iter_random_flip_options, p), 0, 1, NULL, 1},
    {"axis", "which way", ITER_OPTION_CHOICE, offsetof(iter_random_flip_options, axis), 0, 0,
     "horizontal|vertical", 0},
    {0},
};
static const iter_flip_options flip_defaults = ITER_FLIP_OPTIONS_INIT;
static const iter_random_flip_options random_flip_defaults = ITER_RANDOM_FLIP_OPTIONS_INIT;

const iter_transform_ops iter__transform_flip = {
    .base = {sizeof(iter_transform_ops), "flip", "mirror the image", flip_rows, &flip_defaults,
             sizeof(flip_defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .apply = flip_apply,
    .fold_plan = flip_plan,
};

const iter_transform_ops iter__transform_random_flip = {
    .base = {sizeof(iter_transform_ops), "random-flip", "mirror the image with a probability",
             random_flip_rows, &random_flip_defaults, sizeof(random_flip_defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .apply = random_flip_apply,
    .fold_plan = random_flip_plan,
    .fold_sample = random_flip_sample,
};
