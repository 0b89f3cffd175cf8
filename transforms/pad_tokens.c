/* pad_tokens.c - fills a sequence of tokens up to a fixed length. */
#include <string.h>

#include <iter/transforms.h>

#include "transforms/token_stages.h"

static const iter_option pad_tokens_rows[] = {
    ITER_ROW_INT("length", "tokens of every sample", iter_pad_tokens_options, length, 0, INT32_MAX,
                 1),
    ITER_ROW_CHOICE_AT("side", "which end is filled up", iter_pad_tokens_options, side, "post|pre",
                       2),
    ITER_ROW_INT("value", "id that is filled in", iter_pad_tokens_options, value, 0, 0, 0),
    ITER_ROW_END,
};
static const iter_pad_tokens_options pad_tokens_defaults = ITER_PAD_TOKENS_OPTIONS_INIT;

static iter_status pad_tokens_plan(const void *options, const iter_desc *in, iter_desc *out,
                                   size_t *out_scratch, iter_error *err) {
    const iter_pad_tokens_options *o = options;
    ITER_TRY(token_check(in, err));
    ITER_TRY(token_check_id(in, "value", o->value, err));
    if (o->length < 1) return iter__fail(err, ITER_EINVAL, "length is not given");
    if (in->dims[0] != ITER_VARIABLE && in->dims[0] > o->length) {
        return iter__fail(err, ITER_EINVAL,
                          "samples have %" PRId64 " tokens, more than length=%" PRId64
                          "; truncate them first",
                          in->dims[0], o->length);
    }
    *out = *in;
    out->dims[0] = o->length;
    out->capacity = 0;
    *out_scratch = 0;
    return ITER_OK;
}

static iter_status pad_tokens_apply(void *state, const void *options, const iter_tensor *in,
                                    iter_tensor *out, iter_rng *rng, void *scratch,
                                    iter_error *err) {
    const iter_pad_tokens_options *o = options;
    const size_t bytes = iter_dtype_bytes(in->desc.dtype);
    const int64_t n = in->desc.dims[0], gap = o->length - n;
    (void)state, (void)rng, (void)scratch;
    if (gap < 0) {
        return iter__fail(err, ITER_EFORMAT,
                          "has %" PRId64 " tokens, more than length=%" PRId64
                          "; truncate them first",
                          n, o->length);
    }
    const size_t at = o->side == ITER_PAD_PRE ? (size_t)gap : 0;
    char *row = out->data;
    memmove(row + at * bytes, in->data, (size_t)n * bytes);
    token_fill(in->desc.dtype, at ? row : row + (size_t)n * bytes, gap, o->value);
    return ITER_OK;
}

const iter_transform_ops iter__transform_pad_tokens = {
    .base = STAGE_BASE(pad_tokens, "pad-tokens", "fills tokens up to a fixed length", 0),
    .role = ITER_DATA,
    .plan = pad_tokens_plan,
    .apply = pad_tokens_apply,
};
