/* builtin_transforms.c - the stages that come with the library, in listing order. */
#include "iter/core/builtins.h"
#include "transforms/stages.h"
#include "transforms/token_stages.h"

/* clang-format off */
const iter_transform_ops *const iter__builtin_transforms[] = {
    /* Images. */
    &iter__transform_random_resized_crop,
    &iter__transform_resize,
    &iter__transform_resize_short,
    &iter__transform_random_crop,
    &iter__transform_center_crop,
    &iter__transform_crop,
    &iter__transform_pad,
    &iter__transform_random_flip,
    &iter__transform_flip,
    &iter__transform_cutout,
    &iter__transform_random_erasing,
    &iter__transform_color_jitter,
    &iter__transform_grayscale,
    &iter__transform_random_grayscale,
    /* Bytes. */
    &iter__transform_posterize,
    &iter__transform_random_posterize,
    &iter__transform_solarize,
    &iter__transform_random_solarize,
    &iter__transform_invert,
    &iter__transform_random_invert,
    &iter__transform_gamma,
    /* Values. */
    &iter__transform_scale,
    &iter__transform_normalize,
    &iter__transform_cast,
    &iter__transform_to,
    /* Labels. */
    &iter__transform_one_hot,
    /* Tokens. */
    &iter__transform_truncate,
    &iter__transform_pad_tokens,
    &iter__transform_tokens,
    /* Batches. */
    &iter__transform_pad_batch,
    &iter__transform_lengths,
    &iter__transform_tnc,
    NULL,
};
