/* truncate.c - keeps one end of a sequence of tokens. */
#include <string.h>

#include <iter/transforms.h>

#include "transforms/token_stages.h"

static const iter_option option_rows[] = {
    {"length", "tokens kept at most", ITER_OPTION_INT, offsetof(iter_truncate_options, length), 0,
     INT32_MAX, NULL, 1},
    {"side", "which end is kept", ITER_OPTION_CHOICE, offsetof(iter_truncate_options, side), 0, 0,
     "last|first", 2},
    {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0},
};

static const iter_truncate_options defaults = ITER_TRUNCATE_OPTIONS_INIT;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- callbacks -------------------------------------------------------------------------------------------- */

static iter_status truncate_plan(const void *options, const iter_desc *in, iter_desc *out,
                                 size_t *out_scratch, iter_error *err) {
    const iter_truncate_options *o = options;
    ITER_TRY(token_check(in, err));
    if (o->length < 1) return iter__fail(err, ITER_EINVAL, "length is not given");
    *out = *in;
    if (in->dims[0] == ITER_VARIABLE) {
        out->capacity = least(in->capacity, o->length);
    } else {
        out->dims[0] = least(in->dims[0], o->length);
    }
    *out_scratch = 0;
    return ITER_OK;
}

static iter_status truncate_apply(void *state, const void *options, const iter_tensor *in,
                                  iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
    const iter_truncate_options *o = options;
    const size_t bytes = iter_dtype_bytes(in->desc.dtype);
    const int64_t n = in->desc.dims[0], kept = least(n, o->length);
    const int64_t first = o->side == ITER_SIDE_LAST ? n - kept : 0;
    (void)state, (void)rng, (void)scratch, (void)err;
    memmove(out->data, (const char *)in->data + (size_t)first * bytes, (size_t)kept * bytes);
    out->desc.dims[0] = kept;
    return ITER_OK;
}

const iter_transform_ops iter__transform_truncate = {
    .base = {.struct_size = sizeof(iter_transform_ops),
             .name = "truncate",
             .help = "keeps the last or the first tokens",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(iter_truncate_options)},
    .role = ITER_DATA,
    .plan = truncate_plan,
    .apply = truncate_apply,
};
