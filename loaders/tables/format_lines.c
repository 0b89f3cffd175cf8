/*
 * format_lines.c - lines of text (`text`), and a string of each line of JSON (`jsonl`).
 *
 * Data is the text's bytes, or, with a word list, ids by the rule of `imdb` (text_tokens.h).
 * Lengths vary unless maxlen is given.
 *
 * Source: https://jsonlines.org for what a line is.
 */
#include <inttypes.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/files/file.h"
#include "loaders/formats/index_cache.h"
#include "loaders/tables/decode_lines.h"
#include "loaders/tables/number_text.h"
#include "loaders/tables/row_set.h"

#define WORDS_BYTES_MAX ((uint64_t)1 << 30)

typedef struct lines_options {
    const char *text, *label;
    int32_t label_dtype;
    const char *index, *vocab;
    iter__text_rule rule;
    int64_t max_row;
    int32_t index_cache;
} lines_options;

static const lines_options defaults = {
    .rule = {.index_from = 3, .start = 1, .oov = 2, .keep_first = 1},
    .max_row = (int64_t)ITER_ROW_BYTES_MAX,
};

/* clang-format off */
#define LINE_ROWS \
    ITER_ROW_STRING("index", "word list, JSON {\"word\": rank}; data is then ids instead of bytes", \
                    lines_options, index, 0), \
    ITER_ROW_STRING("vocab", "word list, a word a line, instead of index", lines_options, vocab, 0), \
    ITER_ROW_INT("num-words", "ids from here on become oov; 0 = no limit", lines_options, \
                 rule.num_words, 0, INT32_MAX, 0), \
    ITER_ROW_INT("index-from", "added to a word's rank", lines_options, rule.index_from, 0, \
                 INT32_MAX, 0), \
    ITER_ROW_INT("start", "id before the first word; -1 = none", lines_options, rule.start, -1, \
                 INT32_MAX, 0), \
    ITER_ROW_INT("oov", "id of unknown words; -1 = they are left out", lines_options, rule.oov, -1, \
                 INT32_MAX, 0), \
    ITER_ROW_INT("maxlen", "ids or bytes a line; 0 = as many as it has", lines_options, \
                 rule.maxlen, 0, 1 << 24, 0), \
    ITER_ROW_INT("pad", "id or byte that fills up a short line", lines_options, rule.pad, INT32_MIN, \
                 INT32_MAX, 0), \
    ITER_ROW_CHOICE("side", "which end of a long line is kept", lines_options, rule.keep_first, \
                    "last|first"), \
    ITER_ROW_CHOICE("pad-side", "where a short line is filled up", lines_options, rule.pad_first, \
                    "post|pre"), \
    ITER_ROW_INT("max-row", "bytes of a line; a longer one is a failed sample", lines_options, \
                 max_row, 16, 1 << 30, 0), \
    ITER_INDEX_OPTION_ROW(lines_options, index_cache)
/* clang-format on */

static const iter_option text_rows[] = {LINE_ROWS, ITER_ROW_END};

static const iter_option jsonl_rows[] = {
    ITER_ROW_STRING("text", "the string that is data, a path such as a.b.0; default: text",
                    lines_options, text, 1),
    ITER_ROW_STRING("label", "the number that is label, a path; default: no label", lines_options,
                    label, 0),
    ITER_ROW_DTYPE("label-dtype", "of label; default i64", lines_options, label_dtype, 0),
    LINE_ROWS,
    ITER_ROW_END,
};

typedef struct lines_state {
    iter__row_set rows;
    iter__line_rule rule;
    iter_dtype label_dtype;
} lines_state;

static void lines_close(void *state) {
    lines_state *s = state;
    iter__row_set_free(&s->rows);
    iter__vocab_free(&s->rule.text.vocab);
    iter__free((void *)s->rule.text_path);
    iter__free((void *)s->rule.label_path);
    memset(s, 0, sizeof(*s));
}

/* ---- Options --------------------------------------------------------------------------------- */

static iter_status load_words(lines_state *s, const lines_options *o, iter_error *err) {
    const char *file = o->vocab ? o->vocab : o->index;
    char *text = NULL;
    size_t bytes = 0;
    if (o->index && o->vocab)
        return iter__fail(err, ITER_EINVAL, "index and vocab are both given, one is needed");
    if (!file) return ITER_OK;
    s->rule.words = true;
    ITER_TRY(iter__file_load(file, WORDS_BYTES_MAX, &text, &bytes, err));
    const iter_status status = o->vocab
                                   ? iter__text_load_list(&s->rule.text, text, bytes, file, err)
                                   : iter__text_load_index(&s->rule.text, text, bytes, file, err);
    iter__free(text);
    return status;
}

/* A path has no empty part. */
static bool is_path(const char *text) {
    return *text && *text != '.' && !strstr(text, "..") && text[strlen(text) - 1] != '.';
}

static iter_status copy_path(const char *option, const char *text, const char **out,
                             iter_error *err) {
    if (!is_path(text))
        return iter__fail(err, ITER_EINVAL, "%s=%s: expected keys between '.'", option, text);
    *out = iter__strdup(text);
    return *out ? ITER_OK : iter__fail(err, ITER_ENOMEM, "no memory for %s=", option);
}

static iter_status check_options(lines_state *s, const lines_options *o, bool json,
                                 iter_error *err) {
    s->rule.text.rule = o->rule;
    s->rule.json = json;
    s->rule.max_bytes = (uint64_t)o->max_row;
    s->label_dtype = o->label_dtype ? (iter_dtype)o->label_dtype : ITER_I64;
    if (!iter__number_has(s->label_dtype))
        return iter__fail(err, ITER_EINVAL, "label-dtype=%s: expected f32, f64 or an integer type",
                          iter_dtype_text(s->label_dtype));
    if (!o->index && !o->vocab && (o->rule.pad < 0 || o->rule.pad > 255))
        return iter__fail(err, ITER_EINVAL,
                          "pad=%" PRId64
                          ": data is bytes, so it is 0 to 255 (index= or vocab= make "
                          "ids)",
                          o->rule.pad);
    if (json) ITER_TRY(copy_path("text", o->text ? o->text : "text", &s->rule.text_path, err));
    if (json && o->label) ITER_TRY(copy_path("label", o->label, &s->rule.label_path, err));
    return load_words(s, o, err);
}

/* ---- The description ------------------------------------------------------------------------- */

static uint64_t identity_of(const lines_state *s) {
    const iter__text_rule *r = &s->rule.text.rule;
    const int64_t numbers[] = {s->rule.json,  s->rule.words,  r->num_words,
                               r->index_from, r->start,       r->oov,
                               r->maxlen,     r->pad,         r->keep_first,
                               r->pad_first,  s->label_dtype, (int64_t)s->rule.max_bytes};
    uint64_t hash = iter__fnv1a_text(ITER_FNV_START, "lines");
    hash = iter__fnv1a(hash, numbers, sizeof(numbers));
    hash = iter__fnv1a_text(hash, s->rule.json ? s->rule.text_path : "");
    hash = iter__fnv1a_text(hash, s->rule.label_path ? s->rule.label_path : "");
    if (s->rule.words) hash = iter__fnv1a_u64(hash, iter__vocab_identity(&s->rule.text.vocab));
    return iter__span_set_identity(&s->rows.spans, hash);
}

static void fill_description(const lines_state *s, iter_description *out) {
    const int64_t maxlen = s->rule.text.rule.maxlen;
    const uint64_t largest = iter__row_set_largest(&s->rows);
    const int64_t most =
        s->rule.words ? iter__text_most_ids(&s->rule.text.rule, largest) : (int64_t)largest;
    iter_field *data = &out->fields[0], *label = &out->fields[1];
    *data = (iter_field){.name = "data", .role = ITER_DATA, .decoder = &iter__decoder_line_text};
    data->desc = (iter_desc){
        .dtype = s->rule.words ? ITER_I32 : ITER_U8, .n_dims = 1, .dims = {maxlen}, .layout = "T"};
    if (maxlen == 0) {
        data->desc.dims[0] = ITER_VARIABLE;
        data->desc.capacity = iter__max_i64(most, 1);
    }
    if (s->rule.label_path)
        *label = (iter_field){.name = "label",
                              .role = ITER_LABEL,
                              .desc = {.dtype = s->label_dtype},
                              .decoder = &iter__decoder_line_label};
    out->n_fields = s->rule.label_path ? 2 : 1;
    iter__row_set_describe(&s->rows, out);
    out->shared = &s->rule;
    out->identity = identity_of(s);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static iter_status open_all(lines_state *s, const char *path, const lines_options *o, bool json,
                            iter_description *out, iter_error *err) {
    const iter__row_rule rule = {.keep_blank = !json, .max_bytes = (uint64_t)o->max_row};
    iter_status status = check_options(s, o, json, err);
    if (status == ITER_OK)
        status = iter__row_set_open(&s->rows, path, json ? ".jsonl" : ".txt", err);
    if (status == ITER_OK)
        status = iter__row_set_scan(&s->rows, &rule, o->index_cache, ITER_INDEX_ROWS, err);
    if (status < 0) {
        lines_close(s);
        return status;
    }
    s->rule.room = iter__row_set_largest(&s->rows);
    fill_description(s, out);
    return ITER_OK;
}

static iter_status text_open(void *state, const char *path, const void *options,
                             iter_description *out, iter_error *err) {
    return open_all(state, path, options, false, out, err);
}

static iter_status jsonl_open(void *state, const char *path, const void *options,
                              iter_description *out, iter_error *err) {
    return open_all(state, path, options, true, out, err);
}

static void lines_locate(const void *state, uint64_t index, iter_extent *out) {
    *out = iter__row_set_locate(&((const lines_state *)state)->rows, index);
}

static void lines_place(const void *state, uint64_t index, char *out, size_t capacity) {
    iter__row_set_place(&((const lines_state *)state)->rows, index, out, capacity);
}

/* The bytes of the line: ids and characters grow with them. */
static int64_t lines_length(const void *state, uint64_t index) {
    const lines_state *s = state;
    const int64_t maxlen = s->rule.text.rule.maxlen;
    return maxlen ? maxlen : (int64_t)iter__row_set_locate(&s->rows, index).size;
}

const iter_format_ops iter__format_text = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "text",
             .help = "lines of text, as bytes or as ids of words: a file, a folder of .txt files, "
                     "or a pattern",
             .options = text_rows,
             .defaults = &defaults,
             .options_size = sizeof(lines_options),
             .state_size = sizeof(lines_state)},
    .open = text_open,
    .close = lines_close,
    .locate = lines_locate,
    .length = lines_length,
    .place = lines_place,
};

const iter_format_ops iter__format_jsonl = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "jsonl",
             .help = "a string in each line of JSON, as bytes or as ids of words, and a number as "
                     "label: a file, a folder of .jsonl files, or a pattern",
             .options = jsonl_rows,
             .defaults = &defaults,
             .options_size = sizeof(lines_options),
             .state_size = sizeof(lines_state)},
    .open = jsonl_open,
    .close = lines_close,
    .locate = lines_locate,
    .length = lines_length,
    .place = lines_place,
};
