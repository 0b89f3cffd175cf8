/* image_list.h - lists of files with labels: .lst, .csv and .txt. */
#ifndef ITER_LOADERS_FORMATS_IMAGE_LIST_H
#define ITER_LOADERS_FORMATS_IMAGE_LIST_H

#include <stdbool.h>

#include "loaders/files/file_set.h"

typedef struct iter__list_options {
    const char *root;          /* names are relative to it; NULL = the list's folder */
    const char *path_column;   /* .csv: name or number (from 1) of a column; NULL = found */
    const char *label_columns; /* .csv: the same, several between ';' */
    int64_t label_width;       /* 0 = as many as the first line has */
    bool label_names;          /* labels are names of classes, whatever they look like */
    /* For programs that write lists and records: the text is an .lst, whatever its name. Ids are
     * kept, labels must be numbers, and no file is looked up (each has 0 bytes). */
    bool items;
} iter__list_options;

/*
 * Samples in the order of the list.
 *
 * Labels are numbers if every label is one: i32 if all are integers that fit, else f32. They are
 * names of classes, numbered in the order of their bytes, if no label is a number, or if
 * label_names is set. Any mixture is an error that names line and column: an empty label, a number
 * among names or the reverse, "nan", "1e400", "1_000" and the like.
 */
typedef struct iter__list {
    iter__file_set files;
    int32_t label_width; /* 0 = no labels */
    iter_dtype dtype;    /* I32 or F32 */
    union {
        int32_t *i32;
        float *f32;
        void *memory;
    } labels; /* [files.n * label_width] */
    uint64_t capacity;
    const char **class_names; /* NULL = labels are numbers */
    int32_t n_classes;
    uint64_t *ids; /* items: [files.n], else NULL */
    uint64_t hash; /* items: FNV-1a of the list's bytes */
} iter__list;

/* Whether this is the name of a list, by its ending. */
bool iter__list_is_one(const char *path);

/* Whether the name ends with one of the endings, in any case; they are separated by ';'. */
bool iter__list_is_image(const char *name, const char *endings);

/*
 * Reads the list `path` and looks up every file in it. A file that is missing or not a regular file
 * is a sample whose read will fail.
 *
 *   .lst  id TAB label [TAB label ...] TAB file, as im2rec writes it
 *   .csv  RFC 4180; the first line names columns unless one of its cells is an image (`endings`)
 *   .txt  file [label ...], between blanks; labels are the numbers at the end of the line
 *
 * Errors: EIO (the list, or all of its files, are missing), EFORMAT (list, line, column of a label,
 * reason), EINVAL (options), ENOMEM. `out` must be freed after an error, too.
 */
iter_status iter__list_load(const char *path, const iter__list_options *options,
                            const char *endings, iter__list *out, iter_error *err);

void iter__list_free(iter__list *list);

#endif
