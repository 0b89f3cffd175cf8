/*
 * color_stages.c - color-jitter, grayscale and random-grayscale.
 *
 * color-jitter is torchvision's ColorJitter over Pillow's images. A factor f is drawn from
 * max(0, 1 - x) .. 1 + x, and pixels become base + f (pixel - base). The base is black, the mean of
 * the gray image, or the pixel's gray. The hue turns by a number of 1/255, rounded towards 0.
 */
#include <string.h>

#include <iter/transforms.h>

#include "iter/core/cpu.h"
#include "iter/core/error.h"
#include "transforms/color/color.h"
#include "transforms/stages.h"

typedef struct color_state {
    const color_kernels *kernels;
} color_state;

/* Needs u8 HWC of 1 or 3 channels. */
static iter_status color_plan(const void *options, const iter_desc *in, iter_desc *out,
                              size_t *out_scratch, iter_error *err) {
    stage_image image;
    (void)options;
    *out_scratch = 0;
    ITER_TRY(iter__stage_bytes(in, &image, err));
    *out = *in;
    if (image.channels == 1 || image.channels == 3) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "wants 1 or 3 channels, but got %lld",
                      (long long)image.channels);
}

static iter_status color_start(void *state, const void *options, iter_error *err) {
    color_state *s = state;
    (void)options, (void)err;
    s->kernels = iter__color_kernels(iter__cpu_level());
    return ITER_OK;
}

/* ---- color-jitter ---------------------------------------------------------------------------- */

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, N_CHANGES };

typedef struct jitter {
    int32_t order[N_CHANGES];
    float factor[3];
    uint8_t shift;
} jitter;

static float draw_between(double low, double high, iter_rng *rng) {
    return (float)(low + (high - low) * (double)iter_rng_uniform(rng));
}

static jitter draw_jitter(const iter_color_jitter_options *o, iter_rng *rng) {
    jitter j = {.order = {BRIGHTNESS, CONTRAST, SATURATION, HUE}};
    const double by[3] = {o->brightness, o->contrast, o->saturation};
    for (int32_t i = N_CHANGES - 1; i > 0; i--) { /* Fisher, Yates */
        const int32_t k = (int32_t)iter_rng_below(rng, (uint64_t)i + 1);
        const int32_t held = j.order[i];
        j.order[i] = j.order[k];
        j.order[k] = held;
    }
    for (int32_t i = 0; i < 3; i++)
        j.factor[i] = draw_between(by[i] < 1 ? 1 - by[i] : 0, 1 + by[i], rng);
    j.shift = (uint8_t)(int32_t)((double)draw_between(-o->hue, o->hue, rng) * 255.0);
    return j;
}

/* The mean of the gray image, rounded to nearest. */
static float mean_gray(const color_kernels *kernels, const uint8_t *in, size_t n, bool is_gray) {
    uint64_t sum = 0;
    if (is_gray)
        for (size_t i = 0; i < n; i++)
            sum += in[i];
    else
        sum = kernels->gray_sum(in, n);
    return (float)(int32_t)((double)sum / (double)n + 0.5);
}

static iter_status color_jitter_apply(void *state, const void *options, const iter_tensor *in,
                                      iter_tensor *out, iter_rng *rng, void *scratch,
                                      iter_error *err) {
    const iter_color_jitter_options *o = options;
    const color_kernels *kernels = ((const color_state *)state)->kernels;
    const size_t n = (size_t)(in->desc.dims[0] * in->desc.dims[1]);
    const bool is_gray = in->desc.dims[2] == 1;
    const size_t bytes = n * (is_gray ? 1 : 3);
    const jitter j = draw_jitter(o, rng);
    const uint8_t *from = in->data;
    uint8_t *to = out->data;
    (void)scratch, (void)err;
    for (int32_t i = 0; i < N_CHANGES; i++) {
        const int32_t change = j.order[i];
        if (change == BRIGHTNESS && o->brightness > 0)
            kernels->blend(to, from, bytes, 0.0f, j.factor[BRIGHTNESS]);
        else if (change == CONTRAST && o->contrast > 0)
            kernels->blend(to, from, bytes, mean_gray(kernels, from, n, is_gray),
                           j.factor[CONTRAST]);
        else if (change == SATURATION && o->saturation > 0 && !is_gray)
            kernels->saturate(to, from, n, j.factor[SATURATION]);
        else if (change == HUE && o->hue > 0 && !is_gray)
            kernels->hue(to, from, n, j.shift);
        else
            continue;
        from = to;
    }
    if (from != to) memcpy(to, from, bytes); /* nothing was to be changed */
    return ITER_OK;
}

static const iter_option color_jitter_rows[] = {
    ITER_ROW_DOUBLE("brightness", "factor up to 1 +- this", iter_color_jitter_options, brightness,
                    0, 100, 1),
    ITER_ROW_DOUBLE("contrast", "factor up to 1 +- this", iter_color_jitter_options, contrast, 0,
                    100, 2),
    ITER_ROW_DOUBLE("saturation", "factor up to 1 +- this", iter_color_jitter_options, saturation,
                    0, 100, 3),
    ITER_ROW_DOUBLE("hue", "share of the circle up to +- this", iter_color_jitter_options, hue, 0,
                    0.5, 4),
    ITER_ROW_END,
};
static const iter_color_jitter_options color_jitter_defaults = ITER_COLOR_JITTER_OPTIONS_INIT;

const iter_transform_ops iter__transform_color_jitter = {
    .base = STAGE_BASE(color_jitter, "color-jitter",
                       "brightness, contrast, saturation and hue at random", sizeof(color_state)),
    .role = ITER_DATA,
    .plan = color_plan,
    .start = color_start,
    .apply = color_jitter_apply,
};

/* ---- grayscale, random-grayscale ------------------------------------------------------------- */

static void turn_gray(const color_state *s, bool gray, const iter_tensor *in, iter_tensor *out) {
    const size_t n = (size_t)(in->desc.dims[0] * in->desc.dims[1]);
    const size_t channels = (size_t)in->desc.dims[2];
    if (gray && channels == 3)
        s->kernels->gray(out->data, in->data, n);
    else
        memcpy(out->data, in->data, n * channels);
}

static iter_status grayscale_apply(void *state, const void *options, const iter_tensor *in,
                                   iter_tensor *out, iter_rng *rng, void *scratch,
                                   iter_error *err) {
    (void)options, (void)rng, (void)scratch, (void)err;
    turn_gray(state, true, in, out);
    return ITER_OK;
}

static iter_status random_grayscale_apply(void *state, const void *options, const iter_tensor *in,
                                          iter_tensor *out, iter_rng *rng, void *scratch,
                                          iter_error *err) {
    const iter_random_grayscale_options *o = options;
    (void)scratch, (void)err;
    turn_gray(state, iter_rng_chance(rng, o->p), in, out);
    return ITER_OK;
}

static const iter_option random_grayscale_rows[] = {
    STAGE_CHANCE_ROW(iter_random_grayscale_options, 1),
    ITER_ROW_END,
};
static const iter_random_grayscale_options random_grayscale_defaults =
    ITER_RANDOM_GRAYSCALE_OPTIONS_INIT;

const iter_transform_ops iter__transform_grayscale = {
    .base = {.struct_size = sizeof(iter_transform_ops),
             .name = "grayscale",
             .help = "all channels gray",
             .state_size = sizeof(color_state)},
    .role = ITER_DATA,
    .plan = color_plan,
    .start = color_start,
    .apply = grayscale_apply,
};

const iter_transform_ops iter__transform_random_grayscale = {
    .base = STAGE_BASE(random_grayscale, "random-grayscale", "all channels gray with a probability",
                       sizeof(color_state)),
    .role = ITER_DATA,
    .plan = color_plan,
    .start = color_start,
    .apply = random_grayscale_apply,
};
