/*
 * decode_libsvm.c - see decode_libsvm.h.
 *
 * Each field reads the row again, because fields are made apart: an index costs a few
 * instructions to skip. All of them check the whole row up to what they need; `values` and the
 * dense row check all of it.
 *
 * Source: the README of LIBSVM, "How to Use", for the layout; SVMlight for comments and qid.
 */
#include "loaders/tables/decode_libsvm.h"

#include <inttypes.h>
#include <string.h>

#include "iter/core/error.h"
#include "loaders/tables/number_text.h"
#include "loaders/tables/row_text.h"

/* A row while it is read. */
typedef struct svm_row {
    const iter__libsvm_rule *rule;
    const uint8_t *begin, *p, *end; /* the last byte is a line feed */
    locale_t c;
    int64_t last; /* the index before, as written */
} svm_row;

static iter_status fail_at(const svm_row *r, const uint8_t *p, const char *reason,
                           iter_error *err) {
    size_t n = 0;
    while (p + n < r->end && n < 40 && p[n] != ' ' && p[n] != '\n' && p[n] != '\r' && p[n] != '\t')
        n++;
    return iter__fail(err, ITER_EFORMAT, "column %d: %s, got '%.*s'", (int)(p - r->begin) + 1,
                      reason, (int)n, (const char *)p);
}

static bool is_blank(uint8_t byte) {
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static bool is_end(uint8_t byte) {
    return is_blank(byte) || byte == '\n' || byte == '#';
}

/* Reads the label, or skips it if out is NULL. */
static iter_status read_label(svm_row *r, iter_dtype dtype, void *out, iter_error *err) {
    const uint8_t *after = NULL;
    double skipped;
    while (is_blank(*r->p))
        r->p++;
    const iter__number answer =
        out ? iter__number_read(r->p, r->end, r->c, dtype, out, &after)
            : iter__number_read(r->p, r->end, r->c, ITER_F64, &skipped, &after);
    if (answer == ITER_NUMBER_RANGE) return fail_at(r, r->p, "the type cannot hold the label", err);
    if (answer == ITER_NUMBER_NONE) return fail_at(r, r->p, "the label must be a number", err);
    if (*after == ',')
        return fail_at(r, r->p, "expected one label, several are not supported", err);
    if (*after == ':') return fail_at(r, r->p, "expected a label before the first index", err);
    if (!is_end(*after)) return fail_at(r, r->p, "the label must be a number", err);
    r->p = after;
    return ITER_OK;
}

/* Reads "INDEX:", skipping qid. *out_index counts from 0, and is -1 at the row's end. */
static iter_status read_index(svm_row *r, int64_t *out_index, iter_error *err) {
    *out_index = -1;
    for (;;) {
        while (is_blank(*r->p))
            r->p++;
        if (*r->p == '\n' || *r->p == '#') return ITER_OK;
        if (r->end - r->p < 5 || memcmp(r->p, "qid:", 4) != 0) break;
        while (!is_end(*r->p))
            r->p++;
    }
    const uint8_t *p = r->p;
    int64_t value = 0;
    for (; *p >= '0' && *p <= '9' && value <= INT32_MAX; p++)
        value = 10 * value + (*p - '0');
    if (p == r->p || *p != ':') return fail_at(r, r->p, "expected INDEX:VALUE", err);
    const int64_t index = value - r->rule->base;
    if (index < 0)
        return fail_at(r, r->p, "index 0, but indices count from 1 (base=0: from 0)", err);
    if (index > INT32_MAX || (r->rule->n_features && index >= r->rule->n_features))
        return fail_at(r, r->p, "an index above the last of `features`", err);
    if (value <= r->last) return fail_at(r, r->p, "indices must ascend", err);
    r->last = value;
    r->p = p + 1;
    *out_index = index;
    return ITER_OK;
}

static iter_status read_value(svm_row *r, iter_dtype dtype, void *out, iter_error *err) {
    const uint8_t *after = NULL;
    const iter__number answer = iter__number_read(r->p, r->end, r->c, dtype, out, &after);
    if (answer == ITER_NUMBER_RANGE) return fail_at(r, r->p, "the type cannot hold the value", err);
    if (answer == ITER_NUMBER_NONE || !is_end(*after))
        return fail_at(r, r->p, "expected a number after ':'", err);
    r->p = after;
    return ITER_OK;
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static iter_status svm_start(void *state, const void *shared, iter_error *err) {
    const iter__libsvm_rule *rule = shared;
    return iter__row_text_start(state, rule->max_bytes, rule->room, err);
}

static void svm_stop(void *state) {
    iter__row_text_stop(state);
}

static iter_status row_open(svm_row *r, void *state, const iter__libsvm_rule *rule,
                            const uint8_t *bytes, size_t size, iter_error *err) {
    iter__row_text *text = state;
    ITER_TRY(iter__row_text_get(text, bytes, size, false, &bytes, &size, err));
    *r = (svm_row){
        .rule = rule, .begin = bytes, .p = bytes, .end = bytes + size, .c = text->c, .last = -1};
    return ITER_OK;
}

static iter_status label_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                iter_tensor *out, iter_error *err) {
    svm_row r;
    ITER_TRY(row_open(&r, state, shared, bytes, size, err));
    return read_label(&r, out->desc.dtype, out->data, err);
}

static iter_status dense_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                iter_tensor *out, iter_error *err) {
    const size_t width = iter_dtype_bytes(out->desc.dtype);
    int64_t index;
    svm_row r;
    ITER_TRY(row_open(&r, state, shared, bytes, size, err));
    memset(out->data, 0, (size_t)out->desc.dims[0] * width);
    ITER_TRY(read_label(&r, ITER_F64, NULL, err));
    for (;;) {
        ITER_TRY(read_index(&r, &index, err));
        if (index < 0) return ITER_OK;
        ITER_TRY(
            read_value(&r, out->desc.dtype, (uint8_t *)out->data + (size_t)index * width, err));
    }
}

/* Indices, or values, of the row; the others are read and dropped. */
static iter_status decode_list(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               bool indices, iter_tensor *out, iter_error *err) {
    const size_t width = iter_dtype_bytes(out->desc.dtype);
    uint8_t *to = out->data;
    int64_t n = 0, index;
    svm_row r;
    ITER_TRY(row_open(&r, state, shared, bytes, size, err));
    ITER_TRY(read_label(&r, ITER_F64, NULL, err));
    for (;; n++) {
        double skipped;
        ITER_TRY(read_index(&r, &index, err));
        if (index < 0) break;
        if (n == out->desc.capacity)
            return iter__fail(err, ITER_EFORMAT, "has more than %" PRId64 " values",
                              out->desc.capacity);
        const int32_t narrow = (int32_t)index;
        if (indices) memcpy(to + (size_t)n * width, &narrow, sizeof(narrow));
        ITER_TRY(indices ? read_value(&r, ITER_F64, &skipped, err)
                         : read_value(&r, out->desc.dtype, to + (size_t)n * width, err));
    }
    out->desc.dims[0] = n;
    return ITER_OK;
}

static iter_status indices_decode(void *state, const void *shared, const uint8_t *bytes,
                                  size_t size, iter_tensor *out, iter_error *err) {
    return decode_list(state, shared, bytes, size, true, out, err);
}

static iter_status values_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                 iter_tensor *out, iter_error *err) {
    return decode_list(state, shared, bytes, size, false, out, err);
}

#define DECODER(text, callback, explained)                         \
    {                                                              \
        .base = {.struct_size = sizeof(iter_decoder_ops),          \
                 .name = (text),                                   \
                 .help = (explained),                              \
                 .state_size = sizeof(iter__row_text)},            \
        .start = svm_start, .stop = svm_stop, .decode = (callback) \
    }

const iter_decoder_ops iter__decoder_libsvm_dense =
    DECODER("libsvm", dense_decode, "INDEX:VALUE ... to a dense row");
const iter_decoder_ops iter__decoder_libsvm_indices =
    DECODER("libsvm-indices", indices_decode, "INDEX:VALUE ... to the indices");
const iter_decoder_ops iter__decoder_libsvm_values =
    DECODER("libsvm-values", values_decode, "INDEX:VALUE ... to the values");
const iter_decoder_ops iter__decoder_libsvm_label =
    DECODER("libsvm-label", label_decode, "the label of a row");
