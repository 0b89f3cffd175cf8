/* pack_files.h - the files of a list, read (and made anew) by a few threads, handed out in the list's
 * order. */
#ifndef BENCH_PACK_FILES_H
#define BENCH_PACK_FILES_H

#include "tools/iterpack/iterpack.h"
#include "tools/iterpack/pack_image.h"

typedef struct pack_files pack_files;

#define PACK_REASON_BYTES 512

typedef struct pack_file {
    const uint8_t *bytes; /* valid until the next one is taken, as the reason is */
    size_t n;
    const char *reason; /* NULL = it is there; else why it is not */
    bool warned;        /* its decoder was not content, but went on */
} pack_file;

/* Reads the files of items [first, last), names relative to `root`, up to 62 files ahead, and makes
 * them into what `images` says; NULL = as they are. All is borrowed. */
pack_files *pack_files_start(const pack_list *list, uint64_t first, uint64_t last, const char *root,
                             int64_t n_threads, const pack_images *images);
/* The next one. */
void pack_files_take(pack_files *files, pack_file *out);
void pack_files_stop(pack_files *files);

#endif
