/*
 * csv_columns.c - see csv_columns.h.
 *
 * Source: RFC 4180, section 2. Beyond it: a row may also end with a line feed alone.
 */
#include "loaders/tables/csv_columns.h"

#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "loaders/tables/number_text.h"

/* ---- Cells ----------------------------------------------------------------------------------- */

static const char *read_quoted(const uint8_t *p, const uint8_t *end, char delimiter,
                               iter__csv_cell *out) {
    out->text = ++p;
    out->quoted = true;
    for (;; p++) {
        p = memchr(p, '"', (size_t)(end - p));
        if (!p) return "the quotation mark at its start is never closed";
        if (p + 1 < end && p[1] == '"') {
            p++;
            continue;
        }
        break;
    }
    out->n = (size_t)(p - out->text);
    out->after = ++p;
    if (p < end && *p != (uint8_t)delimiter && !iter__csv_ends(p, end))
        return "text comes after its closing quotation mark";
    return NULL;
}

const char *iter__csv_cell_read(const uint8_t *p, const uint8_t *end, char delimiter, bool quotes,
                                iter__csv_cell *out) {
    if (quotes && p < end && *p == '"') return read_quoted(p, end, delimiter, out);
    const uint8_t *q = p;
    bool marks = false;
    for (; q < end && *q != (uint8_t)delimiter && *q != '\n'; q++)
        marks |= *q == '"';
    if (q > p && q[-1] == '\r' && (q == end || *q == '\n')) q--;
    *out = (iter__csv_cell){.text = p, .n = (size_t)(q - p), .after = q};
    return quotes && marks
               ? "a quotation mark inside a column that does not begin with one (if marks "
                 "mean nothing in this file: quotes=no)"
               : NULL;
}

/* ---- The header ------------------------------------------------------------------------------ */

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* The text of a cell, without doubled marks and blanks around it (iter__free). NULL without memory.
 * */
static char *text_of(const iter__csv_cell *cell) {
    char *out = iter__alloc(cell->n + 1, 1);
    size_t n = 0, first = 0;
    if (!out) return NULL;
    for (size_t i = 0; i < cell->n; i++) {
        if (cell->quoted && cell->text[i] == '"') i++;
        out[n++] = (char)cell->text[i];
    }
    while (n > 0 && is_blank(out[n - 1]))
        n--;
    while (first < n && is_blank(out[first]))
        first++;
    memmove(out, out + first, n - first);
    out[n - first] = '\0';
    return out;
}

static bool is_number(const char *text) {
    const uint8_t *p = (const uint8_t *)text, *end = p + strlen(text) + 1, *after = NULL;
    double value;
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return false;
    const iter__number answer = iter__number_f64(p, end, c, &value, &after);
    freelocale(c);
    return answer != ITER_NUMBER_NONE && *after == '\0';
}

/* Adds the name in `cell`. */
static iter_status add_name(iter__csv_header *header, int32_t *capacity, const char *path,
                            const iter__csv_cell *cell, iter_error *err) {
    if (header->n == ITER_CSV_COLUMNS_MAX)
        return iter__fail(err, ITER_EFORMAT, "%s: line 1: more than %d columns", path,
                          ITER_CSV_COLUMNS_MAX);
    if (header->n == *capacity) {
        const int32_t more = *capacity ? 2 * *capacity : 64;
        char **names = iter__realloc(header->names, (size_t)more * sizeof(*names));
        if (!names) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its columns", path);
        header->names = names;
        *capacity = more;
    }
    char *name = text_of(cell);
    if (!name) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its columns", path);
    header->names[header->n++] = name;
    header->numeric |= is_number(name);
    return ITER_OK;
}

iter_status iter__csv_header_read(iter__csv_header *out, const char *path, const char *row,
                                  size_t n, char delimiter, bool quotes, iter_error *err) {
    const uint8_t *p = (const uint8_t *)row, *end = p + n;
    int32_t capacity = 0;
    *out = (iter__csv_header){0};
    for (;; p++) {
        iter__csv_cell cell;
        const char *fault = iter__csv_cell_read(p, end, delimiter, quotes, &cell);
        if (fault)
            return iter__fail(err, ITER_EFORMAT, "%s: its first row, column %d: %s", path,
                              out->n + 1, fault);
        ITER_TRY(add_name(out, &capacity, path, &cell, err));
        p = cell.after;
        if (iter__csv_ends(p, end)) return ITER_OK;
    }
}

void iter__csv_header_free(iter__csv_header *header) {
    for (int32_t i = 0; i < header->n; i++)
        iter__free(header->names[i]);
    iter__free(header->names);
    *header = (iter__csv_header){0};
}

/* ---- Which columns --------------------------------------------------------------------------- */

static int32_t find_name(const iter__csv_header *header, const char *text, size_t n) {
    for (int32_t i = 0; header->named && i < header->n; i++)
        if (strlen(header->names[i]) == n && memcmp(header->names[i], text, n) == 0) return i;
    return -1;
}

/* The number in text[n], from 1; 0 if it is none. */
static int32_t number_in(const char *text, size_t n) {
    int32_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || value > ITER_CSV_COLUMNS_MAX) return 0;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* The columns that one part of a list means: *out_first to *out_last, from 0. */
static bool find_columns(const iter__csv_header *header, const char *text, size_t n,
                         int32_t *out_first, int32_t *out_last) {
    const char *dash = memchr(text, '-', n);
    int32_t first = find_name(header, text, n), last = first;
    if (first < 0 && !dash) first = last = number_in(text, n) - 1;
    if (first < 0 && dash) {
        first = number_in(text, (size_t)(dash - text)) - 1;
        last = number_in(dash + 1, n - (size_t)(dash - text) - 1) - 1;
    }
    *out_first = first;
    *out_last = last;
    return first >= 0 && first <= last && last < header->n;
}

iter_status iter__csv_columns_parse(const iter__csv_header *header, const char *path,
                                    const char *option, const char *text, int32_t *out,
                                    int32_t *out_n, iter_error *err) {
    *out_n = 0;
    for (;; text++) {
        int32_t first = 0, last = 0;
        const char *end = text + strcspn(text, ";");
        if (!find_columns(header, text, (size_t)(end - text), &first, &last))
            return iter__fail(err, ITER_EINVAL, "%s=: %s has no column '%.*s'%s (%d columns%s)",
                              option, path, (int)(end - text), text,
                              header->named ? "" : "; it has no header, so columns have numbers",
                              header->n, header->named ? "; numbers count from 1" : ", from 1");
        for (int32_t column = first; column <= last; column++) {
            for (int32_t i = 0; i < *out_n; i++)
                if (out[i] == column)
                    return iter__fail(err, ITER_EINVAL, "%s=: column %d is listed twice", option,
                                      column + 1);
            out[(*out_n)++] = column;
        }
        text = end;
        if (!*text) return ITER_OK;
    }
}
