/*
 * source_files.h - the files of a source and plain reads from them, in the calling thread.
 *
 * If there are few files, they stay open. If there are many (more than ITER_SOURCE_OPEN_MAX, or
 * than the process may open), each read opens and closes its file. If a file cannot be opened, its
 * reads fail, not the source: on_error decides what a lost sample means.
 */
#ifndef ITER_LOADERS_SOURCES_SOURCE_FILES_H
#define ITER_LOADERS_SOURCES_SOURCE_FILES_H

#include "loaders/sources/source_step.h"

#define ITER_SOURCE_OPEN_MAX 256

/* The largest piece that goes through a bounce buffer at once. */
#define ITER_SOURCE_BOUNCE_BYTES (128u << 10)

typedef struct iter__source_files {
    const iter_file *files; /* borrowed */
    uint64_t n_files;
    /* [n_files], -errno for files that could not be opened; NULL = opened for each read */
    int32_t *fds;
    int32_t open_flags;
    iter__blocks blocks; /* zero unless O_DIRECT is in open_flags */
} iter__source_files;

/* Opens the files that stay open. `fallback`[capacity] gets "" or a sentence. Errors: ENOMEM. */
iter_status iter__source_files_open(iter__source_files *files, const iter_source_config *config,
                                    char *fallback, size_t capacity, iter_error *err);
void iter__source_files_close(iter__source_files *files);

/* iter_source_ops.read and .try_read. Any number of threads. */
iter_status iter__source_files_read(const iter__source_files *files, iter_read *read);
iter_status iter__source_files_try_read(const iter__source_files *files, iter_read *read);

#endif
