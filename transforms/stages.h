/* stages.h - the image, value and label stages, and what their plans share. */
#ifndef ITER_TRANSFORMS_STAGES_H
#define ITER_TRANSFORMS_STAGES_H

#include <stdbool.h>

#include <iter/ops.h>

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

/* What stages that only move pixels do to images of any size. */

/* `in` to `out`, elements of any type, HWC or HW, mirrored where asked. */
void iter__stage_copy(const iter_tensor *in, iter_tensor *out, bool vertical, bool horizontal);

/* The part of `in` from (y, x) on that is as large as `out`; what lies outside of `in` is made as `mode` (iter_pad_mode) says. u8 only. */
void iter__stage_window_copy(const iter_tensor *in, iter_tensor *out, int64_t y, int64_t x,
                             int32_t mode, double fill);

/* Draws the sides of a rectangle: its area `share` (two numbers) of height x width, its width over its height `ratio` (two numbers, uniform in the
 * logarithm). Two numbers are drawn, share first. Sides are rounded to nearest, halves to even, and may be 0 or beyond the image. */
void iter__stage_draw_sides(iter_rng *rng, const double *share, const double *ratio, int64_t height,
                            int64_t width, double out[2]);

extern const iter_transform_ops iter__transform_resize;
extern const iter_transform_ops iter__transform_resize_short;
extern const iter_transform_ops iter__transform_random_resized_crop;
extern const iter_transform_ops iter__transform_random_crop;
extern const iter_transform_ops iter__transform_center_crop;
extern const iter_transform_ops iter__transform_crop;
extern const iter_transform_ops iter__transform_pad;
extern const iter_transform_ops iter__transform_random_flip;
extern const iter_transform_ops iter__transform_flip;
extern const iter_transform_ops iter__transform_cutout;
extern const iter_transform_ops iter__transform_random_erasing;
extern const iter_transform_ops iter__transform_color_jitter;
extern const iter_transform_ops iter__transform_grayscale;
extern const iter_transform_ops iter__transform_random_grayscale;
extern const iter_transform_ops iter__transform_scale;
extern const iter_transform_ops iter__transform_normalize;
extern const iter_transform_ops iter__transform_cast;
extern const iter_transform_ops iter__transform_to;
extern const iter_transform_ops iter__transform_one_hot;

#endif
