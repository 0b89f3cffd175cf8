/* posterize.c - the upper bits of each byte, always or with a probability. */
#include "iter/core/error.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

static iter_status check(int64_t bits, iter_error *err) {
    if (bits >= 0) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "wants bits to keep: bits=N, 0 to 8");
}

static iter_status plan(int64_t bits, const iter_desc *in, iter_desc *out, size_t *out_scratch,
                        iter_error *err) {
    *out_scratch = 0;
    ITER_TRY(check(bits, err));
    ITER_TRY(iter__stage_table(in, out, err));
    *out_scratch = iter__stage_scratch(in, 0, 0);
    return ITER_OK;
}

static void tell(iter_fold *fold, int64_t bits) {
    uint8_t table[256];
    for (int32_t i = 0; i < 256; i++)
        table[i] = (uint8_t)(i & (0xff00 >> bits));
    iter_fold_table(fold, table);
}

/* ---- posterize --------------------------------------------------------------------------------- */

static iter_status always_plan(const void *options, const iter_desc *in, iter_desc *out,
                               size_t *out_scratch, iter_error *err) {
    const iter_posterize_options *o = options;
    return plan(o->bits, in, out, out_scratch, err);
}

static iter_status always_fold(const void *options, iter_fold *fold, iter_error *err) {
    const iter_posterize_options *o = options;
    ITER_TRY(check(o->bits, err));
    tell(fold, o->bits);
    return ITER_OK;
}

STAGE_APPLY(always_apply, iter__transform_posterize)

static const iter_option always_rows[] = {
    {"bits", "upper bits that are kept, -1 = not given", ITER_OPTION_INT,
     offsetof(iter_posterize_options, bits), 0, 8, NULL, 1},
    {0},
};
static const iter_posterize_options always_defaults = ITER_POSTERIZE_OPTIONS_INIT;

const iter_transform_ops iter__transform_posterize = {
    .base = {sizeof(iter_transform_ops), "posterize", "only the upper bits of each value",
             always_rows, &always_defaults, sizeof(always_defaults), sizeof(stage_state)},
    .role = ITER_DATA,
    .plan = always_plan,
    .start = iter__stage_start,
    .apply = always_apply,
    .fold_plan = always_fold,
};

/* ---- random-posterize ---------------------------------------------------------------------------- */

static iter_status random_plan(const void *options, const iter_desc *in, iter_desc *out,
                               size_t *out_scratch, iter_error *err) {
    const iter_random_posterize_options *o = options;
    return plan(o->bits, in, out, out_scratch, err);
}

static iter_status random_fold(const void *options, iter_fold *fold, iter_error *err) {
    const iter_random_posterize_options *o = options;
    ITER_TRY(check(o->bits, err));
    tell(fold, o->bits);
    return ITER_OK;
}

static void random_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    const iter_random_posterize_options *o = options;
    if (iter_rng_chance(rng, o->p)) tell(fold, o->bits);
}

STAGE_APPLY(random_apply, iter__transform_random_posterize)

#define AT(field) offsetof(iter_random_posterize_options, field)
static const iter_option random_rows[] = {
    {"bits", "upper bits that are kept, -1 = not given", ITER_OPTION_INT, AT(bits), 0, 8, NULL, 1},
    {"p", "probability", ITER_OPTION_DOUBLE, AT(p), 0, 1, NULL, 2},
    {0},
};
static const iter_random_posterize_options random_defaults = ITER_RANDOM_POSTERIZE_OPTIONS_INIT;

const iter_transform_ops iter__transform_random_posterize = {
    .base = {sizeof(iter_transform_ops), "random-posterize",
             "only the upper bits of each value, with a probability", random_rows, &random_defaults,
             sizeof(random_defaults), sizeof(stage_state)},
    .role = ITER_DATA,
    .plan = random_plan,
    .start = iter__stage_start,
    .apply = random_apply,
    .fold_plan = random_fold,
    .fold_sample = random_sample,
};
