/* cutout.c - one square overwritten at a random place. DeVries, Taylor: "Improved regularization of convolutional neural networks with cutout", 2017. */
#include "iter/core/error.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    const iter_cutout_options *o = options;
    stage_image image;
    *out_scratch = 0;
    ITER_TRY(iter__stage_image(in, &image, err));
    if (o->size < 1) return iter__fail(err, ITER_EINVAL, "wants a size of at least 1: size=N");
    *out = *in;
    *out_scratch = iter__stage_scratch(in, 0, 0);
    return ITER_OK;
}

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_cutout_options *o = options;
    (void)err;
    iter_fold_cutout(fold, 0, 0, o->size, o->size, o->fill);
    return ITER_OK;
}

static void fold_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_cutout_options *o = options;
    int64_t height, width, channels;
    iter_fold_size(fold, &height, &width, &channels);
    const int64_t y = (int64_t)iter_rng_below(rng, (uint64_t)height);
    const int64_t x = (int64_t)iter_rng_below(rng, (uint64_t)width);
    iter_fold_cutout(fold, y - o->size / 2, x - o->size / 2, o->size, o->size, o->fill);
}

STAGE_APPLY(apply, iter__transform_cutout)

#define AT(field) offsetof(iter_cutout_options, field)
static const iter_option rows[] = {
    {"size", "side of the square", ITER_OPTION_INT, AT(size), 0, 65535, NULL, 1},
    {"fill", "value inside", ITER_OPTION_DOUBLE, AT(fill), 0, 0, NULL, 0},
    {0},
};
static const iter_cutout_options defaults = ITER_CUTOUT_OPTIONS_INIT;

const iter_transform_ops iter__transform_cutout = {
    .base = {sizeof(iter_transform_ops), "cutout", "overwrite one square at a random place", rows,
             &defaults, sizeof(defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .apply = apply,
    .fold_plan = fold_plan,
    .fold_sample = fold_sample,
};
