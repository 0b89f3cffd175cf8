/* builtin_transforms.c - the stages that come with the library, in listing order. */
#include "iter/spec/builtins.h"

/* clang-format off */
#define STAGES(X) \
    /* Images. */ \
    X(random_resized_crop) \
    X(resize) \
    X(resize_short) \
    X(random_crop) \
    X(center_crop) \
    X(crop) \
    X(pad) \
    X(random_flip) \
    X(flip) \
    X(cutout) \
    X(random_erasing) \
    X(color_jitter) \
    X(grayscale) \
    X(random_grayscale) \
    /* Bytes. */ \
    X(posterize) \
    X(random_posterize) \
    X(solarize) \
    X(random_solarize) \
    X(invert) \
    X(random_invert) \
    X(gamma) \
    /* Values. */ \
    X(scale) \
    X(normalize) \
    X(cast) \
    X(to) \
    /* Labels. */ \
    X(one_hot) \
    X(boxes) \
    /* Tokens. */ \
    X(truncate) \
    X(pad_tokens) \
    X(tokens) \
    /* Batches. */ \
    X(pad_batch) \
    X(lengths) \
    X(tnc)
/* clang-format on */

ITER_BUILTINS(transform, STAGES)
ITER_BUILTIN_NTH(transform)
