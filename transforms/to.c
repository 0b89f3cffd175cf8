/* to.c - cast and to: element type and layout of the result. */
#include <stdio.h>

#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/stages.h"

/* ---- cast ------------------------------------------------------------------------------------ */

static iter_status cast_plan(const void *options, const iter_desc *in, iter_desc *out,
                             size_t *out_scratch, iter_error *err) {
    const iter_cast_options *o = options;
    *out_scratch = 0;
    if (!iter_dtype_bytes((iter_dtype)o->dtype))
        return iter__fail(err, ITER_EINVAL, "wants an element type, such as dtype=f32");
    *out = *in;
    out->dtype = (iter_dtype)o->dtype;
    return ITER_OK;
}

static iter_status cast_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_cast_options *o = options;
    (void)err;
    iter_fold_cast(fold, (iter_dtype)o->dtype);
    return ITER_OK;
}

static const iter_option cast_rows[] = {
    ITER_ROW_DTYPE("dtype", "element type of the result", iter_cast_options, dtype, 1),
    ITER_ROW_END,
};
static const iter_cast_options cast_defaults = ITER_CAST_OPTIONS_INIT;

const iter_transform_ops iter__transform_cast = {
    .base = STAGE_BASE(cast, "cast", "another element type", 0),
    .role = ITER_DATA,
    .plan = cast_plan,
    .fold_plan = cast_fold_plan,
};

/* ---- to -------------------------------------------------------------------------------------- */

static const char *layout_of(int32_t layout) {
    return layout == ITER_LAYOUT_NCHW || layout == ITER_LAYOUT_CHW   ? "CHW"
           : layout == ITER_LAYOUT_NHWC || layout == ITER_LAYOUT_HWC ? "HWC"
                                                                     : NULL;
}

static iter_status to_plan(const void *options, const iter_desc *in, iter_desc *out,
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

static iter_status to_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_to_options *o = options;
    const char *layout = layout_of(o->layout);
    (void)err;
    if (o->dtype != ITER_DTYPE_NONE) iter_fold_cast(fold, (iter_dtype)o->dtype);
    if (layout) iter_fold_layout(fold, layout);
    return ITER_OK;
}

static const iter_option to_rows[] = {
    ITER_ROW_DTYPE("dtype", "element type of the result", iter_to_options, dtype, 1),
    ITER_ROW_CHOICE_AT("layout", "order of dimensions of the result", iter_to_options, layout,
                       "keep|nchw|nhwc|chw|hwc", 2),
    ITER_ROW_END,
};
static const iter_to_options to_defaults = ITER_TO_OPTIONS_INIT;

const iter_transform_ops iter__transform_to = {
    .base = STAGE_BASE(to, "to", "element type and layout of the result", 0),
    .role = ITER_DATA,
    .plan = to_plan,
    .fold_plan = to_fold_plan,
};
