/* record_index.h - where the records of a RecordIO file begin. */
#ifndef ITER_LOADERS_RECORD_INDEX_H
#define ITER_LOADERS_RECORD_INDEX_H

#include <stdbool.h>

#include "loaders/span_set.h"
#include "loaders/window.h"

/* The text of an .idx file, line by line: "key TAB offset". */
typedef struct iter__idx_text {
    const char *p, *end; /* what is left */
    const char *path;    /* borrowed */
    uint64_t line;       /* number of the line read last, from 1 */
} iter__idx_text;

typedef struct iter__idx_line {
    const char *key; /* [n_key], whatever it is */
    size_t n_key;
    uint64_t offset;
    bool ended; /* false: the text ends within the line, or right behind it */
} iter__idx_line;

void iter__idx_open(iter__idx_text *text, const char *path, const char *bytes, size_t n);
/* The next line that is not empty; ITER_END behind the last. Errors: EFORMAT (file, line, reason). */
iter_status iter__idx_next(iter__idx_text *text, iter__idx_line *out, iter_error *err);

/* The record at *at, by the heads of its pieces; *at goes behind it. ITER_END at the file's end.
 * Errors: EIO, EFORMAT (file, offset, reason). */
iter_status iter__record_walk(iter__window *window, uint64_t *at, uint64_t *out_offset,
                              iter_error *err);

/* Adds the records of the set's next file, as the .idx file lists them ("key TAB offset" a line;
 * keys do not count, offsets may come in any order). Errors: EIO, EFORMAT (file, line, reason),
 * ENOMEM. */
iter_status iter__record_index_load(iter__span_set *set, const char *idx, iter_error *err);

/* Before what err says of a place in the .rec `path` that an .idx named: EFORMAT need not be the
 * .rec's fault. Returns `status`. */
iter_status iter__record_index_doubt(const char *idx, const char *path, iter_status status,
                                     iter_error *err);

/* Adds the records of the set's next file by walking from head to head. Errors: EIO, EFORMAT (file,
 * offset, reason), ENOMEM. */
iter_status iter__record_index_scan(iter__span_set *set, iter_error *err);

/* Writes the records of the set's last file as an .idx file with keys from 0: under another name,
 * synced, then renamed. Errors: EIO, ENOMEM. */
iter_status iter__record_index_save(const iter__span_set *set, const char *idx, iter_error *err);

#endif
