/*
 * one_hot.c - a whole number to a row of zeros with a one.
 *
 * This stage is not foldable, because it can fail: the label may be out of range.
 */
#include <string.h>

#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/pack/elements.h"
#include "transforms/stages.h"

static iter_dtype result_type(const iter_one_hot_options *o) {
    return o->dtype == ITER_DTYPE_NONE ? ITER_F32 : (iter_dtype)o->dtype;
}

static iter_status one_hot_plan(const void *options, const iter_desc *in, iter_desc *out,
                                size_t *out_scratch, iter_error *err) {
    const iter_one_hot_options *o = options;
    char shape[128];
    *out_scratch = 0;
    if (o->classes < 1)
        return iter__fail(err, ITER_EINVAL, "wants the number of classes: classes=N");
    if (in->n_dims > 1 || (in->n_dims == 1 && in->dims[0] != 1) || iter__dtype_is_float(in->dtype))
        return iter__fail(err, ITER_EINVAL, "wants one whole number, [] or [1], but got %s",
                          iter_desc_text(in, shape, sizeof(shape)));
    *out = (iter_desc){.dtype = result_type(o), .n_dims = 1, .dims = {o->classes}};
    return ITER_OK;
}

static iter_status one_hot_apply(void *state, const void *options, const iter_tensor *in,
                                 iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
    const iter_one_hot_options *o = options;
    const iter_dtype type = result_type(o);
    int64_t label = 0;
    (void)state, (void)rng, (void)scratch;
    iter__elements_convert(in->desc.dtype, ITER_I64, iter__kind_of(in->desc.dtype, ITER_I64, false),
                           in->data, 0, &label, 0, 1, 1.0, -0.0);
    if (label < 0 || label >= o->classes)
        return iter__fail(err, ITER_EFORMAT, "label %lld is not in 0..%lld", (long long)label,
                          (long long)(o->classes - 1));
    const size_t bytes = iter_dtype_bytes(type);
    memset(out->data, 0, (size_t)o->classes * bytes);
    iter__element_from_f64(type, 1.0, (char *)out->data + (size_t)label * bytes);
    return ITER_OK;
}

static const iter_option one_hot_rows[] = {
    ITER_ROW_INT("classes", "how many there are", iter_one_hot_options, classes, 0, 16777216, 1),
    ITER_ROW_DTYPE("dtype", "element type of the result, f32 if not given", iter_one_hot_options,
                   dtype, 0),
    ITER_ROW_END,
};
static const iter_one_hot_options one_hot_defaults = ITER_ONE_HOT_OPTIONS_INIT;

const iter_transform_ops iter__transform_one_hot = {
    .base =
        STAGE_BASE(one_hot, "one-hot", "a label becomes a row of zeros with a one at its place", 0),
    .role = ITER_LABEL,
    .plan = one_hot_plan,
    .apply = one_hot_apply,
};
