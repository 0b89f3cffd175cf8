/*
 * csv_columns.h - one row of a table: its columns, and which of them are wanted.
 *
 * Columns are separated by one byte. A column that begins with a quotation mark ends with one, may
 * hold separators and line ends, and has each mark in it twice (RFC 4180).
 */
#ifndef ITER_LOADERS_TABLES_CSV_COLUMNS_H
#define ITER_LOADERS_TABLES_CSV_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

#define ITER_CSV_COLUMNS_MAX (1 << 20)

/* One column of a row. */
typedef struct iter__csv_cell {
    const uint8_t *text; /* between the marks if it has them */
    size_t n;
    bool quoted;          /* text may have doubled marks */
    const uint8_t *after; /* the separator, the line's end (\r\n or \n), or `end` */
} iter__csv_cell;

/* Reads the column at p. Returns NULL, or what is wrong with it. */
const char *iter__csv_cell_read(const uint8_t *p, const uint8_t *end, char delimiter, bool quotes,
                                iter__csv_cell *out);

/* Whether a row ends at p. */
static inline bool iter__csv_ends(const uint8_t *p, const uint8_t *end) {
    return p == end || *p == '\n' || (*p == '\r' && p + 1 < end && p[1] == '\n') ||
           (*p == '\r' && p + 1 == end);
}

/* The columns of a table, by name if it has a header. */
typedef struct iter__csv_header {
    char **names; /* [n], "" if there is no header */
    int32_t n;
    bool named;
    bool numeric; /* some column of the row is a number */
} iter__csv_header;

/* Takes names and number of columns from a row, which ends at a line feed at row[n]. `path` is for
 * messages. Errors: EFORMAT, ENOMEM. It must be freed after an error, too. */
iter_status iter__csv_header_read(iter__csv_header *out, const char *path, const char *row,
                                  size_t n, char delimiter, bool quotes, iter_error *err);
void iter__csv_header_free(iter__csv_header *header);

/* Reads "a;b;3;5-9" into out[header->n] columns, from 0: names of the header, else numbers and
 * ranges that count from 1. Columns come as listed, each at most once. `option` is for messages.
 * Errors: EINVAL. */
iter_status iter__csv_columns_parse(const iter__csv_header *header, const char *path,
                                    const char *option, const char *text, int32_t *out,
                                    int32_t *out_n, iter_error *err);

#endif
