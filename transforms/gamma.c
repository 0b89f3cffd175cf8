/*
 * gamma.c - each value to a power: torchvision's adjust_gamma() over Pillow's images.
 *
 * All 256 results are computed when the chain is planned. They lie far enough from the next whole number that a pow() which errs in its last bits
 * gives the same table.
 */
#include <math.h>

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

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
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

STAGE_APPLY(apply, iter__transform_gamma)

#define AT(field) offsetof(iter_gamma_options, field)
static const iter_option rows[] = {
    {"gamma", "power that values are taken to", ITER_OPTION_DOUBLE, AT(gamma), 0, 100, NULL, 1},
    {"gain", "multiplied with afterwards", ITER_OPTION_DOUBLE, AT(gain), 0, 1000, NULL, 2},
    {0},
};
static const iter_gamma_options defaults = ITER_GAMMA_OPTIONS_INIT;

const iter_transform_ops iter__transform_gamma = {
    .base = {sizeof(iter_transform_ops), "gamma", "each value to a power", rows, &defaults,
             sizeof(defaults), sizeof(stage_state)},
    .role = ITER_DATA,
    .plan = plan,
    .start = iter__stage_start,
    .apply = apply,
    .fold_plan = fold_plan,
};
