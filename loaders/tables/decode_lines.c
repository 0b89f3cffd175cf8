/*
 * decode_lines.c - see decode_lines.h.
 *
 * Ids of words are the text decoder's work (decode_text.h); here the text is found.
 */
#include "loaders/tables/decode_lines.h"

#include <inttypes.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "loaders/decoders/decode_text.h"
#include "loaders/tables/json_scan.h"
#include "loaders/tables/number_text.h"
#include "loaders/tables/row_text.h"

typedef struct line_state {
    iter__row_text row;
    uint8_t *plain;           /* [room + 1]: a string without escapes, if json */
    iter__text_reader reader; /* if words */
} line_state;

static void line_stop(void *state) {
    line_state *s = state;
    iter__row_text_stop(&s->row);
    iter__free(s->plain);
    iter__decoder_text.stop(&s->reader);
    s->plain = NULL;
}

static iter_status line_start(void *state, const void *shared, iter_error *err) {
    line_state *s = state;
    const iter__line_rule *rule = shared;
    ITER_TRY(iter__row_text_start(&s->row, rule->max_bytes, rule->room, err));
    iter_status status = ITER_OK;
    if (rule->json) {
        s->plain = iter__alloc((size_t)rule->room + 1, 1);
        if (!s->plain) status = iter__fail(err, ITER_ENOMEM, "no memory for a line");
    }
    if (status == ITER_OK && rule->words)
        status = iter__decoder_text.start(&s->reader, &rule->text, err);
    if (status < 0) line_stop(s);
    return status;
}

/* Finds the values in a line of JSON. */
static iter_status scan(const iter__line_rule *rule, const uint8_t *line, size_t n,
                        iter__json_value out[ITER_JSON_PATHS], iter_error *err) {
    const char *const paths[ITER_JSON_PATHS] = {rule->text_path, rule->label_path};
    size_t at = 0;
    const char *fault = iter__json_scan(line, n, paths, out, &at);
    if (!fault) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT, "column %zu: %s", at + 1, fault);
}

/* The line in bytes[size], without its end. */
static iter_status get_line(line_state *s, const uint8_t *bytes, size_t size, const uint8_t **out,
                            size_t *out_n, iter_error *err) {
    ITER_TRY(iter__row_text_get(&s->row, bytes, size, false, out, out_n, err));
    const uint8_t *feed = memchr(*out, '\n', *out_n);
    *out_n = (size_t)(feed - *out);
    if (*out_n > 0 && (*out)[*out_n - 1] == '\r') --*out_n;
    return ITER_OK;
}

/* The string at text_path. */
static iter_status get_string(line_state *s, const iter__line_rule *rule, const uint8_t **text,
                              size_t *n, iter_error *err) {
    iter__json_value found[ITER_JSON_PATHS];
    ITER_TRY(scan(rule, *text, *n, found, err));
    const iter__json_value *value = &found[0];
    if (!value->text) return iter__fail(err, ITER_EFORMAT, "has no '%s'", rule->text_path);
    if (*value->text != '"')
        return iter__fail(err, ITER_EFORMAT, "'%s' is not a string: %.*s", rule->text_path,
                          (int)iter__min_size(value->n, 40), (const char *)value->text);
    if (!iter__json_unescape(value, s->plain, n))
        return iter__fail(err, ITER_EFORMAT, "'%s' has a surrogate without its other half",
                          rule->text_path);
    *text = s->plain;
    return ITER_OK;
}

/* Bytes as they are, cut or filled up if rows have one length. */
static iter_status put_bytes(const iter__text_rule *rule, const uint8_t *text, size_t n,
                             iter_tensor *out, iter_error *err) {
    uint8_t *row = out->data;
    if (rule->maxlen == 0) {
        if ((int64_t)n > out->desc.capacity)
            return iter__fail(err, ITER_EFORMAT, "has %zu bytes, expected at most %" PRId64, n,
                              out->desc.capacity);
        if (n) memcpy(row, text, n);
        out->desc.dims[0] = (int64_t)n;
        return ITER_OK;
    }
    const size_t length = (size_t)rule->maxlen, kept = iter__min_size(n, length);
    const size_t n_pad = length - kept, from = rule->keep_first ? 0 : n - kept;
    memset(row, (int)rule->pad, length);
    if (kept) memcpy(row + (rule->pad_first ? n_pad : 0), text + from, kept);
    return ITER_OK;
}

static iter_status text_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_tensor *out, iter_error *err) {
    line_state *s = state;
    const iter__line_rule *rule = shared;
    const uint8_t *text = NULL;
    size_t n = 0;
    ITER_TRY(get_line(s, bytes, size, &text, &n, err));
    if (rule->json) ITER_TRY(get_string(s, rule, &text, &n, err));
    if (rule->words) return iter__decoder_text.decode(&s->reader, &rule->text, text, n, out, err);
    return put_bytes(&rule->text.rule, text, n, out, err);
}

static iter_status label_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                iter_tensor *out, iter_error *err) {
    line_state *s = state;
    const iter__line_rule *rule = shared;
    iter__json_value found[ITER_JSON_PATHS];
    const uint8_t *line = NULL, *after = NULL;
    size_t n = 0;
    ITER_TRY(get_line(s, bytes, size, &line, &n, err));
    ITER_TRY(scan(rule, line, n, found, err));
    const iter__json_value *value = &found[1];
    if (!value->text) return iter__fail(err, ITER_EFORMAT, "has no '%s'", rule->label_path);
    if (*value->text == 't' || *value->text == 'f') {
        iter__number_put(*value->text == 't', out->desc.dtype, out->data);
        return ITER_OK;
    }
    /* A value that ends the line has its line feed after it. */
    const iter__number answer =
        iter__number_read(value->text, line + n + 1, s->row.c, out->desc.dtype, out->data, &after);
    if (answer == ITER_NUMBER_OK && after == value->text + value->n) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT, "'%s' is %.*s, expected a number that %s can hold",
                      rule->label_path, (int)iter__min_size(value->n, 40),
                      (const char *)value->text, iter_dtype_text(out->desc.dtype));
}

const iter_decoder_ops iter__decoder_line_text = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "line",
             .help = "a line of text, or a string of JSON, to bytes or ids",
             .state_size = sizeof(line_state)},
    .start = line_start,
    .stop = line_stop,
    .decode = text_decode,
};

const iter_decoder_ops iter__decoder_line_label = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "line-label",
             .help = "a number of JSON",
             .state_size = sizeof(line_state)},
    .start = line_start,
    .stop = line_stop,
    .decode = label_decode,
};
