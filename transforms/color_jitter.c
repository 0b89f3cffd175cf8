/*
 * color_jitter.c - brightness, contrast, saturation and hue changed at random.
 *
 * As torchvision's ColorJitter over Pillow's images: a factor f is drawn from max(0, 1 - x) .. 1 + x, and pixels become base + f (pixel - base),
 * where the base is black, the mean of the image in gray, or the pixel in gray; the hue turns by a number of 1/255 that is rounded towards 0.
 */
#include <string.h>

#include <iter/transforms.h>

#include "iter/core/cpu.h"
#include "iter/core/error.h"
#include "transforms/color.h"
#include "transforms/stages.h"

typedef struct jitter_state {
    const color_kernels *kernels;
} jitter_state;

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, N_CHANGES };

typedef struct jitter {
    int32_t order[N_CHANGES];
    float factor[3];
    uint8_t shift;
} jitter;

static float between(double low, double high, iter_rng *rng) {
    return (float)(low + (high - low) * (double)iter_rng_uniform(rng));
}

static jitter draw(const iter_color_jitter_options *o, iter_rng *rng) {
    jitter j = {.order = {BRIGHTNESS, CONTRAST, SATURATION, HUE}};
    const double by[3] = {o->brightness, o->contrast, o->saturation};
    for (int32_t i = N_CHANGES - 1; i > 0; i--) { /* Fisher, Yates */
        const int32_t k = (int32_t)iter_rng_below(rng, (uint64_t)i + 1);
        const int32_t held = j.order[i];
        j.order[i] = j.order[k];
        j.order[k] = held;
    }
    for (int32_t i = 0; i < 3; i++)
        j.factor[i] = between(by[i] < 1 ? 1 - by[i] : 0, 1 + by[i], rng);
    j.shift = (uint8_t)(int32_t)((double)between(-o->hue, o->hue, rng) * 255.0);
    return j;
}

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
    jitter_state *s = state;
    (void)options, (void)err;
    s->kernels = iter__color_kernels(iter__cpu_level());
    return ITER_OK;
}

/* The mean in gray, rounded to nearest. */
static float mean_of(const color_kernels *kernels, const uint8_t *in, size_t n, bool is_gray) {
    uint64_t sum = 0;
    if (is_gray)
        for (size_t i = 0; i < n; i++)
            sum += in[i];
    else
        sum = kernels->gray_sum(in, n);
    return (float)(int32_t)((double)sum / (double)n + 0.5);
}

static iter_status apply(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         iter_rng *rng, void *scratch, iter_error *err) {
    const iter_color_jitter_options *o = options;
    const color_kernels *kernels = ((const jitter_state *)state)->kernels;
    const size_t n = (size_t)(in->desc.dims[0] * in->desc.dims[1]);
    const bool is_gray = in->desc.dims[2] == 1;
    const size_t bytes = n * (is_gray ? 1 : 3);
    const jitter j = draw(o, rng);
    const uint8_t *from = in->data;
    uint8_t *to = out->data;
    (void)scratch, (void)err;
    for (int32_t i = 0; i < N_CHANGES; i++) {
        const int32_t change = j.order[i];
        if (change == BRIGHTNESS && o->brightness > 0)
            kernels->blend(to, from, bytes, 0.0f, j.factor[BRIGHTNESS]);
        else if (change == CONTRAST && o->contrast > 0)
            kernels->blend(to, from, bytes, mean_of(kernels, from, n, is_gray), j.factor[CONTRAST]);
        else if (change == SATURATION && o->saturation > 0 && !is_gray)
            kernels->saturate(to, from, n, j.factor[SATURATION]);
        else if (change == HUE && o->hue > 0 && !is_gray)
            kernels->hue(to, from, n, j.shift);
        else
            continue;
        from = to;
    }
    if (from != to) memcpy(to, from, bytes);
    return ITER_OK;
}

#define AT(field) offsetof(iter_color_jitter_options, field)
static const iter_option rows[] = {
    {"brightness", "factor up to 1 +- this", ITER_OPTION_DOUBLE, AT(brightness), 0, 100, NULL, 1},
    {"contrast", "factor up to 1 +- this", ITER_OPTION_DOUBLE, AT(contrast), 0, 100, NULL, 2},
    {"saturation", "factor up to 1 +- this", ITER_OPTION_DOUBLE, AT(saturation), 0, 100, NULL, 3},
    {"hue", "share of the circle up to +- this", ITER_OPTION_DOUBLE, AT(hue), 0, 0.5, NULL, 4},
    {0},
};
static const iter_color_jitter_options defaults = ITER_COLOR_JITTER_OPTIONS_INIT;

const iter_transform_ops iter__transform_color_jitter = {
    .base = {sizeof(iter_transform_ops), "color-jitter",
             "brightness, contrast, saturation and hue at random", rows, &defaults,
             sizeof(defaults), sizeof(jitter_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = start,
    .apply = apply,
};
