/* pad.c - pixels added on the sides. */
#include "iter/core/error.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
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

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_pad_options *o = options;
    (void)err;
    iter_fold_pad(fold, o->all + o->top, o->all + o->left, o->all + o->bottom, o->all + o->right,
                  (iter_edge)o->mode, o->value);
    return ITER_OK;
}

STAGE_APPLY(apply, iter__transform_pad)

#define AT(field) offsetof(iter_pad_options, field)
static const iter_option rows[] = {
    {"all", "pixels on every side", ITER_OPTION_INT, AT(all), 0, 65535, NULL, 1},
    {"top", "pixels above, besides `all`", ITER_OPTION_INT, AT(top), 0, 65535, NULL, 0},
    {"left", "pixels on the left, besides `all`", ITER_OPTION_INT, AT(left), 0, 65535, NULL, 0},
    {"bottom", "pixels below, besides `all`", ITER_OPTION_INT, AT(bottom), 0, 65535, NULL, 0},
    {"right", "pixels on the right, besides `all`", ITER_OPTION_INT, AT(right), 0, 65535, NULL, 0},
    {"value", "value of added pixels", ITER_OPTION_DOUBLE, AT(value), 0, 0, NULL, 2},
    {"mode", "what added pixels hold", ITER_OPTION_CHOICE, AT(mode), 0, 0, "constant|reflect|edge",
     0},
    {0},
};
static const iter_pad_options defaults = ITER_PAD_OPTIONS_INIT;

const iter_transform_ops iter__transform_pad = {
    .base = {sizeof(iter_transform_ops), "pad", "add pixels on the sides of the image", rows,
             &defaults, sizeof(defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .apply = apply,
    .fold_plan = fold_plan,
};
