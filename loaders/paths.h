/* paths.h - the files that one text names: shards by pattern, and the files of a folder. */
#ifndef ITER_LOADERS_PATHS_H
#define ITER_LOADERS_PATHS_H

#include <stdint.h>

#include <iter/status.h>

typedef struct iter__paths {
    char **names;
    uint64_t n, capacity;
} iter__paths;

/* Appends what `path` names: the file itself, or, where nothing is called that, each of
 * "{a,b}" and "{000..012}" in the order written, with "*", "?" and "[...]" in each expanded and
 * sorted as bytes (but for the library's own FILE.iteridx). A folder stands for the files in it that end with `ending`, sorted. At least one.
 * Files that a pattern did not find are not looked for: who opens them says so.
 * Errors: EIO (nothing matches; a folder that cannot be read), EINVAL (a range too large), ENOMEM.
 * After an error, too, `out` is to be freed. */
iter_status iter__paths_expand(const char *path, const char *ending, iter__paths *out,
                               iter_error *err);

/* Takes `name` (NULL = there was no memory for it). Errors: ENOMEM, then `name` is freed. */
iter_status iter__paths_add(iter__paths *paths, char *name, iter_error *err);

void iter__paths_free(iter__paths *paths);

#endif
