/*
 * window.h - a file that is read in a few places: heads of records, far apart or close together.
 *
 * One read brings a page's worth, and bytes that it holds are not read again. So one read serves
 * many small records, and each large one needs its own.
 */
#ifndef ITER_LOADERS_FILES_WINDOW_H
#define ITER_LOADERS_FILES_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

#include "loaders/files/file.h"

#define ITER_WINDOW_BYTES 8192

typedef struct iter__window {
    iter__data_file file;
    uint64_t offset; /* of buffer[0] */
    size_t n;        /* bytes in the buffer */
    uint8_t *buffer; /* [ITER_WINDOW_BYTES] */
} iter__window;

/* Errors: EIO (missing, not a regular file, no permission), ENOMEM. After an error there is nothing
 * to close. */
iter_status iter__window_open(iter__window *window, const char *path, iter_error *err);
void iter__window_close(iter__window *window);

/* Up to n <= ITER_WINDOW_BYTES bytes at `offset`, fewer only at the file's end; valid until the
 * next call. Errors: EIO. */
iter_status iter__window_at(iter__window *window, uint64_t offset, size_t n, const uint8_t **out,
                            size_t *out_n, iter_error *err);

/* Reads exactly n bytes at `offset` into out. Errors: EIO, EFORMAT (the file ends before). */
iter_status iter__window_read(const iter__window *window, uint64_t offset, void *out, size_t n,
                              iter_error *err);

#endif
