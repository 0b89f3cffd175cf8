/*
 * normalize.c - (x - mean) / std per channel; u8 pixels count as x / 255.
 *
 * The fold gets a factor and a bias in double, 1 / (255 std) and -mean / std, so the division by
 * 255 costs nothing.
 */
#include <iter/transforms.h>

#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "transforms/pack/elements.h"
#include "transforms/stages.h"

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

static iter_status normalize_plan(const void *options, const iter_desc *in, iter_desc *out,
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
    out->dtype = iter__dtype_arithmetic(in->dtype);
    return ITER_OK;
}

static double list_value(const iter_option_list *list, int32_t i, double absent) {
    return list->n == 0 ? absent : list->values[list->n == 1 ? 0 : i];
}

static iter_status normalize_fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_normalize_options *o = options;
    double scale[ITER_OPTION_LIST_MAX], bias[ITER_OPTION_LIST_MAX];
    const double whole = iter_fold_dtype(fold) == ITER_U8 ? 255 : 1;
    const int32_t n = iter__max_i32(iter__max_i32(o->mean.n, o->std.n), 1);
    (void)err;
    for (int32_t i = 0; i < n; i++) {
        const double std = list_value(&o->std, i, 1);
        scale[i] = 1 / (whole * std);
        bias[i] = -list_value(&o->mean, i, 0) / std;
    }
    iter_fold_affine(fold, n, scale, bias);
    return ITER_OK;
}

static const iter_option normalize_rows[] = {
    ITER_ROW_LIST("mean", "subtracted, one number or one a channel", iter_normalize_options, mean,
                  0, 0, 1),
    ITER_ROW_LIST("std", "divided by, one number or one a channel", iter_normalize_options, std, 0,
                  0, 2),
    ITER_ROW_END,
};
static const iter_normalize_options normalize_defaults = ITER_NORMALIZE_OPTIONS_INIT;

const iter_transform_ops iter__transform_normalize = {
    .base =
        STAGE_BASE(normalize, "normalize", "(x - mean) / std per channel, u8 pixels as x / 255", 0),
    .role = ITER_DATA,
    .plan = normalize_plan,
    .fold_plan = normalize_fold_plan,
};
