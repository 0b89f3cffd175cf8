/*
 * span_set.h - samples that follow each other in a few large files: where each begins.
 *
 * A sample's extent goes from its beginning to the next one's, or to the end of its file's last. So
 * the set costs 8 bytes a sample and 8 a file.
 */
#ifndef ITER_LOADERS_FORMATS_SPAN_SET_H
#define ITER_LOADERS_FORMATS_SPAN_SET_H

#include <iter/ops.h>

#include "loaders/files/paths.h"

typedef struct iter__span_set {
    iter__paths paths;
    iter_file *files;  /* [paths.n] */
    uint64_t *first;   /* [paths.n + 1]: for each file, the index of its first sample */
    uint64_t n_done;   /* files that were ended */
    uint64_t *offsets; /* of samples, ascending within a file, each file's followed by its end */
    uint64_t n, capacity;
    uint64_t largest; /* bytes of a sample */
} iter__span_set;

/* Expands `path` (paths.h) and checks each file. Errors: EIO, EINVAL, ENOMEM; the set must be freed
 * after an error, too. */
iter_status iter__span_set_open(iter__span_set *set, const char *path, const char *ending,
                                iter_error *err);

/* Reserves room for n more offsets. Errors: ENOMEM. */
iter_status iter__span_set_reserve(iter__span_set *set, uint64_t n, iter_error *err);

/* Adds a sample that begins here, in the current file. Errors: ENOMEM. */
iter_status iter__span_set_add(iter__span_set *set, uint64_t offset, iter_error *err);

/* Ends the current file, whose last sample ends here; the next file follows. Errors: ENOMEM. */
iter_status iter__span_set_end(iter__span_set *set, uint64_t end, iter_error *err);

/* Adds the samples of the set's next file, files[n_done], and ends it. `f` is its number in the
 * whole set; `set` is that, or a part of it with one file. */
typedef iter_status iter__span_set_fill(void *user, iter__span_set *set, uint64_t f,
                                        iter_error *err);

/* Calls `fill` for each file: in their order and with the set itself, or, if they are URLs, for
 * some at a time and in any order, each with a set of its own. The result and the error are the
 * same. Errors: those of fill(), ENOMEM. */
iter_status iter__span_set_fill_all(iter__span_set *set, iter__span_set_fill *fill, void *user,
                                    iter_error *err);

/* Frees the room that was reserved and not used; call it after the last file. */
void iter__span_set_trim(iter__span_set *set);

/* Samples in all files that were ended. */
uint64_t iter__span_set_count(const iter__span_set *set);

iter_extent iter__span_set_locate(const iter__span_set *set, uint64_t index);

/* A hash of the files' names and sizes, continued from `hash`. */
uint64_t iter__span_set_identity(const iter__span_set *set, uint64_t hash);

/* Fills what the set knows of a format whose samples are its spans, each in one extent. */
void iter__span_set_describe(const iter__span_set *set, iter_description *out);

void iter__span_set_free(iter__span_set *set);

#endif
