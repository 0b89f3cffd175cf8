/* pack_files.h - the files of a list, read (and converted) by a few threads, delivered in the
 * list's order. */
#ifndef PACK_FILES_H
#define PACK_FILES_H

#include "tools/iterpack/iterpack.h"
#include "tools/iterpack/pack_image.h"

typedef struct pack_files pack_files;

#define PACK_REASON_BYTES 512

typedef struct pack_file {
    const uint8_t *bytes; /* valid until the next one is taken, like the reason */
    size_t n;
    const char *reason; /* NULL = it was read; else why not */
    bool warned;        /* its decoder warned, but went on */
} pack_file;

/* How many threads: for a disk, few; if images are made (`makes`), as many as there are processors;
 * at a URL, many, since each waits for its answer. */
int64_t pack_files_threads(const char *root, bool makes);

/* Starts reading the files of items [first, last), names relative to `root`, a folder or URL, up
 * to 62 files ahead. `images` tells how to convert them; NULL = as they are. All arguments are
 * borrowed. */
pack_files *pack_files_start(const pack_list *list, uint64_t first, uint64_t last, const char *root,
                             int64_t n_threads, const pack_images *images);
/* Waits for the next file. */
void pack_files_take(pack_files *files, pack_file *out);
void pack_files_stop(pack_files *files);

#endif
