/*
 * random_erasing.c - one rectangle overwritten, with a probability.
 *
 * Zhong et al., "Random erasing data augmentation", 2017; sides and places as torchvision draws them.
 */
#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/stages.h"

#define TRIES 10

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    const iter_random_erasing_options *o = options;
    stage_image image;
    *out_scratch = 0;
    ITER_TRY(iter__stage_image(in, &image, err));
    ITER_TRY(iter__stage_bounds(&o->scale, "scale", 1, err));
    ITER_TRY(iter__stage_bounds(&o->ratio, "ratio", 1000, err));
    *out = *in;
    *out_scratch = iter__stage_scratch(in, 0, 0);
    return ITER_OK;
}

/* False where nothing is to be erased. */
static bool draw(const iter_random_erasing_options *o, int64_t height, int64_t width, iter_rng *rng,
                 iter_rect *out) {
    if (!iter_rng_chance(rng, o->p)) return false;
    for (int i = 0; i < TRIES; i++) {
        double sides[2]; /* the wider one is the taller here: ratio is height / width */
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

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_random_erasing_options *o = options;
    (void)err;
    iter_fold_cutout(fold, 0, 0, 1, 1, o->fill);
    return ITER_OK;
}

static void fold_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_random_erasing_options *o = options;
    int64_t height, width, channels;
    iter_rect part;
    iter_fold_size(fold, &height, &width, &channels);
    if (draw(o, height, width, rng, &part))
        iter_fold_cutout(fold, part.y, part.x, part.height, part.width, o->fill);
}

STAGE_APPLY(apply, iter__transform_random_erasing)

#define AT(field) offsetof(iter_random_erasing_options, field)
static const iter_option rows[] = {
    {"p", "probability", ITER_OPTION_DOUBLE, AT(p), 0, 1, NULL, 1},
    {"scale", "least and largest share of the image's area", ITER_OPTION_LIST, AT(scale), 0, 0,
     NULL, 0},
    {"ratio", "least and largest height / width", ITER_OPTION_LIST, AT(ratio), 0, 0, NULL, 0},
    {"fill", "value inside", ITER_OPTION_DOUBLE, AT(fill), 0, 0, NULL, 0},
    {0},
};
static const iter_random_erasing_options defaults = ITER_RANDOM_ERASING_OPTIONS_INIT;

const iter_transform_ops iter__transform_random_erasing = {
    .base = {sizeof(iter_transform_ops), "random-erasing",
             "overwrite one rectangle, with a probability", rows, &defaults, sizeof(defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .apply = apply,
    .fold_plan = fold_plan,
    .fold_sample = fold_sample,
};
