/* truncate.c - keeps one end of a sequence of tokens. */
#include <string.h>

#include <iter/transforms.h>

#include "iter/core/arith.h"
#include "transforms/token_stages.h"

static const iter_option truncate_rows[] = {
    ITER_ROW_INT("length", "tokens kept at most", iter_truncate_options, length, 0, INT32_MAX, 1),
    ITER_ROW_CHOICE_AT("side", "which end is kept", iter_truncate_options, side, "last|first", 2),
    ITER_ROW_END,
};
static const iter_truncate_options truncate_defaults = ITER_TRUNCATE_OPTIONS_INIT;

static iter_status truncate_plan(const void *options, const iter_desc *in, iter_desc *out,
                                 size_t *out_scratch, iter_error *err) {
    const iter_truncate_options *o = options;
    ITER_TRY(token_check(in, err));
    if (o->length < 1) return iter__fail(err, ITER_EINVAL, "length is not given");
    *out = *in;
    if (in->dims[0] == ITER_VARIABLE) {
        out->capacity = iter__min_i64(in->capacity, o->length);
    } else {
        out->dims[0] = iter__min_i64(in->dims[0], o->length);
    }
    *out_scratch = 0;
    return ITER_OK;
}

static iter_status truncate_apply(void *state, const void *options, const iter_tensor *in,
                                  iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
    const iter_truncate_options *o = options;
    const size_t bytes = iter_dtype_bytes(in->desc.dtype);
    const int64_t n = in->desc.dims[0], kept = iter__min_i64(n, o->length);
    const int64_t first = o->side == ITER_SIDE_LAST ? n - kept : 0;
    (void)state, (void)rng, (void)scratch, (void)err;
    memmove(out->data, (const char *)in->data + (size_t)first * bytes, (size_t)kept * bytes);
    out->desc.dims[0] = kept;
    return ITER_OK;
}

const iter_transform_ops iter__transform_truncate = {
    .base = STAGE_BASE(truncate, "truncate", "keeps the last or the first tokens", 0),
    .role = ITER_DATA,
    .plan = truncate_plan,
    .apply = truncate_apply,
};
