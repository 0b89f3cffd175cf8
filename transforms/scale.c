/* scale.c - x * factor + bias. */
#include "transforms/stages.h"

#include <iter/transforms.h>

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    (void)options;
    (void)err;
    *out_scratch = 0;
    *out = *in;
    out->dtype = iter__stage_arithmetic(in->dtype);
    return ITER_OK;
}

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_scale_options *o = options;
    (void)err;
    iter_fold_affine(fold, 1, &o->factor, &o->bias);
    return ITER_OK;
}

#define AT(field) offsetof(iter_scale_options, field)
static const iter_option rows[] = {
    {"factor", "multiplied with", ITER_OPTION_DOUBLE, AT(factor), 0, 0, NULL, 1},
    {"bias", "added afterwards", ITER_OPTION_DOUBLE, AT(bias), 0, 0, NULL, 2},
    {0},
};
static const iter_scale_options defaults = ITER_SCALE_OPTIONS_INIT;

const iter_transform_ops iter__transform_scale = {
    .base = {sizeof(iter_transform_ops), "scale", "x * factor + bias", rows, &defaults,
             sizeof(defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .fold_plan = fold_plan,
};
