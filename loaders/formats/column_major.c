/*
 * column_major.c - see column_major.h.
 *
 * In the file the values of one element of all rows are neighbours: a column. A row is scattered
 * over the whole file, so no row can be read alone, and the array is transposed once.
 *
 * Long columns are read in tiles: TILE neighbouring columns of the result, and as many rows as fit
 * into the buffer. Then each row gets TILE neighbouring elements. Short columns are read many at a
 * time, in the order of the file, because a read for each would cost more than the transposition.
 */
#include "loaders/formats/column_major.h"

#include <inttypes.h>
#include <string.h>

#include <iter/tensor.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "loaders/files/file.h"

#define BUFFER_BYTES ((size_t)1 << 20)
#define TILE         ((uint64_t)64)
#define SHORT_BYTES  ((uint64_t)4096)
#define PAD_BYTES    ((uint64_t)64) /* between a tile's columns: without it all share a cache set */

typedef struct job {
    const iter__column_major *array;
    iter__data_file file;
    uint64_t n_rows, n_columns;
    uint8_t *buffer; /* [BUFFER_BYTES] */
    uint8_t *rows;
    iter_error *err;
} job;

/* ---- static helpers -------------------------------------------------------------------------- */

/* The column of the file that holds the k-th element of a row in C order. */
static uint64_t column_of(const iter__column_major *array, uint64_t k) {
    uint64_t digits[ITER_MAX_DIMS], column = 0;
    for (int32_t d = array->n_dims - 1; d >= 1; d--) {
        digits[d] = k % array->dims[d];
        k /= array->dims[d];
    }
    for (int32_t d = array->n_dims - 1; d >= 1; d--)
        column = column * array->dims[d] + digits[d];
    return column;
}

/* The inverse of column_of(). */
static uint64_t element_of(const iter__column_major *array, uint64_t column) {
    uint64_t digits[ITER_MAX_DIMS], k = 0;
    for (int32_t d = 1; d < array->n_dims; d++) {
        digits[d] = column % array->dims[d];
        column /= array->dims[d];
    }
    for (int32_t d = 1; d < array->n_dims; d++)
        k = k * array->dims[d] + digits[d];
    return k;
}

/* Copies n elements that are `from_step` bytes apart to places that are `to_step` bytes apart. */
static void scatter(uint8_t *to, size_t to_step, const uint8_t *from, size_t from_step, uint64_t n,
                    size_t width) {
    switch (width) {
    case 1:
        for (uint64_t i = 0; i < n; i++)
            to[i * to_step] = from[i * from_step];
        break;
    case 2:
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + i * to_step, from + i * from_step, 2);
        break;
    case 4:
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + i * to_step, from + i * from_step, 4);
        break;
    default:
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + i * to_step, from + i * from_step, 8);
        break;
    }
}

/* Elements [first, first + n) of the file, in its own order. */
static iter_status read_elements(const job *j, uint64_t first, uint64_t n, uint8_t *to) {
    const iter__column_major *array = j->array;
    const size_t bytes = (size_t)(n * array->width);
    size_t done = 0;
    ITER_TRY(iter__file_read_at(&j->file, array->offset + first * array->width, to, bytes, &done,
                                j->err));
    if (done == bytes) return ITER_OK;
    return iter__fail(j->err, ITER_EIO, "%s: ends early, it shrank while it was read", array->path);
}

static iter_status load_short_columns(const job *j) {
    const size_t width = j->array->width, row_bytes = (size_t)j->n_columns * width;
    const size_t column_bytes = (size_t)j->n_rows * width;
    const uint64_t at_once = BUFFER_BYTES / column_bytes;
    for (uint64_t first = 0; first < j->n_columns; first += at_once) {
        const uint64_t n = iter__min_u64(j->n_columns - first, at_once);
        ITER_TRY(read_elements(j, first * j->n_rows, n * j->n_rows, j->buffer));
        for (uint64_t c = 0; c < n; c++)
            scatter(j->rows + element_of(j->array, first + c) * width, row_bytes,
                    j->buffer + c * column_bytes, width, j->n_rows, width);
    }
    return ITER_OK;
}

/* Elements [first_column, + n_columns) of rows [first_row, + n_rows). */
static iter_status load_tile(const job *j, uint64_t first_column, uint64_t n_columns,
                             uint64_t first_row, uint64_t n_rows) {
    const size_t width = j->array->width, row_bytes = (size_t)j->n_columns * width;
    const size_t step = (size_t)(n_rows * width + PAD_BYTES);
    for (uint64_t c = 0; c < n_columns; c++)
        ITER_TRY(read_elements(j, column_of(j->array, first_column + c) * j->n_rows + first_row,
                               n_rows, j->buffer + c * step));
    for (uint64_t r = 0; r < n_rows; r++)
        scatter(j->rows + (first_row + r) * row_bytes + first_column * width, width,
                j->buffer + r * width, step, n_columns, width);
    return ITER_OK;
}

static iter_status load_long_columns(const job *j) {
    const uint64_t at_once = (BUFFER_BYTES / TILE - PAD_BYTES) / j->array->width;
    for (uint64_t row = 0; row < j->n_rows; row += at_once) {
        const uint64_t rows = iter__min_u64(j->n_rows - row, at_once);
        for (uint64_t column = 0; column < j->n_columns; column += TILE)
            ITER_TRY(load_tile(j, column, iter__min_u64(j->n_columns - column, TILE), row, rows));
    }
    return ITER_OK;
}

/* ---- public functions ------------------------------------------------------------------------ */

iter_status iter__column_major_load(const iter__column_major *array, void **out, iter_error *err) {
    job j = {.array = array, .n_rows = array->dims[0], .n_columns = 1, .err = err};
    *out = NULL;
    for (int32_t d = 1; d < array->n_dims; d++)
        j.n_columns *= array->dims[d];
    const size_t bytes = (size_t)(j.n_rows * j.n_columns * array->width);
    ITER_TRY(iter__file_open(array->path, &j.file, err));
    j.buffer = iter__alloc(1, BUFFER_BYTES);
    j.rows = j.buffer ? iter__map(bytes) : NULL;
    iter_status status = ITER_OK;
    if (!j.rows)
        status =
            iter__fail(err, ITER_ENOMEM,
                       "%s: is in Fortran order, and no memory for its %zu bytes: its rows are "
                       "transposed when it is opened; numpy.ascontiguousarray(array) needs none",
                       array->path, bytes);
    else if (j.n_rows * array->width < SHORT_BYTES)
        status = load_short_columns(&j);
    else
        status = load_long_columns(&j);
    iter__free(j.buffer);
    iter__file_close(&j.file);
    if (status < 0 && j.rows) iter__unmap(j.rows, bytes);
    if (status == ITER_OK) *out = j.rows;
    return status;
}
