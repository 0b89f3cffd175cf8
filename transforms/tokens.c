/*
 * tokens.c - renumbers ids: an offset for reserved ids, one id for all words beyond a limit, a
 * start id in front.
 *
 * This order gives the ids of Keras' load_data(): offset=3,limit=30000,unknown=2,start=1.
 */
#include <iter/transforms.h>

#include "transforms/token_stages.h"

static const iter_option tokens_rows[] = {
    ITER_ROW_INT("offset", "added to every id", iter_tokens_options, offset, INT32_MIN, INT32_MAX,
                 0),
    ITER_ROW_INT("start", "id put in front; -1 = none", iter_tokens_options, start, -1, INT32_MAX,
                 0),
    ITER_ROW_INT("unknown", "id for words that are not below limit", iter_tokens_options, unknown,
                 0, INT32_MAX, 0),
    ITER_ROW_INT("limit", "ids from here on become unknown; 0 = no limit", iter_tokens_options,
                 limit, 0, INT32_MAX, 0),
    ITER_ROW_END,
};
static const iter_tokens_options tokens_defaults = ITER_TOKENS_OPTIONS_INIT;

/* Writes in[i] to out[skip + i]. Begins with the last id, because the two may overlap. Returns the
 * index of an id that does not fit, or -1. */
static inline int64_t renumber_as(iter_dtype dtype, const iter_tokens_options *o, const void *in,
                                  void *out, int64_t n, int64_t skip) {
    int64_t bad = -1;
    for (int64_t i = n - 1; i >= 0; i--) {
        int64_t id;
        const bool wide = __builtin_add_overflow(token_get(dtype, in, i), o->offset, &id);
        if (o->limit > 0 && (wide || id < 0 || id >= o->limit)) {
            id = o->unknown;
        } else if (wide || !token_fits(dtype, id)) {
            bad = i;
        }
        token_put(dtype, out, skip + i, id);
    }
    return bad;
}

/* One loop per type. */
static int64_t renumber(const iter_tokens_options *o, const iter_tensor *in, void *out,
                        int64_t skip) {
    const int64_t n = in->desc.dims[0];
    switch (in->desc.dtype) {
    case ITER_U16: return renumber_as(ITER_U16, o, in->data, out, n, skip);
    case ITER_I32: return renumber_as(ITER_I32, o, in->data, out, n, skip);
    default: return renumber_as(ITER_I64, o, in->data, out, n, skip);
    }
}

static iter_status tokens_plan(const void *options, const iter_desc *in, iter_desc *out,
                               size_t *out_scratch, iter_error *err) {
    const iter_tokens_options *o = options;
    ITER_TRY(token_check(in, err));
    if (o->limit > 0) {
        ITER_TRY(token_check_id(in, "limit - 1", o->limit - 1, err));
        if (o->unknown >= o->limit || o->start >= o->limit) {
            return iter__fail(err, ITER_EINVAL,
                              "unknown=%" PRId64 " and start=%" PRId64
                              " have to be below limit=%" PRId64,
                              o->unknown, o->start, o->limit);
        }
    }
    if (o->start >= 0) ITER_TRY(token_check_id(in, "start", o->start, err));
    *out = *in;
    if (o->start >= 0) {
        if (in->dims[0] == ITER_VARIABLE) {
            out->capacity++;
        } else {
            out->dims[0]++;
        }
    }
    *out_scratch = 0;
    return ITER_OK;
}

static iter_status tokens_apply(void *state, const void *options, const iter_tensor *in,
                                iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
    const iter_tokens_options *o = options;
    const int64_t skip = o->start >= 0;
    (void)state, (void)rng, (void)scratch;
    const int64_t bad = renumber(o, in, out->data, skip);
    if (bad >= 0) {
        return iter__fail(err, ITER_EFORMAT,
                          "token %" PRId64 " with offset=%" PRId64 " is no %s; give a limit", bad,
                          o->offset, iter_dtype_text(in->desc.dtype));
    }
    token_fill(in->desc.dtype, out->data, skip, o->start);
    out->desc.dims[0] = in->desc.dims[0] + skip;
    return ITER_OK;
}

const iter_transform_ops iter__transform_tokens = {
    .base = STAGE_BASE(tokens, "tokens", "renumbers ids: offset, limit, start", 0),
    .role = ITER_DATA,
    .plan = tokens_plan,
    .apply = tokens_apply,
};
