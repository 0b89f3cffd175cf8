/*
 * npy_header.h - the header of a .npy file: what its elements are, and where they begin.
 *
 * A .npy file is a magic, a version, the length of the header, and the header: a Python dictionary
 * as text with exactly the keys descr, fortran_order and shape; then the elements.
 *
 * Source: numpy/lib/format.py (versions 1.0, 2.0 and 3.0).
 */
#ifndef ITER_LOADERS_FORMATS_NPY_HEADER_H
#define ITER_LOADERS_FORMATS_NPY_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include <iter/tensor.h>

#define ITER_NPY_MAGIC       "\x93NUMPY"
#define ITER_NPY_MAGIC_BYTES 6u

typedef struct iter__npy_header {
    const char *path; /* borrowed */
    iter_dtype dtype;
    int32_t n_dims; /* at least 1 */
    uint64_t dims[ITER_MAX_DIMS];
    uint64_t header_bytes; /* the elements begin here, and end with the file */
    uint64_t row_bytes;    /* of all dimensions but the first */
    uint64_t file_bytes;
    bool swapped; /* elements have the other byte order */
    bool fortran;
} iter__npy_header;

/* Reads and checks the header of a file, whose size must be what the shape says. Errors: EIO,
 * EFORMAT, EUNSUPPORTED (structured arrays, objects, gzip), ENOMEM; messages begin with the
 * path. */
iter_status iter__npy_header_read(const char *path, iter__npy_header *out, iter_error *err);

#endif
