/*
 * index_cache.h - where the samples of a large file begin, kept beside it as FILE.iteridx.
 *
 * It is believed only where it is whole and the data file is still the one that it was made of; what
 * is not believed counts as not there, whatever the reason, and is replaced.
 *
 * Layout, all little-endian: 8 bytes "ITERIDX\032"; u32 version; u32 CRC-32 of all that follows; u32
 * kind; u32 CRC-32 of what the data file has in 8 places; u64 options; u64 the data file's bytes; i64
 * its mtime in ns since 1970; u64 n; u64 notes[9]; u64 offsets[n]; u64 where the last sample ends.
 */
#ifndef ITER_LOADERS_INDEX_CACHE_H
#define ITER_LOADERS_INDEX_CACHE_H

#include <stdbool.h>

#include "loaders/span_set.h"

#define ITER_INDEX_ENDING ".iteridx"
#define ITER_INDEX_NOTES  (1 + ITER_MAX_FIELDS)

#define ITER_INDEX_OPTION_HELP \
    "keep what the scan found beside each file, as FILE" ITER_INDEX_ENDING ", and use it"

/* What is part of the file, so never renumbered. */
enum { ITER_INDEX_TAR = 1, ITER_INDEX_RECORDIO = 2 };

/* What the data file is known by. It has no inode and no name, so that data and index may be copied
 * and moved together. */
typedef struct iter__index_stamp {
    uint64_t bytes;
    int64_t mtime_ns;
    uint32_t places; /* CRC-32 */
    bool settled;    /* long enough ago that a further change would show in mtime_ns */
} iter__index_stamp;

/* Of the set's next file: the caller fills the first part, and the notes before save(). */
typedef struct iter__index_cache {
    uint32_t kind;
    uint64_t options;   /* hash of the options that shape the index and the notes */
    uint64_t min_bytes; /* of a sample */
    uint64_t align;     /* of the offsets */
    uint64_t
        notes[ITER_INDEX_NOTES]; /* what else the scan finds out; none above the file's bytes */
    iter__index_stamp stamp;     /* by load() */
    char *path;
} iter__index_cache;

/* Adds the samples of the set's next file as the cache has them, and fills the notes; *out_found =
 * false where there is none to believe, and that file may be scanned and saved. Whatever a cache's
 * bytes are: offsets that are believed ascend, by min_bytes at least, within the data file.
 * Errors: EIO (the data file; none to believe, and the folder cannot be written to), ENOMEM. Always
 * followed by free(). */
iter_status iter__index_cache_load(iter__index_cache *cache, iter__span_set *set, bool *out_found,
                                   iter_error *err);

/* Writes the set's last file, the one that load() was called for. A data file that was written to
 * only just now gets none, since its next change need not show; one that is written to after load()
 * looked at it, one that will not be believed. Errors: EIO, ENOMEM. */
iter_status iter__index_cache_save(const iter__index_cache *cache, const iter__span_set *set,
                                   iter_error *err);

void iter__index_cache_free(iter__index_cache *cache);

#endif
