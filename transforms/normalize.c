/*
 * normalize.c - (x - mean) / std per channel; pixels of u8 count as x / 255.
 *
 * Told to the fold as a factor and a bias in double, 1 / (255 std) and -mean / std, so that dividing by 255 costs nothing.
 */
#include "iter/core/error.h"
#include "transforms/elements.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

static iter_status check_list(const iter_option_list *list, const char *name, int64_t channels,
                              bool has_channels, iter_error *err) {
    if (list->n <= 1 || (has_channels && list->n == channels)) return ITER_OK;
    if (!has_channels)
        return iter__fail(
            err, ITER_EINVAL,
            "%s has %d numbers, but the field has no channels: layout \"CHW\" or \"HWC\"", name,
            (int)list->n);
    return iter__fail(err, ITER_EINVAL, "%s has %d numbers, but the image has %lld channel%s", name,
                      (int)list->n, (long long)channels, channels == 1 ? "" : "s");
}

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    const iter_normalize_options *o = options;
    stage_image image = {0};
    *out_scratch = 0;
    if (in->dtype != ITER_U8 && !iter__dtype_is_float(in->dtype))
        return iter__fail(err, ITER_EINVAL,
                          "wants u8, f16, bf16, f32 or f64, but got %s; `cast` or `scale` first",
                          iter_dtype_text(in->dtype));
    const bool has_channels = iter__stage_image(in, &image, NULL) == ITER_OK;
    ITER_TRY(check_list(&o->mean, "mean", image.channels, has_channels, err));
    ITER_TRY(check_list(&o->std, "std", image.channels, has_channels, err));
    for (int32_t i = 0; i < o->std.n; i++)
        if (o->std.values[i] == 0)
            return iter__fail(err, ITER_EINVAL, "std number %d is 0", (int)i + 1);
    *out = *in;
    out->dtype = iter__stage_arithmetic(in->dtype);
    return ITER_OK;
}

static double list_value(const iter_option_list *list, int32_t i, double absent) {
    return list->n == 0 ? absent : list->values[list->n == 1 ? 0 : i];
}

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_normalize_options *o = options;
    double scale[ITER_OPTION_LIST_MAX], bias[ITER_OPTION_LIST_MAX];
    const double whole = iter_fold_dtype(fold) == ITER_U8 ? 255 : 1;
    int32_t n = o->mean.n > o->std.n ? o->mean.n : o->std.n;
    (void)err;
    if (n < 1) n = 1;
    for (int32_t i = 0; i < n; i++) {
        const double std = list_value(&o->std, i, 1);
        scale[i] = 1 / (whole * std);
        bias[i] = -list_value(&o->mean, i, 0) / std;
    }
    iter_fold_affine(fold, n, scale, bias);
    return ITER_OK;
}

#define AT(field) offsetof(iter_normalize_options, field)
static const iter_option rows[] = {
    {"mean", "subtracted, one number or one a channel", ITER_OPTION_LIST, AT(mean), 0, 0, NULL, 1},
    {"std", "divided by, one number or one a channel", ITER_OPTION_LIST, AT(std), 0, 0, NULL, 2},
    {0},
};
static const iter_normalize_options defaults = ITER_NORMALIZE_OPTIONS_INIT;

const iter_transform_ops iter__transform_normalize = {
    .base = {sizeof(iter_transform_ops), "normalize",
             "(x - mean) / std per channel, u8 pixels as x / 255", rows, &defaults,
             sizeof(defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .fold_plan = fold_plan,
};
