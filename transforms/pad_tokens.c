/* pad_tokens.c - fills a sequence of tokens up to a fixed length. */
#include <string.h>

#include <iter/transforms.h>

#include "transforms/token_stages.h"

static const iter_option option_rows[] = {
    {"length", "tokens of every sample", ITER_OPTION_INT, offsetof(iter_pad_tokens_options, length),
     0, INT32_MAX, NULL, 1},
    {"side", "where it is filled up", ITER_OPTION_CHOICE, offsetof(iter_pad_tokens_options, side),
     0, 0, "post|pre", 2},
    {"value", "id that is filled in", ITER_OPTION_INT, offsetof(iter_pad_tokens_options, value), 0,
     0, NULL, 0},
    {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0},
};

static const iter_pad_tokens_options defaults = ITER_PAD_TOKENS_OPTIONS_INIT;

/* ---- callbacks -------------------------------------------------------------------------------------------- */

static iter_status pad_plan(const void *options, const iter_desc *in, iter_desc *out,
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

static iter_status pad_apply(void *state, const void *options, const iter_tensor *in,
                             iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
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
    .base = {.struct_size = sizeof(iter_transform_ops),
             .name = "pad-tokens",
             .help = "fills tokens up to a fixed length",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(iter_pad_tokens_options)},
    .role = ITER_DATA,
    .plan = pad_plan,
    .apply = pad_apply,
};
