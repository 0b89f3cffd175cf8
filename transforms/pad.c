/* pad.c - pixels added on the sides. */
#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/stages.h"

static iter_status pad_plan(const void *options, const iter_desc *in, iter_desc *out,
                            size_t *out_scratch, iter_error *err) {
    const iter_pad_options *o = options;
    stage_image image;
    *out_scratch = 0;
    ITER_TRY(iter__stage_image(in, &image, err));
    if (o->all + o->top + o->left + o->bottom + o->right < 1)
        return iter__fail(err, ITER_EINVAL,
                          "wants pixels to add: all=N, or some of top, left, bottom, right");
    const int64_t rows = 2 * o->all + o->top + o->bottom;
    const int64_t columns = 2 * o->all + o->left + o->right;
    *out = *in;
    if (image.is_any) return ITER_OK;
    iter__stage_resize(in, image.height + rows, image.width + columns, out);
    *out_scratch = iter__stage_scratch(in, rows, columns);
    return ITER_OK;
}

static iter_status pad_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_pad_options *o = options;
    (void)err;
    iter_fold_pad(fold, o->all + o->top, o->all + o->left, o->all + o->bottom, o->all + o->right,
                  (iter_edge)o->mode, o->value);
    return ITER_OK;
}

STAGE_APPLY(pad)

#define SIDE_ROW(side, help, place) \
    ITER_ROW_INT(#side, help, iter_pad_options, side, 0, STAGE_SIDE_MAX, place)
static const iter_option pad_rows[] = {
    SIDE_ROW(all, "pixels on every side", 1),
    SIDE_ROW(top, "pixels above, besides `all`", 0),
    SIDE_ROW(left, "pixels on the left, besides `all`", 0),
    SIDE_ROW(bottom, "pixels below, besides `all`", 0),
    SIDE_ROW(right, "pixels on the right, besides `all`", 0),
    ITER_ROW_DOUBLE("value", "value of added pixels", iter_pad_options, value, 0, 0, 2),
    STAGE_PAD_MODE_ROW(iter_pad_options),
    ITER_ROW_END,
};
static const iter_pad_options pad_defaults = ITER_PAD_OPTIONS_INIT;

const iter_transform_ops iter__transform_pad = {
    .base = STAGE_BASE(pad, "pad", "add pixels on the sides of the image", 0),
    .role = ITER_DATA,
    .plan = pad_plan,
    .apply = pad_apply,
    .fold_plan = pad_fold_plan,
};
