/*
 * byte_stages.c - posterize, solarize, invert and gamma: each byte through a table of 256.
 *
 * The results are torchvision's over Pillow's images. gamma's table is computed when the chain is
 * planned: its 256 results lie far enough from the next whole number that a pow() which errs in its
 * last bits gives the same table.
 */
#include <math.h>

#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/stages.h"

static iter_status byte_plan(const void *options, const iter_desc *in, iter_desc *out,
                             size_t *out_scratch, iter_error *err) {
    (void)options;
    *out_scratch = 0;
    *out = *in;
    if (in->dtype != ITER_U8)
        return iter__fail(err, ITER_EINVAL,
                          "wants u8, but got %s; put it before stages that change the "
                          "type, or `cast:u8` before it",
                          iter_dtype_text(in->dtype));
    *out_scratch = iter__stage_scratch(in, 0, 0);
    return ITER_OK;
}

/* ---- posterize, random-posterize ------------------------------------------------------------- */

_Static_assert(offsetof(iter_posterize_options, bits) == 0 &&
                   offsetof(iter_random_posterize_options, bits) == 0,
               "bits comes first");

static iter_status posterize_check(const void *options, iter_error *err) {
    const int64_t *bits = options;
    if (*bits >= 0) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "wants bits to keep: bits=N, 0 to 8");
}

static iter_status posterize_plan(const void *options, const iter_desc *in, iter_desc *out,
                                  size_t *out_scratch, iter_error *err) {
    *out_scratch = 0;
    ITER_TRY(posterize_check(options, err));
    return byte_plan(options, in, out, out_scratch, err);
}

static void posterize_fold(iter_fold *fold, int64_t bits) {
    uint8_t table[256];
    for (int32_t i = 0; i < 256; i++)
        table[i] = (uint8_t)(i & (0xff00 >> bits));
    iter_fold_table(fold, table);
}

static iter_status posterize_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const int64_t *bits = options;
    ITER_TRY(posterize_check(options, err));
    posterize_fold(fold, *bits);
    return ITER_OK;
}

static void random_posterize_fold_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_random_posterize_options *o = options;
    if (iter_rng_chance(rng, o->p)) posterize_fold(fold, o->bits);
}

STAGE_APPLY(posterize)
STAGE_APPLY(random_posterize)

#define BITS_ROW(type) \
    ITER_ROW_INT("bits", "upper bits that are kept, -1 = not given", type, bits, 0, 8, 1)
static const iter_option posterize_rows[] = {BITS_ROW(iter_posterize_options), ITER_ROW_END};
static const iter_posterize_options posterize_defaults = ITER_POSTERIZE_OPTIONS_INIT;
static const iter_option random_posterize_rows[] = {
    BITS_ROW(iter_random_posterize_options),
    STAGE_CHANCE_ROW(iter_random_posterize_options, 2),
    ITER_ROW_END,
};
static const iter_random_posterize_options random_posterize_defaults =
    ITER_RANDOM_POSTERIZE_OPTIONS_INIT;

const iter_transform_ops iter__transform_posterize = {
    .base = STAGE_BASE(posterize, "posterize", "only the upper bits of each value",
                       sizeof(stage_state)),
    .role = ITER_DATA,
    .plan = posterize_plan,
    .start = iter__stage_start,
    .apply = posterize_apply,
    .fold_plan = posterize_fold_plan,
};

const iter_transform_ops iter__transform_random_posterize = {
    .base =
        STAGE_BASE(random_posterize, "random-posterize",
                   "only the upper bits of each value, with a probability", sizeof(stage_state)),
    .role = ITER_DATA,
    .plan = posterize_plan,
    .start = iter__stage_start,
    .apply = random_posterize_apply,
    .fold_plan = posterize_fold_plan,
    .fold_sample = random_posterize_fold_sample,
};

/* ---- solarize, random-solarize --------------------------------------------------------------- */

_Static_assert(offsetof(iter_solarize_options, threshold) == 0 &&
                   offsetof(iter_random_solarize_options, threshold) == 0,
               "threshold comes first");

static void solarize_fold(iter_fold *fold, int64_t threshold) {
    uint8_t table[256];
    for (int32_t i = 0; i < 256; i++)
        table[i] = (uint8_t)(i < threshold ? i : 255 - i);
    iter_fold_table(fold, table);
}

static iter_status solarize_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const int64_t *threshold = options;
    (void)err;
    solarize_fold(fold, *threshold);
    return ITER_OK;
}

static void random_solarize_fold_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_random_solarize_options *o = options;
    if (iter_rng_chance(rng, o->p)) solarize_fold(fold, o->threshold);
}

STAGE_APPLY(solarize)
STAGE_APPLY(random_solarize)

#define THRESHOLD_ROW(type) \
    ITER_ROW_INT("threshold", "least value that is inverted", type, threshold, 0, 256, 1)
static const iter_option solarize_rows[] = {THRESHOLD_ROW(iter_solarize_options), ITER_ROW_END};
static const iter_solarize_options solarize_defaults = ITER_SOLARIZE_OPTIONS_INIT;
static const iter_option random_solarize_rows[] = {
    THRESHOLD_ROW(iter_random_solarize_options),
    STAGE_CHANCE_ROW(iter_random_solarize_options, 2),
    ITER_ROW_END,
};
static const iter_random_solarize_options random_solarize_defaults =
    ITER_RANDOM_SOLARIZE_OPTIONS_INIT;

const iter_transform_ops iter__transform_solarize = {
    .base = STAGE_BASE(solarize, "solarize", "values from a threshold on inverted",
                       sizeof(stage_state)),
    .role = ITER_DATA,
    .plan = byte_plan,
    .start = iter__stage_start,
    .apply = solarize_apply,
    .fold_plan = solarize_fold_plan,
};

const iter_transform_ops iter__transform_random_solarize = {
    .base =
        STAGE_BASE(random_solarize, "random-solarize",
                   "values from a threshold on inverted, with a probability", sizeof(stage_state)),
    .role = ITER_DATA,
    .plan = byte_plan,
    .start = iter__stage_start,
    .apply = random_solarize_apply,
    .fold_plan = solarize_fold_plan,
    .fold_sample = random_solarize_fold_sample,
};

/* ---- invert, random-invert ------------------------------------------------------------------- */

static iter_status invert_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    (void)options, (void)err;
    solarize_fold(fold, 0);
    return ITER_OK;
}

static void random_invert_fold_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_random_invert_options *o = options;
    if (iter_rng_chance(rng, o->p)) solarize_fold(fold, 0);
}

STAGE_APPLY(invert)
STAGE_APPLY(random_invert)

static const iter_option random_invert_rows[] = {
    STAGE_CHANCE_ROW(iter_random_invert_options, 1),
    ITER_ROW_END,
};
static const iter_random_invert_options random_invert_defaults = ITER_RANDOM_INVERT_OPTIONS_INIT;

const iter_transform_ops iter__transform_invert = {
    .base = {.struct_size = sizeof(iter_transform_ops),
             .name = "invert",
             .help = "255 - each value",
             .state_size = sizeof(stage_state)},
    .role = ITER_DATA,
    .plan = byte_plan,
    .start = iter__stage_start,
    .apply = invert_apply,
    .fold_plan = invert_fold_plan,
};

const iter_transform_ops iter__transform_random_invert = {
    .base = STAGE_BASE(random_invert, "random-invert", "255 - each value, with a probability",
                       sizeof(stage_state)),
    .role = ITER_DATA,
    .plan = byte_plan,
    .start = iter__stage_start,
    .apply = random_invert_apply,
    .fold_plan = invert_fold_plan,
    .fold_sample = random_invert_fold_sample,
};

/* ---- gamma ----------------------------------------------------------------------------------- */

static iter_status gamma_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_gamma_options *o = options;
    uint8_t table[256];
    (void)err;
    for (int32_t i = 0; i < 256; i++) {
        const double value = (255 + 1 - 1e-3) * o->gain * pow(i / 255.0, o->gamma);
        table[i] = (uint8_t)(value < 255 ? value : 255); /* rounded down */
    }
    iter_fold_table(fold, table);
    return ITER_OK;
}

STAGE_APPLY(gamma)

static const iter_option gamma_rows[] = {
    ITER_ROW_DOUBLE("gamma", "the power", iter_gamma_options, gamma, 0, 100, 1),
    ITER_ROW_DOUBLE("gain", "factor after the power", iter_gamma_options, gain, 0, 1000, 2),
    ITER_ROW_END,
};
static const iter_gamma_options gamma_defaults = ITER_GAMMA_OPTIONS_INIT;

const iter_transform_ops iter__transform_gamma = {
    .base = STAGE_BASE(gamma, "gamma", "each value to a power", sizeof(stage_state)),
    .role = ITER_DATA,
    .plan = byte_plan,
    .start = iter__stage_start,
    .apply = gamma_apply,
    .fold_plan = gamma_fold_plan,
};
