/* layout.c - `to`: element type and layout of the result. */
#include "iter/core/error.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

#include <stdio.h>

static const char *layout_of(int32_t layout) {
    return layout == ITER_LAYOUT_NCHW || layout == ITER_LAYOUT_CHW   ? "CHW"
           : layout == ITER_LAYOUT_NHWC || layout == ITER_LAYOUT_HWC ? "HWC"
                                                                     : NULL;
}

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    const iter_to_options *o = options;
    const char *layout = layout_of(o->layout);
    stage_image image;
    *out_scratch = 0;
    *out = *in;
    if (o->dtype != ITER_DTYPE_NONE) out->dtype = (iter_dtype)o->dtype;
    if (!layout) return ITER_OK;
    ITER_TRY(iter__stage_image(in, &image, err));
    const bool is_hwc = layout[0] == 'H';
    snprintf(out->layout, sizeof(out->layout), "%s", layout);
    out->n_dims = 3;
    out->dims[is_hwc ? 2 : 0] = image.channels;
    out->dims[is_hwc ? 0 : 1] = image.height;
    out->dims[is_hwc ? 1 : 2] = image.width;
    return ITER_OK;
}

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_to_options *o = options;
    const char *layout = layout_of(o->layout);
    (void)err;
    if (o->dtype != ITER_DTYPE_NONE) iter_fold_cast(fold, (iter_dtype)o->dtype);
    if (layout) iter_fold_layout(fold, layout);
    return ITER_OK;
}

static const iter_option rows[] = {
    {"dtype", "element type of the result", ITER_OPTION_DTYPE, offsetof(iter_to_options, dtype), 0,
     0, NULL, 1},
    {"layout", "order of dimensions of the result", ITER_OPTION_CHOICE,
     offsetof(iter_to_options, layout), 0, 0, "keep|nchw|nhwc|chw|hwc", 2},
    {0},
};
static const iter_to_options defaults = ITER_TO_OPTIONS_INIT;

const iter_transform_ops iter__transform_to = {
    .base = {sizeof(iter_transform_ops), "to", "element type and layout of the result", rows,
             &defaults, sizeof(defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .fold_plan = fold_plan,
};
