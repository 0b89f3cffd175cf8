/* resize.c - another height and width. */
#include "transforms/resized.h"

#include "iter/core/error.h"

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    const iter_resize_options *o = options;
    int64_t window[2];
    *out_scratch = 0;
    ITER_TRY(iter__stage_window(o->size, o->height, o->width, window, err));
    ITER_TRY(iter__resized_check(o->interpolation, o->antialias, err));
    return iter__resized_plan(iter__resized_filter(o->interpolation, o->antialias), in, window[0],
                              window[1], out, out_scratch, err);
}

static iter_status apply(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         iter_rng *rng, void *scratch, iter_error *err) {
    const iter_resize_options *o = options;
    (void)rng;
    (void)err;
    iter__resized_apply(state, iter__resized_filter(o->interpolation, o->antialias), in, out,
                        scratch);
    return ITER_OK;
}

static size_t begin_rows(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         void *scratch) {
    const iter_resize_options *o = options;
    return iter__resized_begin(state, iter__resized_filter(o->interpolation, o->antialias), in, out,
                               scratch);
}

static void wish(const void *options, const iter_desc *in, iter_rng *rng, iter_image_wish *out) {
    const iter_resize_options *o = options;
    (void)rng;
    *out = (iter_image_wish){.part = {0, 0, in->dims[0], in->dims[1]}};
    if (o->jpeg_scale != ITER_JPEG_FAST) return;
    out->min_height = o->size > 0 ? o->size : o->height;
    out->min_width = o->size > 0 ? o->size : o->width;
}

#define AT(field) offsetof(iter_resize_options, field)
static const iter_option rows[] = {
    {"size", "height and width", ITER_OPTION_INT, AT(size), 0, 65535, NULL, 1},
    {"height", "height, where there is no size", ITER_OPTION_INT, AT(height), 0, 65535, NULL, 0},
    {"width", "width, where there is no size", ITER_OPTION_INT, AT(width), 0, 65535, NULL, 0},
    RESIZED_OPTION_ROWS(iter_resize_options),
    {0},
};
static const iter_resize_options defaults = ITER_RESIZE_OPTIONS_INIT;

const iter_transform_ops iter__transform_resize = {
    .base = {sizeof(iter_transform_ops), "resize", "another height and width", rows, &defaults,
             sizeof(defaults), sizeof(resized_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = iter__resized_start,
    .apply = apply,
    .begin_rows = begin_rows,
    .take_rows = iter__resized_take,
    .wish = wish,
};
