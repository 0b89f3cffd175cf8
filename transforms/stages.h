/* stages.h - the image, value and label stages, and what their plans share. */
#ifndef ITER_TRANSFORMS_STAGES_H
#define ITER_TRANSFORMS_STAGES_H

#include <stdbool.h>

#include <iter/ops.h>

/* An image's shape, whatever its layout; channels 1 where there is no such dimension. */
typedef struct stage_image {
    int64_t height, width, channels;
    bool is_hwc;
} stage_image;

/* The shape of `in`, or EINVAL with what came and what is wanted. */
iter_status iter__stage_image(const iter_desc *in, stage_image *out, iter_error *err);

/* *out = *in with another height and width. */
void iter__stage_resize(const iter_desc *in, int64_t height, int64_t width, iter_desc *out);

/* Fills out[2] with the window asked for, `size` or height x width, or EINVAL. */
iter_status iter__stage_window(int64_t size, int64_t height, int64_t width, int64_t out[2],
                               iter_error *err);

/* The type after arithmetic on `dtype`. */
iter_dtype iter__stage_arithmetic(iter_dtype dtype);

extern const iter_transform_ops iter__transform_random_crop;
extern const iter_transform_ops iter__transform_center_crop;
extern const iter_transform_ops iter__transform_crop;
extern const iter_transform_ops iter__transform_pad;
extern const iter_transform_ops iter__transform_random_flip;
extern const iter_transform_ops iter__transform_flip;
extern const iter_transform_ops iter__transform_cutout;
extern const iter_transform_ops iter__transform_scale;
extern const iter_transform_ops iter__transform_normalize;
extern const iter_transform_ops iter__transform_cast;
extern const iter_transform_ops iter__transform_to;
extern const iter_transform_ops iter__transform_one_hot;

#endif
