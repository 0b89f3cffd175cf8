/*
 * versions.h - the ETags of many objects: 28 bytes each, and 4 to 10 of an index.
 *
 * Most ETags are an MD5, and are kept as its 16 bytes. Not for several threads at once.
 */
#ifndef ITER_REMOTE_VERSIONS_H
#define ITER_REMOTE_VERSIONS_H

#include <stdint.h>

#define ITER_ETAG_BYTES 128

typedef struct iter__version iter__version;

/* A zeroed one is empty. */
typedef struct iter__versions {
    iter__version **blocks; /* a fixed number of entries each, so growing copies none of them */
    uint64_t n, n_blocks;
    uint32_t *index; /* [capacity], a power of 2: number of the entry + 1; 0 = free */
    uint64_t capacity;
} iter__versions;

/* Remembers an object's ETag. "", or one that is too long, is ignored. Without memory it is not
 * kept, so a change of that object may not show. */
void iter__versions_set(iter__versions *versions, const char *url, const char *etag);

/* Writes the ETag that is known; "" = none. */
void iter__versions_get(const iter__versions *versions, const char *url, char out[ITER_ETAG_BYTES]);

void iter__versions_free(iter__versions *versions);

#endif
