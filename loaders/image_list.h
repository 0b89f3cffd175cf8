/* image_list.h - lists of files with labels: .lst, .csv and .txt. */
#ifndef ITER_LOADERS_IMAGE_LIST_H
#define ITER_LOADERS_IMAGE_LIST_H

#include <stdbool.h>

#include "loaders/file_set.h"

typedef struct iter__list_options {
    const char *root;          /* what names are relative to; NULL = the list's folder */
    const char *path_column;   /* .csv: name or number (from 1) of a column; NULL = found out */
    const char *label_columns; /* .csv: the same, several between ';' */
    int64_t label_width;       /* 0 = as many as the first line has */
    bool label_names;          /* labels are names of classes, whatever they look like */
    /* For programs that write lists and records: the text is an .lst, whatever it is called; ids are
     * kept, labels must be numbers, and no file is looked at (each has 0 bytes). */
    bool items;
} iter__list_options;

/*
 * Samples in the order of the list.
 *
 * Labels are numbers if every label is one: i32 if all are integers that fit, else f32. They are
 * names of classes, numbered in the order of their bytes, if no label is a number, or if label_names
 * says so. Anything between is an error that names line and column: an empty label, a number among
 * names or the reverse, "nan", "1e400", "1_000" and the like.
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

/* Is this the name of a list? By its ending. */
bool iter__list_is_one(const char *path);

/* Does the name end with one of the endings, between ';' and in any case? */
bool iter__list_is_image(const char *name, const char *endings);

/*
 * Reads the list `path` and looks at every file in it. One that is missing, or no regular file, is a
 * sample whose read will fail.
 *
 *   .lst  id TAB label [TAB label ...] TAB file, as im2rec writes it
 *   .csv  RFC 4180; the first line names columns where none of it is the name of an image, by `endings`
 *   .txt  file [label ...], between blanks; labels are the numbers at the end of the line
 *
 * Errors: EIO (the list, or none of its files is there), EFORMAT (list, line, column of a label,
 * reason), EINVAL (options), ENOMEM. After an error, too, `out` is to be freed.
 */
iter_status iter__list_load(const char *path, const iter__list_options *options,
                            const char *endings, iter__list *out, iter_error *err);

void iter__list_free(iter__list *list);

#endif
