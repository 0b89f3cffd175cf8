/* decode_csv.h - one row of a table to the numbers in some of its columns. */
#ifndef ITER_LOADERS_TABLES_DECODE_CSV_H
#define ITER_LOADERS_TABLES_DECODE_CSV_H

#include <stdbool.h>

#include <iter/ops.h>

/* What a missing value becomes: an empty column, or NA, N/A, nan or null in any case. */
typedef enum iter__csv_missing { ITER_CSV_ERROR, ITER_CSV_VALUE } iter__csv_missing;

/* The columns of one field. */
typedef struct iter__csv_part {
    int32_t *places; /* [n_columns]: where in the row the column's number goes, -1 = nowhere */
    /* [n_columns]: columns from here on that all go nowhere, or to places in a row */
    int32_t *runs;
    int32_t last; /* the last column that is wanted */
    iter__csv_missing missing;
    uint8_t fill[8]; /* one element, for missing = VALUE */
} iter__csv_part;

/* The description's `shared`. */
typedef struct iter__csv_rule {
    char delimiter;
    bool quotes;
    uint64_t max_bytes; /* of a row */
    uint64_t room;      /* bytes of the largest extent */
    int32_t n_columns;
    char *const *names; /* [n_columns], for messages; NULL = no header */
    iter__csv_part data, label;
} iter__csv_rule;

/* Rows of f32, f64 or any integer type. `data` also checks how many columns the row has. */
extern const iter_decoder_ops iter__decoder_csv_data, iter__decoder_csv_label;

#endif
