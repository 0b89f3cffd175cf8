/*
 * format_csv.c - tables of numbers: .csv and .tsv files, one sample a row.
 *
 * Opening finds where each row begins, and reads the first one for names and number of columns. The
 * rest is read and turned into numbers by the loader, a row at a time, in any order. So a row that
 * is wrong is one failed sample.
 *
 * Source: RFC 4180.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/files/file.h"
#include "loaders/formats/index_cache.h"
#include "loaders/formats/shape.h"
#include "loaders/tables/csv_columns.h"
#include "loaders/tables/decode_csv.h"
#include "loaders/tables/number_text.h"
#include "loaders/tables/row_set.h"

typedef enum header { ITER_CSV_AUTO, ITER_CSV_YES, ITER_CSV_NO } header;

typedef struct csv_options {
    int32_t header;
    const char *delimiter;
    bool quotes;
    const char *columns, *label;
    int32_t dtype, label_dtype;
    const char *shape, *missing;
    int64_t max_row;
    int32_t index_cache;
} csv_options;

static const csv_options defaults = {.quotes = true, .max_row = (int64_t)ITER_ROW_BYTES_MAX};

static const iter_option option_rows[] = {
    ITER_ROW_CHOICE("header",
                    "whether each file's first row has the columns' names; auto = if none of it is "
                    "a number",
                    csv_options, header, "auto|yes|no"),
    ITER_ROW_STRING("delimiter",
                    "between columns: one character, or tab, comma, semicolon, space; default: "
                    "comma, tab for .tsv",
                    csv_options, delimiter, 0),
    ITER_ROW_BOOL("quotes", "no = quotation marks are text like any other", csv_options, quotes),
    ITER_ROW_STRING("columns",
                    "what data is, between ';': names, numbers from 1, or ranges (2-31); default: "
                    "all but the label",
                    csv_options, columns, 0),
    ITER_ROW_STRING("label", "the label's column, or several between ';'; default: no label",
                    csv_options, label, 0),
    ITER_ROW_DTYPE("dtype", "of data; default f32", csv_options, dtype, 0),
    ITER_ROW_DTYPE("label-dtype", "of label; default i64", csv_options, label_dtype, 0),
    ITER_ROW_STRING("shape", "of data, 3x32x32; default: as many as there are columns", csv_options,
                    shape, 0),
    ITER_ROW_STRING("missing",
                    "empty columns and NA, N/A, nan, null in data: error, zero, nan, or a number",
                    csv_options, missing, 0),
    ITER_ROW_INT("max-row", ITER_ROW_MAX_ROW, csv_options, max_row, 16, 1 << 30, 0),
    ITER_INDEX_OPTION_ROW(csv_options, index_cache),
    ITER_ROW_END,
};

typedef struct csv_state {
    iter__row_set rows;
    iter__csv_header header;
    iter__csv_rule rule;
    int32_t n_data, n_label;
    iter_desc data, label;
} csv_state;

static void csv_close(void *state) {
    csv_state *s = state;
    iter__row_set_free(&s->rows);
    iter__csv_header_free(&s->header);
    iter__free(s->rule.data.places);
    iter__free(s->rule.data.runs);
    iter__free(s->rule.label.places);
    iter__free(s->rule.label.runs);
    memset(s, 0, sizeof(*s));
}

/* ---- Options --------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *ending) {
    const size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

static iter_status find_delimiter(const csv_state *s, const csv_options *o, char *out,
                                  iter_error *err) {
    static const struct {
        const char *word;
        char byte;
    } words[] = {{"tab", '\t'}, {"\\t", '\t'}, {"comma", ','}, {"semicolon", ';'}, {"space", ' '}};
    const char *text = o->delimiter;
    *out = ends_with(s->rows.spans.files[0].path, ".tsv") ? '\t' : ',';
    if (!text) return ITER_OK;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i].word) == 0) {
            *out = words[i].byte;
            return ITER_OK;
        }
    }
    if (strlen(text) != 1 || strchr("\"\r\n.+-0123456789eE", *text) || (*text & 0x80))
        return iter__fail(err, ITER_EINVAL,
                          "delimiter=%s: expected one ASCII character that no number has, or tab, "
                          "comma, semicolon, space",
                          text);
    *out = *text;
    return ITER_OK;
}

/* What missing= puts into data, as one element. */
static iter_status read_missing(const csv_options *o, iter_dtype dtype, iter__csv_part *out,
                                iter_error *err) {
    const char *text = o->missing;
    double value = 0;
    char *end = NULL;
    if (!text || strcmp(text, "error") == 0) return ITER_OK;
    out->missing = ITER_CSV_VALUE;
    if (strcmp(text, "nan") == 0) {
        value = (double)NAN;
    } else if (strcmp(text, "zero") != 0) {
        const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (!c) return iter__fail(err, ITER_ENOMEM, "no memory for missing=");
        value = strtod_l(text, &end, c);
        freelocale(c);
        if (end == text || *end)
            return iter__fail(err, ITER_EINVAL,
                              "missing=%s: expected error, zero, nan, or a number", text);
    }
    if (iter__number_put(value, dtype, out->fill)) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "missing=%s: %s cannot hold it", text,
                      iter_dtype_text(dtype));
}

static iter_status find_dtype(int32_t given, iter_dtype otherwise, const char *option,
                              iter_dtype *out, iter_error *err) {
    *out = given ? (iter_dtype)given : otherwise;
    if (iter__number_has(*out)) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "%s=%s: expected f32, f64 or an integer type (the stage cast makes others)",
                      option, iter_dtype_text(*out));
}

/* ---- Columns --------------------------------------------------------------------------------- */

static iter_status read_header(csv_state *s, const csv_options *o, const iter__row_rule *rule,
                               iter_error *err) {
    const char *path = s->rows.spans.files[0].path;
    char *row = NULL;
    size_t n = 0;
    ITER_TRY(iter__row_set_head(&s->rows, 0, rule, &row, &n, err));
    iter_status status = ITER_OK;
    if (n == 0)
        status = iter__fail(err, ITER_EFORMAT, "%s: has no rows", path);
    else
        status = iter__csv_header_read(&s->header, path, row, n, s->rule.delimiter, o->quotes, err);
    iter__free(row);
    s->header.named =
        o->header == ITER_CSV_YES || (o->header == ITER_CSV_AUTO && !s->header.numeric);
    return status;
}

typedef struct checking {
    const csv_state *state;
    const iter__row_rule *rule;
} checking;

/* All files must have the header of the first one. */
static iter_status check_header(void *user, uint64_t f, iter_error *err) {
    const checking *c = user;
    const csv_state *s = c->state;
    const char *path = s->rows.spans.files[f].path;
    iter__csv_header other = {0};
    char *row = NULL;
    size_t n = 0;
    if (f == 0) return ITER_OK;
    ITER_TRY(iter__row_set_head(&s->rows, f, c->rule, &row, &n, err));
    iter_status status = ITER_OK;
    if (n)
        status =
            iter__csv_header_read(&other, path, row, n, s->rule.delimiter, c->rule->quotes, err);
    bool same = n == 0 || other.n == s->header.n;
    for (int32_t i = 0; status == ITER_OK && n && same && i < other.n; i++)
        same = strcmp(other.names[i], s->header.names[i]) == 0;
    iter__csv_header_free(&other);
    iter__free(row);
    ITER_TRY(status);
    return same ? ITER_OK
                : iter__fail(err, ITER_EFORMAT, "%s: its header is not that of %s", path,
                             s->rows.spans.files[0].path);
}

static iter_status check_headers(const csv_state *s, const iter__row_rule *rule, iter_error *err) {
    checking c = {s, rule};
    if (!s->header.named) return ITER_OK;
    return iter__files_each(s->rows.spans.files[0].path, s->rows.spans.paths.n, ITER_FILES_SCANS,
                            check_header, &c, err);
}

static int32_t put_places(const int32_t *columns, int32_t n, int32_t n_columns,
                          iter__csv_part *out) {
    for (int32_t i = 0; i < n_columns; i++)
        out->places[i] = -1;
    for (int32_t i = 0; i < n; i++) {
        out->places[columns[i]] = i;
        if (columns[i] > out->last) out->last = columns[i];
    }
    for (int32_t i = n_columns; i-- > 0;) {
        const bool more =
            i + 1 < n_columns && (out->places[i] < 0 ? out->places[i + 1] < 0
                                                     : out->places[i + 1] == out->places[i] + 1);
        out->runs[i] = more ? out->runs[i + 1] + 1 : 1;
    }
    return n;
}

/* Decides where each column goes. */
static iter_status choose_columns(csv_state *s, const csv_options *o, int32_t *columns,
                                  iter_error *err) {
    const char *path = s->rows.spans.files[0].path;
    const int32_t all = s->header.n;
    int32_t n = 0;
    for (int32_t i = 0; i < all; i++)
        s->rule.label.places[i] = -1;
    if (o->label) {
        ITER_TRY(iter__csv_columns_parse(&s->header, path, "label", o->label, columns, &n, err));
        s->n_label = put_places(columns, n, all, &s->rule.label);
    }
    if (o->columns) {
        ITER_TRY(
            iter__csv_columns_parse(&s->header, path, "columns", o->columns, columns, &n, err));
    } else {
        n = 0;
        for (int32_t i = 0; i < all; i++)
            if (s->rule.label.places[i] < 0) columns[n++] = i;
    }
    s->n_data = put_places(columns, n, all, &s->rule.data);
    if (n > 0) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "%s: all of its columns are labels", path);
}

static iter_status find_columns(csv_state *s, const csv_options *o, iter_error *err) {
    const size_t n = (size_t)s->header.n;
    s->rule.n_columns = s->header.n;
    s->rule.names = s->header.named ? s->header.names : NULL;
    s->rule.data.places = iter__alloc(n, sizeof(int32_t));
    s->rule.data.runs = iter__alloc(n, sizeof(int32_t));
    s->rule.label.places = iter__alloc(n, sizeof(int32_t));
    s->rule.label.runs = iter__alloc(n, sizeof(int32_t));
    int32_t *columns = iter__alloc(n, sizeof(int32_t));
    iter_status status;
    if (!s->rule.data.places || !s->rule.data.runs || !s->rule.label.places ||
        !s->rule.label.runs || !columns)
        status = iter__fail(err, ITER_ENOMEM, "%s: no memory for its columns",
                            s->rows.spans.files[0].path);
    else
        status = choose_columns(s, o, columns, err);
    iter__free(columns);
    return status;
}

/* ---- The description ------------------------------------------------------------------------- */

static iter_status describe(csv_state *s, const csv_options *o, iter_error *err) {
    ITER_TRY(find_dtype(o->dtype, ITER_F32, "dtype", &s->data.dtype, err));
    ITER_TRY(find_dtype(o->label_dtype, ITER_I64, "label-dtype", &s->label.dtype, err));
    ITER_TRY(read_missing(o, s->data.dtype, &s->rule.data, err));
    s->data.n_dims = 1;
    s->data.dims[0] = s->n_data;
    if (s->n_label > 1) {
        s->label.n_dims = 1;
        s->label.dims[0] = s->n_label;
    }
    if (!o->shape) return ITER_OK;
    ITER_TRY(iter__shape_parse(o->shape, &s->data, err));
    if (iter_desc_elements(&s->data) == s->n_data) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "shape=%s has %" PRId64 " elements, data has %d columns",
                      o->shape, iter_desc_elements(&s->data), s->n_data);
}

static uint64_t identity_of(const csv_state *s, const csv_options *o) {
    const int64_t numbers[] = {s->header.named, s->rule.delimiter, o->quotes,  s->data.dtype,
                               s->label.dtype,  s->n_data,         s->n_label, o->max_row};
    uint64_t hash = iter__fnv1a_text(ITER_FNV_START, "csv");
    hash = iter__fnv1a(hash, numbers, sizeof(numbers));
    hash = iter__fnv1a(hash, s->rule.data.places, (size_t)s->header.n * sizeof(int32_t));
    hash = iter__fnv1a(hash, s->rule.label.places, (size_t)s->header.n * sizeof(int32_t));
    hash = iter__fnv1a_text(hash, o->shape ? o->shape : "");
    hash = iter__fnv1a_u64(hash, s->rule.data.missing);
    hash = iter__fnv1a(hash, s->rule.data.fill, sizeof(s->rule.data.fill));
    return iter__span_set_identity(&s->rows.spans, hash);
}

static void fill_description(const csv_state *s, const csv_options *o, iter_description *out) {
    out->n_fields = s->n_label ? 2 : 1;
    out->fields[0] = (iter_field){
        .name = "data", .role = ITER_DATA, .desc = s->data, .decoder = &iter__decoder_csv_data};
    out->fields[1] = (iter_field){
        .name = "label", .role = ITER_LABEL, .desc = s->label, .decoder = &iter__decoder_csv_label};
    if (!s->n_label) memset(&out->fields[1], 0, sizeof(out->fields[1]));
    iter__row_set_describe(&s->rows, out);
    out->shared = &s->rule;
    out->identity = identity_of(s, o);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static iter_status open_all(csv_state *s, const char *path, const csv_options *o, iter_error *err) {
    iter__row_rule rule = {.quotes = o->quotes, .max_bytes = (uint64_t)o->max_row};
    ITER_TRY(iter__row_set_open(&s->rows, path, ".csv", err));
    ITER_TRY(find_delimiter(s, o, &s->rule.delimiter, err));
    s->rule.quotes = o->quotes;
    s->rule.max_bytes = rule.max_bytes;
    ITER_TRY(read_header(s, o, &rule, err));
    ITER_TRY(check_headers(s, &rule, err));
    ITER_TRY(find_columns(s, o, err));
    ITER_TRY(describe(s, o, err));
    rule.n_skipped = s->header.named;
    ITER_TRY(iter__row_set_scan(&s->rows, &rule, o->index_cache, ITER_INDEX_ROWS, err));
    s->rule.room = iter__row_set_largest(&s->rows);
    return ITER_OK;
}

static iter_status csv_open(void *state, const char *path, const void *options,
                            iter_description *out, iter_error *err) {
    csv_state *s = state;
    const iter_status status = open_all(s, path, options, err);
    if (status < 0) {
        csv_close(s);
        return status;
    }
    fill_description(s, options, out);
    return ITER_OK;
}

static void csv_locate(const void *state, uint64_t index, iter_extent *out) {
    *out = iter__row_set_locate(&((const csv_state *)state)->rows, index);
}

static void csv_place(const void *state, uint64_t index, char *out, size_t capacity) {
    iter__row_set_place(&((const csv_state *)state)->rows, index, out, capacity);
}

const iter_format_ops iter__format_csv = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "csv",
             .help = "tables of numbers: .csv and .tsv files, one, a folder, or a pattern",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(csv_options),
             .state_size = sizeof(csv_state)},
    .open = csv_open,
    .close = csv_close,
    .locate = csv_locate,
    .place = csv_place,
};
