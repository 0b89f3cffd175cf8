/* paths.h - the files that one text names: shards by pattern, and the files of a folder. */
#ifndef ITER_LOADERS_FILES_PATHS_H
#define ITER_LOADERS_FILES_PATHS_H

#include <stdint.h>

#include <iter/status.h>

typedef struct iter__paths {
    char **names;
    uint64_t n, capacity;
} iter__paths;

/* Appends the files that `path` names, at least one. If a file has that name, it is that one. Else
 * "{a,b}" and "{000..012}" are expanded in the order written, and "*", "?" and "[...]" in each
 * result, sorted as bytes (without the library's own FILE.iteridx). A folder means its files that
 * end with `ending`, sorted. A name without a pattern is not checked: opening it fails later.
 * URLs are looked at, many at a time, so that a look at each has its answer then.
 * Errors: EIO (nothing matches; a folder that cannot be read), EINVAL (a range too large), ENOMEM.
 * `out` must be freed after an error, too. */
iter_status iter__paths_expand(const char *path, const char *ending, iter__paths *out,
                               iter_error *err);

/* Owns `name` from now on (NULL = there was no memory for it). Errors: ENOMEM, then `name` is
 * freed. */
iter_status iter__paths_add(iter__paths *paths, char *name, iter_error *err);

void iter__paths_free(iter__paths *paths);

#endif
