/*
 * random_resized_crop.c - a window of random area and aspect, resized.
 *
 * Szegedy et al., "Going deeper with convolutions", 2015; sides, places and the way out after ten tries as torchvision has them.
 */
#include <math.h>

#include "iter/core/error.h"
#include "transforms/resized.h"

#define TRIES 10

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    const iter_random_resized_crop_options *o = options;
    int64_t window[2];
    *out_scratch = 0;
    ITER_TRY(iter__stage_window(o->size, o->height, o->width, window, err));
    ITER_TRY(iter__stage_bounds(&o->scale, "scale", 1, err));
    ITER_TRY(iter__stage_bounds(&o->ratio, "ratio", 1000, err));
    ITER_TRY(iter__resized_check(o->interpolation, o->antialias, err));
    return iter__resized_plan(iter__resized_filter(o->interpolation, o->antialias), in, window[0],
                              window[1], out, out_scratch, err);
}

/* The largest in the middle whose aspect is within bounds. */
static iter_rect middle(const double *ratio, int64_t height, int64_t width) {
    const double aspect = (double)width / (double)height;
    iter_rect part = {0, 0, height, width};
    if (aspect < ratio[0]) part.height = (int64_t)rint((double)width / ratio[0]);
    if (aspect > ratio[1]) part.width = (int64_t)rint((double)height * ratio[1]);
    if (part.height < 1) part.height = 1;
    if (part.width < 1) part.width = 1;
    part.y = (height - part.height) / 2;
    part.x = (width - part.width) / 2;
    return part;
}

static iter_rect draw(const iter_random_resized_crop_options *o, int64_t height, int64_t width,
                      iter_rng *rng) {
    for (int i = 0; i < TRIES; i++) {
        double sides[2];
        iter__stage_draw_sides(rng, o->scale.values, o->ratio.values, height, width, sides);
        if (sides[0] < 1 || sides[0] > (double)height || sides[1] < 1 || sides[1] > (double)width)
            continue;
        iter_rect part = {0, 0, (int64_t)sides[0], (int64_t)sides[1]};
        part.y = (int64_t)iter_rng_below(rng, (uint64_t)(height - part.height + 1));
        part.x = (int64_t)iter_rng_below(rng, (uint64_t)(width - part.width + 1));
        return part;
    }
    return middle(o->ratio.values, height, width);
}

static void wish(const void *options, const iter_desc *in, iter_rng *rng, iter_image_wish *out) {
    const iter_random_resized_crop_options *o = options;
    *out = (iter_image_wish){.part = draw(o, in->dims[0], in->dims[1], rng)};
    if (o->jpeg_scale != ITER_JPEG_FAST) return;
    out->min_height = o->size > 0 ? o->size : o->height;
    out->min_width = o->size > 0 ? o->size : o->width;
}

static iter_status apply(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         iter_rng *rng, void *scratch, iter_error *err) {
    const iter_random_resized_crop_options *o = options;
    (void)rng;
    (void)err;
    iter__resized_apply(state, iter__resized_filter(o->interpolation, o->antialias), in, out,
                        scratch);
    return ITER_OK;
}

static size_t begin_rows(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         void *scratch) {
    const iter_random_resized_crop_options *o = options;
    return iter__resized_begin(state, iter__resized_filter(o->interpolation, o->antialias), in, out,
                               scratch);
}

#define AT(field) offsetof(iter_random_resized_crop_options, field)
static const iter_option rows[] = {
    {"size", "height and width of the result", ITER_OPTION_INT, AT(size), 0, 65535, NULL, 1},
    {"height", "height, where there is no size", ITER_OPTION_INT, AT(height), 0, 65535, NULL, 0},
    {"width", "width, where there is no size", ITER_OPTION_INT, AT(width), 0, 65535, NULL, 0},
    {"scale", "least and largest share of the image's area", ITER_OPTION_LIST, AT(scale), 0, 0,
     NULL, 0},
    {"ratio", "least and largest width / height", ITER_OPTION_LIST, AT(ratio), 0, 0, NULL, 0},
    RESIZED_OPTION_ROWS(iter_random_resized_crop_options),
    {0},
};
static const iter_random_resized_crop_options defaults = ITER_RANDOM_RESIZED_CROP_OPTIONS_INIT;

const iter_transform_ops iter__transform_random_resized_crop = {
    .base = {sizeof(iter_transform_ops), "random-resized-crop",
             "a window of random area and aspect, resized", rows, &defaults, sizeof(defaults),
             sizeof(resized_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = iter__resized_start,
    .apply = apply,
    .begin_rows = begin_rows,
    .take_rows = iter__resized_take,
    .wish = wish,
};
