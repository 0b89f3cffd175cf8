/* resize_short.c - the short side to a length, the long one with it. */
#include "iter/core/error.h"
#include "transforms/resized.h"

/* Of an image, as large as it is to become. */
static void sides(int64_t size, int64_t height, int64_t width, int64_t out[2]) {
    out[0] = height <= width ? size : size * height / width;
    out[1] = height <= width ? size * width / height : size;
}

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    const iter_resize_short_options *o = options;
    stage_image image;
    int64_t side[2] = {ITER_VARIABLE, ITER_VARIABLE};
    *out_scratch = 0;
    if (o->size < 1) return iter__fail(err, ITER_EINVAL, "wants a size of at least 1: size=N");
    ITER_TRY(iter__stage_bytes(in, &image, err));
    if (!image.is_any) sides(o->size, image.height, image.width, side);
    ITER_TRY(iter__resized_check(o->interpolation, o->antialias, err));
    return iter__resized_plan(iter__resized_filter(o->interpolation, o->antialias), in, side[0],
                              side[1], out, out_scratch, err);
}

static iter_status apply(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         iter_rng *rng, void *scratch, iter_error *err) {
    const iter_resize_short_options *o = options;
    (void)rng;
    (void)err;
    iter__resized_apply(state, iter__resized_filter(o->interpolation, o->antialias), in, out,
                        scratch);
    return ITER_OK;
}

static size_t begin_rows(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         void *scratch) {
    const iter_resize_short_options *o = options;
    return iter__resized_begin(state, iter__resized_filter(o->interpolation, o->antialias), in, out,
                               scratch);
}

static void wish(const void *options, const iter_desc *in, iter_rng *rng, iter_image_wish *out) {
    const iter_resize_short_options *o = options;
    int64_t side[2];
    (void)rng;
    *out = (iter_image_wish){.part = {0, 0, in->dims[0], in->dims[1]}};
    if (o->jpeg_scale != ITER_JPEG_FAST) return;
    sides(o->size, in->dims[0], in->dims[1], side);
    out->min_height = side[0];
    out->min_width = side[1];
}

static const iter_option rows[] = {
    {"size", "length of the short side", ITER_OPTION_INT, offsetof(iter_resize_short_options, size),
     0, 65535, NULL, 1},
    RESIZED_OPTION_ROWS(iter_resize_short_options),
    {0},
};
static const iter_resize_short_options defaults = ITER_RESIZE_SHORT_OPTIONS_INIT;

const iter_transform_ops iter__transform_resize_short = {
    .base = {sizeof(iter_transform_ops), "resize-short", "the short side to a length", rows,
             &defaults, sizeof(defaults), sizeof(resized_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = iter__resized_start,
    .apply = apply,
    .begin_rows = begin_rows,
    .take_rows = iter__resized_take,
    .wish = wish,
};
