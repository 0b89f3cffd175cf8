/* get_rows.h - the rows that a dataset's get() and next() write, and the lengths beside them. */
#ifndef ITER_CORE_GET_ROWS_H
#define ITER_CORE_GET_ROWS_H

#include <iter/dataset.h>

/* What get() is given. The caller sees `rows` alone. */
typedef struct iter__get_rows {
    iter_tensor rows[ITER_MAX_FIELDS]; /* first: iter_rows_set_length() casts back */
    int32_t *lengths[ITER_MAX_FIELDS]; /* NULL = the field's rows have one length */
} iter__get_rows;

#endif
