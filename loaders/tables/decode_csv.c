/*
 * decode_csv.c - see decode_csv.h.
 *
 * Most columns are a plain number and then a separator. So a number is read where it begins, and
 * only if no separator follows, the column is looked at again: marks, blanks, missing values,
 * errors. A row ends with a line feed, which no number has, so reading one needs no other bound. A
 * last line without a line feed is copied and gets one.
 */
#include "loaders/tables/decode_csv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "iter/core/error.h"
#include "loaders/tables/csv_columns.h"
#include "loaders/tables/number_text.h"
#include "loaders/tables/row_text.h"

/* One row while it is read. */
typedef struct csv_row {
    const iter__csv_rule *rule;
    const iter__csv_part *part;
    locale_t c;
    const uint8_t *end; /* after the line feed, which is the last byte */
    iter_dtype dtype;
    size_t width;
    uint8_t *out;
    int32_t column; /* the current one, from 0 */
} csv_row;

/* ---- Errors ---------------------------------------------------------------------------------- */

static iter_status fail_column(const csv_row *r, iter_error *err, const char *reason,
                               const uint8_t *text, size_t n) {
    const char *name = r->rule->names ? r->rule->names[r->column] : "";
    return iter__fail(err, ITER_EFORMAT, "column %d%s%.40s%s: %s%s%.*s%s", r->column + 1,
                      *name ? " (" : "", name, *name ? ")" : "", reason, text ? " '" : "",
                      text ? (int)(n < 40 ? n : 40) : 0, text ? (const char *)text : "",
                      text ? "'" : "");
}

static iter_status fail_number(const csv_row *r, iter_error *err, iter__number answer,
                               const uint8_t *text, size_t n) {
    char reason[64];
    const bool whole = r->dtype != ITER_F32 && r->dtype != ITER_F64;
    snprintf(reason, sizeof(reason),
             answer == ITER_NUMBER_RANGE ? "%s cannot hold" : "%s expected, got",
             answer == ITER_NUMBER_RANGE ? iter_dtype_text(r->dtype)
             : whole                     ? "a whole number"
                                         : "a number");
    return fail_column(r, err, reason, text, n);
}

/* ---- Columns --------------------------------------------------------------------------------- */

static bool is_word(const uint8_t *text, size_t n, const char *word) {
    return n == strlen(word) && strncasecmp((const char *)text, word, n) == 0;
}

static bool is_missing(const uint8_t *text, size_t n) {
    return n == 0 || is_word(text, n, "na") || is_word(text, n, "n/a") || is_word(text, n, "nan") ||
           is_word(text, n, "null");
}

/* inf, +inf, -inf, infinity */
static bool is_infinite(const uint8_t *text, size_t n, double *out) {
    const size_t sign = n > 0 && (*text == '-' || *text == '+');
    *out = sign && *text == '-' ? -(double)INFINITY : (double)INFINITY;
    return is_word(text + sign, n - sign, "inf") || is_word(text + sign, n - sign, "infinity");
}

/* Writes the number in text[n], which has no doubled marks. The byte after it can be read. */
static iter_status put_number(const csv_row *r, const uint8_t *text, size_t n, uint8_t *out,
                              iter_error *err) {
    const uint8_t *after = NULL;
    double value;
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        n--;
    for (; n > 0 && (*text == ' ' || *text == '\t'); n--)
        text++;
    if (is_missing(text, n)) {
        if (r->part->missing == ITER_CSV_ERROR)
            return fail_column(r, err, "has no value (missing= says what to put there)",
                               n ? text : NULL, n);
        memcpy(out, r->part->fill, r->width);
        return ITER_OK;
    }
    if ((r->dtype == ITER_F32 || r->dtype == ITER_F64) && is_infinite(text, n, &value)) {
        iter__number_put(value, r->dtype, out);
        return ITER_OK;
    }
    if (n > ITER_NUMBER_TEXT_MAX)
        return fail_column(r, err, "too long for a number, it begins with", text, n);
    const iter__number answer = iter__number_read(text, r->end, r->c, r->dtype, out, &after);
    if (answer == ITER_NUMBER_OK && after == text + n) return ITER_OK;
    return fail_number(r, err, answer == ITER_NUMBER_RANGE ? answer : ITER_NUMBER_NONE, text, n);
}

/* Reads a column of any kind. Returns the byte after it in *out_after. */
static iter_status read_column(const csv_row *r, const uint8_t *p, const uint8_t **out_after,
                               iter_error *err) {
    iter__csv_cell cell;
    const char *fault = iter__csv_cell_read(p, r->end, r->rule->delimiter, r->rule->quotes, &cell);
    if (fault) return fail_column(r, err, fault, NULL, 0);
    *out_after = cell.after;
    const int32_t place = r->part->places[r->column];
    if (place < 0) return ITER_OK;
    return put_number(r, cell.text, cell.n, r->out + (size_t)place * r->width, err);
}

/* Reads the number of a column that has nothing else; false if it has something else. */
static inline bool read_plain(const csv_row *r, const uint8_t *p, int32_t place,
                              const uint8_t **out_after) {
    uint8_t *out = r->out + (size_t)place * r->width;
    const iter__number answer = iter__number_read(p, r->end, r->c, r->dtype, out, out_after);
    if (answer != ITER_NUMBER_OK) return false;
    return **out_after == (uint8_t)r->rule->delimiter || **out_after == '\n';
}

#ifdef __SSE2__
/* The bits that are set in 16. Processors without an instruction for it must run this, too. */
static int32_t count_bits(uint32_t x) {
    x -= x >> 1 & 0x5555;
    x = (x & 0x3333) + (x >> 2 & 0x3333);
    x = (x + (x >> 4)) & 0x0f0f;
    return (int32_t)((x + (x >> 8)) & 0x1f);
}
#endif

/* Moves past up to n columns that have no marks, and their delimiters; returns how many. */
static int32_t skip_plain(const csv_row *r, const uint8_t **p, int32_t n) {
    const uint8_t delimiter = (uint8_t)r->rule->delimiter;
    const uint8_t *q = *p;
    int32_t skipped = 0;
#ifdef __SSE2__
    const __m128i commas = _mm_set1_epi8((char)delimiter), marks = _mm_set1_epi8('"');
    const __m128i feeds = _mm_set1_epi8('\n');
    for (; r->end - q >= 16; q += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)q);
        const __m128i other = _mm_or_si128(_mm_cmpeq_epi8(x, marks), _mm_cmpeq_epi8(x, feeds));
        const uint32_t found = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(x, commas));
        const int32_t n_found = count_bits(found);
        if (_mm_movemask_epi8(other) || skipped + n_found >= n) break;
        if (!found) continue;
        skipped += n_found;
        *p = q + 32 - __builtin_clz(found);
    }
#endif
    for (; skipped < n && *q != '\n' && *q != '"'; q++) {
        if (*q != delimiter) continue;
        *p = q + 1;
        skipped++;
    }
    return skipped;
}

static iter_status read_row(csv_row *r, const uint8_t *p, bool all, iter_error *err) {
    const iter__csv_rule *rule = r->rule;
    const iter__csv_part *part = r->part;
    bool ended = false;
    for (;;) {
        if (r->column == rule->n_columns)
            return iter__fail(err, ITER_EFORMAT, "has more than %d columns", rule->n_columns);
        const uint8_t *after = NULL;
        const int32_t before = r->column;
        const int32_t place = part->places[before], run = part->runs[before];
        if (place < 0) {
            r->column += skip_plain(r, &p, run);
        } else if (r->dtype == ITER_F32) {
            r->column += iter__number_row_f32(p, r->end, r->c, rule->delimiter,
                                              r->out + (size_t)place * r->width, run, &p, &ended);
        } else if (read_plain(r, p, place, &after)) {
            r->column++;
            p = after;
            ended = *p == '\n';
            p += !ended;
        }
        if (ended) break;
        if (!all && r->column > part->last) return ITER_OK;
        if (r->column > before) continue;
        ITER_TRY(read_column(r, p, &after, err));
        r->column++;
        p = after;
        if (iter__csv_ends(p, r->end)) break;
        p++;
        if (!all && r->column > part->last) return ITER_OK;
    }
    const int32_t needed = all ? rule->n_columns : part->last + 1;
    if (r->column >= needed) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT, "has %d columns, expected %d", r->column, rule->n_columns);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static iter_status csv_start(void *state, const void *shared, iter_error *err) {
    const iter__csv_rule *rule = shared;
    return iter__row_text_start(state, rule->max_bytes, rule->room, err);
}

static void csv_stop(void *state) {
    iter__row_text_stop(state);
}

static iter_status decode(iter__row_text *text, const iter__csv_rule *rule,
                          const iter__csv_part *part, bool all, const uint8_t *bytes, size_t size,
                          iter_tensor *out, iter_error *err) {
    ITER_TRY(iter__row_text_get(text, bytes, size, rule->quotes, &bytes, &size, err));
    csv_row row = {.rule = rule,
                   .part = part,
                   .c = text->c,
                   .end = bytes + size,
                   .dtype = out->desc.dtype,
                   .width = iter_dtype_bytes(out->desc.dtype),
                   .out = out->data};
    return read_row(&row, bytes, all, err);
}

static iter_status data_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_tensor *out, iter_error *err) {
    const iter__csv_rule *rule = shared;
    return decode(state, rule, &rule->data, true, bytes, size, out, err);
}

static iter_status label_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                iter_tensor *out, iter_error *err) {
    const iter__csv_rule *rule = shared;
    return decode(state, rule, &rule->label, false, bytes, size, out, err);
}

const iter_decoder_ops iter__decoder_csv_data = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "csv",
             .help = "columns of a row to numbers",
             .state_size = sizeof(iter__row_text)},
    .start = csv_start,
    .stop = csv_stop,
    .decode = data_decode,
};

const iter_decoder_ops iter__decoder_csv_label = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "csv-label",
             .help = "the labels' columns of a row to numbers",
             .state_size = sizeof(iter__row_text)},
    .start = csv_start,
    .stop = csv_stop,
    .decode = label_decode,
};
