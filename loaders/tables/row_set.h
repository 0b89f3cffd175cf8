/*
 * row_set.h - samples that are rows of text files: where each begins, and the lines they are on.
 *
 * Opening reads each file once, or takes the result from its index cache. An index costs 8 bytes a
 * row and 16 a MiB.
 */
#ifndef ITER_LOADERS_TABLES_ROW_SET_H
#define ITER_LOADERS_TABLES_ROW_SET_H

#include <stdbool.h>

#include "loaders/formats/span_set.h"

#define ITER_ROW_BYTES_MAX ((uint64_t)1 << 20) /* of a row, unless an option says otherwise */

#define ITER_ROW_MAX_ROW \
    "bytes of a row; a longer one is a failed sample, and ends a quoted field that never does"

typedef struct iter__row_rule {
    bool quotes;        /* a row may have line feeds in quoted fields */
    bool keep_blank;    /* a line of nothing is a row */
    uint8_t comment;    /* a line that begins with this byte is no row; 0 = none */
    uint64_t n_skipped; /* rows at each file's beginning that are no samples */
    uint64_t max_bytes; /* of a row */
} iter__row_rule;

/* The number of lines before a place. */
typedef struct iter__row_mark {
    uint64_t offset, n_lines;
} iter__row_mark;

typedef struct iter__row_set {
    iter__span_set spans;
    iter__row_rule rule;
    iter__row_mark *marks; /* by file, ascending */
    uint64_t n_marks, marks_capacity;
    uint64_t *first_mark; /* [files + 1] */
} iter__row_set;

/* Expands `path` and checks each file, but reads none. Errors: as iter__span_set_open(). After an
 * error, here and below, the set must be freed, too. */
iter_status iter__row_set_open(iter__row_set *set, const char *path, const char *ending,
                               iter_error *err);

/* The first row of file f that is neither blank nor a comment, without its end, and a line feed
 * after it, in *out (iter__free); *out_n without the line feed. *out_n = 0: it has none. Errors:
 * EIO, EFORMAT (UTF-16; the row is longer than rule->max_bytes), ENOMEM. */
iter_status iter__row_set_head(const iter__row_set *set, uint64_t f, const iter__row_rule *rule,
                               char **out, size_t *out_n, iter_error *err);

/* Finds the rows of all files. Errors: EIO, EFORMAT (UTF-16; no rows), ENOMEM. `index_cache` is
 * the option, `kind` names what is kept (index_cache.h). */
iter_status iter__row_set_scan(iter__row_set *set, const iter__row_rule *rule, int32_t index_cache,
                               uint32_t kind, iter_error *err);

/* The row's extent, at most max_bytes + 2 of it: so a decoder sees which rows are longer than
 * max_bytes and a line's end. */
iter_extent iter__row_set_locate(const iter__row_set *set, uint64_t index);

/* The most bytes of such an extent, at least 1. */
uint64_t iter__row_set_largest(const iter__row_set *set);

/* Writes "line N", counting from 1. If the index came from a cache, the file is read up to the row,
 * at most 64 MiB of it; beyond that it writes "byte N". */
void iter__row_set_place(const iter__row_set *set, uint64_t index, char *out, size_t capacity);

/* Fills what the set knows of a format whose samples are its rows. */
void iter__row_set_describe(const iter__row_set *set, iter_description *out);

void iter__row_set_free(iter__row_set *set);

#endif
