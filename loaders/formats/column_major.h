/* column_major.h - arrays whose first axis runs fastest in their file (Fortran order). */
#ifndef ITER_LOADERS_FORMATS_COLUMN_MAJOR_H
#define ITER_LOADERS_FORMATS_COLUMN_MAJOR_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

typedef struct iter__column_major {
    const char *path;
    uint64_t offset;      /* of the first element in the file */
    const uint64_t *dims; /* [n_dims]; dims[0] counts the rows */
    int32_t n_dims;
    size_t width; /* bytes of an element: 1, 2, 4 or 8 */
} iter__column_major;

/*
 * Reads the whole array into new memory, row after row in C order.
 *
 *   out  iter__map() of all elements; the caller frees it with iter__unmap(). NULL on errors.
 *
 * Errors  EIO (the file cannot be read, or has become shorter), ENOMEM. Cost    one pass over the
 * file, and 1 MiB beside the array.
 */
iter_status iter__column_major_load(const iter__column_major *array, void **out, iter_error *err);

#endif
