/* file_set.h - many files by name and size: 25 bytes each beside the name itself. */
#ifndef ITER_LOADERS_FILES_FILE_SET_H
#define ITER_LOADERS_FILES_FILE_SET_H

#include <iter/ops.h>

#include "loaders/files/file.h"

typedef struct iter__text_block iter__text_block;

typedef struct iter__file_set {
    iter_file *files;
    uint64_t n, capacity;
    uint64_t largest;         /* bytes */
    uint64_t n_unseen;        /* of the n; 0 but between the two calls that look */
    uint64_t n_missing;       /* of the n; includes those that are no regular files */
    iter__text_block *blocks; /* the names */
} iter__file_set;

/* A copy of "folder/name" that lives as long as the set; of `name` alone if it is absolute or
 * `folder` is "". NULL without memory. */
char *iter__file_set_text(iter__file_set *set, const char *folder, const char *name);

/* Appends a file; `path` is from iter__file_set_text(). Errors: ENOMEM. */
iter_status iter__file_set_add(iter__file_set *set, const char *path, uint64_t bytes,
                               iter_error *err);

/* Appends the file at `path` as it was found. If it is missing or not a regular file, it gets one
 * byte: its read fails and says why. Errors: ENOMEM. */
iter_status iter__file_set_add_found(iter__file_set *set, const char *path,
                                     const iter__entry *found, iter_error *err);

/* Appends a file that iter__file_set_look() looks at. Errors: ENOMEM. */
iter_status iter__file_set_add_unseen(iter__file_set *set, const char *path, iter_error *err);

/* Looks at all files that were added so, URLs many at a time, as iter__file_set_add_found() has it.
 * Errors: ENOMEM. */
iter_status iter__file_set_look(iter__file_set *set, iter_error *err);

/* Fails with EIO if every file is missing. The message has `of`, which names them, the first one,
 * the reason, and then `said`. */
iter_status iter__file_set_check(const iter__file_set *set, const char *of, const char *said,
                                 iter_error *err);

/* Sorts files [first, n) by the bytes of their folders' paths, and those of one folder by the bytes
 * of their names. */
void iter__file_set_sort(iter__file_set *set, uint64_t first);

/* Bytes held: names, sizes. */
uint64_t iter__file_set_bytes(const iter__file_set *set);

void iter__file_set_free(iter__file_set *set);

#endif
