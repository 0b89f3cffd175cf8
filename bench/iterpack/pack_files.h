/* pack_files.h - the files of a list, read by a few threads, handed out in the list's order. */
#ifndef BENCH_PACK_FILES_H
#define BENCH_PACK_FILES_H

#include "iterpack.h"

typedef struct pack_files pack_files;

typedef struct pack_file {
    uint8_t *bytes; /* valid until the next one is taken */
    size_t n;
    int os_error; /* 0 = it was read */
} pack_file;

/* Reads the files of items [first, last), names relative to `root`, up to 62 files ahead. All is
 * borrowed. */
pack_files *pack_files_start(const pack_list *list, uint64_t first, uint64_t last, const char *root,
                             int64_t n_threads);
/* The next one. */
void pack_files_take(pack_files *files, pack_file *out);
void pack_files_stop(pack_files *files);

#endif
