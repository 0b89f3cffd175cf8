/* record_index.h - where the records of a RecordIO file begin. */
#ifndef ITER_LOADERS_RECORD_INDEX_H
#define ITER_LOADERS_RECORD_INDEX_H

#include "loaders/span_set.h"

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
