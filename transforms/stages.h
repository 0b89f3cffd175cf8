/* stages.h - what the plans of image, value and label stages share. */
#ifndef ITER_TRANSFORMS_STAGES_H
#define ITER_TRANSFORMS_STAGES_H

#include <stdbool.h>

#include <iter/ops.h>

#include "transforms/lookup.h"

/* An image's shape, whatever its layout; channels 1 where there is no such dimension. Of images of any
 * size ("HWC" only) height and width are 0 and is_any is set. */
typedef struct stage_image {
    int64_t height, width, channels;
    bool is_hwc, is_any;
} stage_image;

/* The shape of `in`, or EINVAL with what came and what is wanted. */
iter_status iter__stage_image(const iter_desc *in, stage_image *out, iter_error *err);

/* The same for stages that work on bytes side by side: u8 "HWC" alone, of 1 to 4 channels. */
iter_status iter__stage_bytes(const iter_desc *in, stage_image *out, iter_error *err);

/* The same for colours: of 1 or 3 channels. */
iter_status iter__stage_colors(const iter_desc *in, stage_image *out, iter_error *err);

/* *out = *in with another height and width. */
void iter__stage_resize(const iter_desc *in, int64_t height, int64_t width, iter_desc *out);

/* Fills out[2] with the window asked for, `size` or height x width, or EINVAL. */
iter_status iter__stage_window(int64_t size, int64_t height, int64_t width, int64_t out[2],
                               iter_error *err);

/* EINVAL where the list is not two numbers above 0, the least first and the largest at most `most`. */
iter_status iter__stage_bounds(const iter_option_list *list, const char *name, double most,
                               iter_error *err);

/* The type after arithmetic on `dtype`. */
iter_dtype iter__stage_arithmetic(iter_dtype dtype);

/* EINVAL if `in` is not u8; else *out = *in. The plan of stages that look bytes up. */
iter_status iter__stage_table(const iter_desc *in, iter_desc *out, iter_error *err);

/* State of stages that look bytes up: how, chosen at their start. */
typedef struct stage_state {
    iter__lookup *lookup;
} stage_state;
iter_status iter__stage_start(void *state, const void *options, iter_error *err);

/* Foldable stages over images of any size, u8 HWC: their own fold calls, run over the one image at hand. A stage's plan() asks for the scratch, and
 * says how many rows and columns it adds on the way; 0 if the size is not known yet. */
size_t iter__stage_scratch(const iter_desc *in, int64_t more_rows, int64_t more_columns);
iter_status iter__stage_apply(const iter_transform_ops *ops, const void *state, const void *options,
                              const iter_tensor *in, iter_tensor *out, iter_rng *rng, void *scratch,
                              iter_error *err);

/* The window that a stage without padding cuts out. All of the image if the window does not fit, which plan() then says. */
void iter__stage_wish(const iter_transform_ops *ops, const void *options, const iter_desc *in,
                      iter_rng *rng, iter_image_wish *out);

/* The tables that pack_program.c knows. */
extern const iter_transform_ops iter__transform_random_crop;
extern const iter_transform_ops iter__transform_random_flip;
extern const iter_transform_ops iter__transform_cutout;

/* The functions of a stage's table that do so. */
#define STAGE_APPLY(name, ops)                                                                 \
    extern const iter_transform_ops ops;                                                       \
    static iter_status name(void *state, const void *options, const iter_tensor *in,           \
                            iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) { \
        return iter__stage_apply(&(ops), state, options, in, out, rng, scratch, err);          \
    }
#define STAGE_WISH(name, ops)                                                 \
    extern const iter_transform_ops ops;                                      \
    static void name(const void *options, const iter_desc *in, iter_rng *rng, \
                     iter_image_wish *out) {                                  \
        iter__stage_wish(&(ops), options, in, rng, out);                      \
    }

/* Draws the sides of a rectangle: its area `share` (two numbers) of height x width, its width over its height `ratio` (two numbers, uniform in the
 * logarithm). Two numbers are drawn, share first. Sides are rounded to nearest, halves to even, and may be 0 or beyond the image. */
void iter__stage_draw_sides(iter_rng *rng, const double *share, const double *ratio, int64_t height,
                            int64_t width, double out[2]);

#endif
