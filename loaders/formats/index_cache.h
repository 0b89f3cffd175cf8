/*
 * index_cache.h - where the samples of a large file begin, kept beside it as FILE.iteridx, or, if
 * it lies elsewhere, in the folder that keeps its blocks.
 *
 * A cache is used only if it is complete and belongs to the data file as it is now. Else it counts
 * as absent, whatever the reason, and is replaced.
 *
 * Layout, all little-endian: 8 bytes "ITERIDX\032"; u32 version; u32 CRC-32 of all that follows;
 * u32 kind; u32 CRC-32 of 8 places of the data file; u64 options; u64 the data file's bytes; i64
 * its mtime in ns since 1970; u64 n; u64 notes[9]; u64 offsets[n]; u64 where the last sample ends.
 */
#ifndef ITER_LOADERS_FORMATS_INDEX_CACHE_H
#define ITER_LOADERS_FORMATS_INDEX_CACHE_H

#include <stdbool.h>

#include "loaders/formats/span_set.h"

#define ITER_INDEX_ENDING ".iteridx"
#define ITER_INDEX_NOTES  (1 + ITER_MAX_FIELDS)

#define ITER_INDEX_OPTION_HELP                                             \
    "keep what the scan found beside each file, as FILE" ITER_INDEX_ENDING \
    ", and use it; of URLs in the folder cache=; auto = of URLs with cache= alone"

/* The row of the option, an int32_t. */
#define ITER_INDEX_OPTION_ROW(type, member) \
    ITER_ROW_CHOICE("index-cache", ITER_INDEX_OPTION_HELP, type, member, "auto|yes|no|true|false")

/* Whether this file's index is to be kept. */
bool iter__index_cache_wanted(int32_t choice, const iter_file *file);

/* Stored in files, so never renumbered. */
enum { ITER_INDEX_TAR = 1, ITER_INDEX_RECORDIO = 2, ITER_INDEX_ROWS = 3, ITER_INDEX_TFRECORD = 4 };

/* Identifies the data file, without its inode and name, so that data and index may be copied and
 * moved together. */
typedef struct iter__index_stamp {
    uint64_t bytes;
    int64_t mtime_ns;
    uint32_t places; /* CRC-32 */
    bool settled;    /* mtime_ns is old enough: a further change would change it */
} iter__index_stamp;

/* For the set's next file. The caller fills the first part, and the notes before save(). */
typedef struct iter__index_cache {
    uint32_t kind;
    uint64_t options;   /* hash of the options that shape the index and the notes */
    uint64_t min_bytes; /* of a sample */
    uint64_t align;     /* of the offsets */
    /* other results of the scan; none is larger than the file's bytes */
    uint64_t notes[ITER_INDEX_NOTES];
    iter__index_stamp stamp; /* set by load() */
    char *path;              /* NULL = of a URL */
} iter__index_cache;

/* Adds the samples of the set's next file from its cache, and fills the notes. If there is no valid
 * cache, *out_found = false, and the caller may scan the file and save. Whatever a cache's bytes
 * are, offsets that are accepted ascend, by min_bytes at least, within the data file. Errors: EIO
 * (the data file; no valid cache, and the folder cannot be written to), EINVAL (a URL without a
 * folder for it), ENOMEM. The caller must call free() after an error, too. */
iter_status iter__index_cache_load(iter__index_cache *cache, iter__span_set *set, bool *out_found,
                                   iter_error *err);

/* Writes the cache of the set's last file, the one that load() was called for. If the data file was
 * written a moment ago, it gets no cache, because its next change might not show. If it was written
 * after load() looked at it, the cache will not be valid. That of a URL is not written if there
 * is no room. Errors: EIO, ENOMEM. */
iter_status iter__index_cache_save(const iter__index_cache *cache, const iter__span_set *set,
                                   iter_error *err);

void iter__index_cache_free(iter__index_cache *cache);

#endif
