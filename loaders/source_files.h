/*
 * source_files.h - the files of a source and plain reads from them, in the calling thread.
 *
 * Few files stay open; many (more than ITER_SOURCE_OPEN_MAX, or than the process may open) are
 * opened, read and closed one by one. A file that cannot be opened fails the reads that want it,
 * not the source: what a lost sample means is for others to decide.
 */
#ifndef LOADERS_SOURCE_FILES_H
#define LOADERS_SOURCE_FILES_H

#include "loaders/source_step.h"

#define ITER_SOURCE_OPEN_MAX 256

/* The largest piece that goes through a bounce buffer at once. */
#define ITER_SOURCE_BOUNCE_BYTES (128u << 10)

typedef struct iter__source_files {
    const iter_file *files; /* borrowed */
    uint64_t n_files;
    /* [n_files], -errno where a file could not be opened; NULL = opened as they are read */
    int32_t *fds;
    int32_t open_flags;
    iter__blocks blocks; /* zero unless O_DIRECT is in open_flags */
} iter__source_files;

/* Opens what is kept open. `fallback`[capacity] gets "" or a sentence. Errors: ENOMEM. */
iter_status iter__source_files_open(iter__source_files *files, const iter_source_config *config,
                                    char *fallback, size_t capacity, iter_error *err);
void iter__source_files_close(iter__source_files *files);

/* iter_source_ops.read and .try_read. Any number of threads. */
iter_status iter__source_files_read(const iter__source_files *files, iter_read *read);
iter_status iter__source_files_try_read(const iter__source_files *files, iter_read *read);

#endif
