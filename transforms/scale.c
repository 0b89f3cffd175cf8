/* scale.c - x * factor + bias. */
#include <iter/transforms.h>

#include "transforms/pack/elements.h"
#include "transforms/stages.h"

static iter_status scale_plan(const void *options, const iter_desc *in, iter_desc *out,
                              size_t *out_scratch, iter_error *err) {
    (void)options;
    (void)err;
    *out_scratch = 0;
    *out = *in;
    out->dtype = iter__dtype_arithmetic(in->dtype);
    return ITER_OK;
}

static iter_status scale_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_scale_options *o = options;
    (void)err;
    iter_fold_affine(fold, 1, &o->factor, &o->bias);
    return ITER_OK;
}

static const iter_option scale_rows[] = {
    ITER_ROW_DOUBLE("factor", "x is multiplied by this", iter_scale_options, factor, 0, 0, 1),
    ITER_ROW_DOUBLE("bias", "added after that", iter_scale_options, bias, 0, 0, 2),
    ITER_ROW_END,
};
static const iter_scale_options scale_defaults = ITER_SCALE_OPTIONS_INIT;

const iter_transform_ops iter__transform_scale = {
    .base = STAGE_BASE(scale, "scale", "x * factor + bias", 0),
    .role = ITER_DATA,
    .plan = scale_plan,
    .fold_plan = scale_fold_plan,
};
