/* record_index.h - where the records of a RecordIO file begin. */
#ifndef ITER_LOADERS_FORMATS_RECORD_INDEX_H
#define ITER_LOADERS_FORMATS_RECORD_INDEX_H

#include <stdbool.h>

#include "loaders/files/window.h"
#include "loaders/formats/span_set.h"

/* The text of an .idx file, line by line: "key TAB offset". */
typedef struct iter__idx_text {
    const char *p, *end; /* the rest of the text */
    const char *path;    /* borrowed */
    uint64_t line;       /* number of the line read last, from 1 */
} iter__idx_text;

typedef struct iter__idx_line {
    const char *key; /* [n_key], whatever it is */
    size_t n_key;
    uint64_t offset;
    /* False if the text ends within the line, or right after it. */
    bool ended;
} iter__idx_line;

void iter__idx_open(iter__idx_text *text, const char *path, const char *bytes, size_t n);
/* The next line that is not empty; ITER_END after the last. Errors: EFORMAT (file, line,
 * reason). */
iter_status iter__idx_next(iter__idx_text *text, iter__idx_line *out, iter_error *err);

/* The record at *at, found by the heads of its pieces; *at moves past it. ITER_END at the file's
 * end. Errors: EIO, EFORMAT (file, offset, reason). */
iter_status iter__record_walk(iter__window *window, uint64_t *at, uint64_t *out_offset,
                              iter_error *err);

/* Adds the records of the set's next file, as the .idx file lists them ("key TAB offset" a line;
 * keys are ignored, offsets may come in any order). Errors: EIO, EFORMAT (file, line, reason),
 * ENOMEM. */
iter_status iter__record_index_load(iter__span_set *set, const char *idx, iter_error *err);

/* If `status` is EFORMAT, puts before err's message that an .idx named the place in the .rec
 * `path`: the .rec need not be at fault. Returns `status`. */
iter_status iter__record_index_doubt(const char *idx, const char *path, iter_status status,
                                     iter_error *err);

/* Adds the records of the set's next file by walking from head to head. Errors: EIO, EFORMAT (file,
 * offset, reason), ENOMEM. */
iter_status iter__record_index_scan(iter__span_set *set, iter_error *err);

/* Writes the records of the set's last file as an .idx file with keys from 0: under another name,
 * synced, then renamed. Errors: EIO, ENOMEM. */
iter_status iter__record_index_save(const iter__span_set *set, const char *idx, iter_error *err);

#endif
