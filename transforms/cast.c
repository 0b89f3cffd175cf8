/* cast.c - another element type, for any field. */
#include "iter/core/error.h"
#include "transforms/stages.h"

#include <iter/transforms.h>

static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    const iter_cast_options *o = options;
    *out_scratch = 0;
    if (!iter_dtype_bytes((iter_dtype)o->dtype))
        return iter__fail(err, ITER_EINVAL, "wants an element type, such as dtype=f32");
    *out = *in;
    out->dtype = (iter_dtype)o->dtype;
    return ITER_OK;
}

static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    const iter_cast_options *o = options;
    (void)err;
    iter_fold_cast(fold, (iter_dtype)o->dtype);
    return ITER_OK;
}

static const iter_option rows[] = {
    {"dtype", "element type of the result", ITER_OPTION_DTYPE, offsetof(iter_cast_options, dtype),
     0, 0, NULL, 1},
    {0},
};
static const iter_cast_options defaults = ITER_CAST_OPTIONS_INIT;

const iter_transform_ops iter__transform_cast = {
    .base = {sizeof(iter_transform_ops), "cast", "another element type", rows, &defaults,
             sizeof(defaults), 0},
    .role = ITER_DATA,
    .plan = plan,
    .fold_plan = fold_plan,
};
