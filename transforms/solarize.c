/* solarize.c - values from a threshold on inverted, or all of them; always or with a probability. */
#include "iter/core/error.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    (void)options;
    *out_scratch = 0;
    ITER_TRY(iter__stage_table(in, out, err));
    *out_scratch = iter__stage_scratch(in, 0, 0);
    return ITER_OK;
}

static void tell(iter_fold *fold, int64_t threshold) {
    uint8_t table[256];
    for (int32_t i = 0; i < 256; i++)
        table[i] = (uint8_t)(i < threshold ? i : 255 - i);
    iter_fold_table(fold, table);
}

/* ---- solarize ---------------------------------------------------------------------------------- */

static iter_status always_fold(const void *options, iter_fold *fold, iter_error *err) {
    const iter_solarize_options *o = options;
    (void)err;
    tell(fold, o->threshold);
    return ITER_OK;
}

STAGE_APPLY(always_apply, iter__transform_solarize)

static const iter_option always_rows[] = {
    {"threshold", "least value that is inverted", ITER_OPTION_INT,
     offsetof(iter_solarize_options, threshold), 0, 256, NULL, 1},
    {0},
};
static const iter_solarize_options always_defaults = ITER_SOLARIZE_OPTIONS_INIT;

const iter_transform_ops iter__transform_solarize = {
    .base = {sizeof(iter_transform_ops), "solarize", "values from a threshold on inverted",
             always_rows, &always_defaults, sizeof(always_defaults), sizeof(stage_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = iter__stage_start,
    .apply = always_apply,
    .fold_plan = always_fold,
};

/* ---- random-solarize ----------------------------------------------------------------------------- */

static iter_status random_fold(const void *options, iter_fold *fold, iter_error *err) {
    const iter_random_solarize_options *o = options;
    (void)err;
    tell(fold, o->threshold);
    return ITER_OK;
}

static void random_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_random_solarize_options *o = options;
    if (iter_rng_chance(rng, o->p)) tell(fold, o->threshold);
}

STAGE_APPLY(random_apply, iter__transform_random_solarize)

#define AT(field) offsetof(iter_random_solarize_options, field)
static const iter_option random_rows[] = {
    {"threshold", "least value that is inverted", ITER_OPTION_INT, AT(threshold), 0, 256, NULL, 1},
    {"p", "probability", ITER_OPTION_DOUBLE, AT(p), 0, 1, NULL, 2},
    {0},
};
static const iter_random_solarize_options random_defaults = ITER_RANDOM_SOLARIZE_OPTIONS_INIT;

const iter_transform_ops iter__transform_random_solarize = {
    .base = {sizeof(iter_transform_ops), "random-solarize",
             "values from a threshold on inverted, with a probability", random_rows,
             &random_defaults, sizeof(random_defaults), sizeof(stage_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = iter__stage_start,
    .apply = random_apply,
    .fold_plan = random_fold,
    .fold_sample = random_sample,
};

/* ---- invert, random-invert ------------------------------------------------------------------------- */

static iter_status invert_fold(const void *options, iter_fold *fold, iter_error *err) {
    (void)options, (void)err;
    tell(fold, 0);
    return ITER_OK;
}

static void invert_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_random_invert_options *o = options;
    if (iter_rng_chance(rng, o->p)) tell(fold, 0);
}

STAGE_APPLY(invert_apply, iter__transform_invert)
STAGE_APPLY(random_invert_apply, iter__transform_random_invert)

static const iter_option invert_rows[] = {
    {"p", "probability", ITER_OPTION_DOUBLE, offsetof(iter_random_invert_options, p), 0, 1, NULL,
     1},
    {0},
};
static const iter_random_invert_options invert_defaults = ITER_RANDOM_INVERT_OPTIONS_INIT;

const iter_transform_ops iter__transform_invert = {
    .base = {.struct_size = sizeof(iter_transform_ops),
             .name = "invert",
             .help = "255 - each value",
             .state_size = sizeof(stage_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = iter__stage_start,
    .apply = invert_apply,
    .fold_plan = invert_fold,
};

const iter_transform_ops iter__transform_random_invert = {
    .base = {sizeof(iter_transform_ops), "random-invert", "255 - each value, with a probability",
             invert_rows, &invert_defaults, sizeof(invert_defaults), sizeof(stage_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = iter__stage_start,
    .apply = random_invert_apply,
    .fold_plan = invert_fold,
    .fold_sample = invert_sample,
};
