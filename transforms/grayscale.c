/* grayscale.c - all channels gray, always or with a probability. */
#include <string.h>

#include <iter/transforms.h>

#include "iter/core/cpu.h"
#include "iter/core/error.h"
#include "transforms/color.h"
#include "transforms/stages.h"

typedef struct gray_state {
    const color_kernels *kernels;
} gray_state;

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    stage_image image;
    (void)options;
    *out_scratch = 0;
    ITER_TRY(iter__stage_colors(in, &image, err));
    *out = *in;
    return ITER_OK;
}

static iter_status start(void *state, const void *options, iter_error *err) {
    gray_state *s = state;
    (void)options, (void)err;
    s->kernels = iter__color_kernels(iter__cpu_level());
    return ITER_OK;
}

static void make(const void *state, bool gray, const iter_tensor *in, iter_tensor *out) {
    const gray_state *s = state;
    const size_t n = (size_t)(in->desc.dims[0] * in->desc.dims[1]);
    const size_t channels = (size_t)in->desc.dims[2];
    if (gray && channels == 3)
        s->kernels->gray(out->data, in->data, n);
    else
        memcpy(out->data, in->data, n * channels);
}

static iter_status apply(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         iter_rng *rng, void *scratch, iter_error *err) {
    (void)options, (void)rng, (void)scratch, (void)err;
    make(state, true, in, out);
    return ITER_OK;
}

static iter_status random_apply(void *state, const void *options, const iter_tensor *in,
                                iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
    const iter_random_grayscale_options *o = options;
    (void)scratch, (void)err;
    make(state, iter_rng_chance(rng, o->p), in, out);
    return ITER_OK;
}

static const iter_option random_rows[] = {
    {"p", "probability", ITER_OPTION_DOUBLE, offsetof(iter_random_grayscale_options, p), 0, 1, NULL,
     1},
    {0},
};
static const iter_random_grayscale_options random_defaults = ITER_RANDOM_GRAYSCALE_OPTIONS_INIT;

const iter_transform_ops iter__transform_grayscale = {
    .base = {.struct_size = sizeof(iter_transform_ops),
             .name = "grayscale",
             .help = "all channels gray",
             .state_size = sizeof(gray_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = start,
    .apply = apply,
};

const iter_transform_ops iter__transform_random_grayscale = {
    .base = {sizeof(iter_transform_ops), "random-grayscale", "all channels gray with a probability",
             random_rows, &random_defaults, sizeof(random_defaults), sizeof(gray_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = start,
    .apply = random_apply,
};
