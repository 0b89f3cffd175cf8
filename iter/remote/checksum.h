/*
 * checksum.h - the checksum that a server gives with an object's bytes, and theirs.
 *
 * Known are x-amz-checksum-crc32c, -crc32, -sha1 and -sha256, x-goog-hash (crc32c, md5),
 * Content-MD5, Content-Digest, Repr-Digest and Digest (sha-256, md5). If an answer has several, the
 * cheapest is compared. Each is of a whole object, except Content-Digest: it is of the bytes of its
 * answer.
 */
#ifndef ITER_REMOTE_CHECKSUM_H
#define ITER_REMOTE_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef ITER_HAVE_REMOTE

#include "iter/remote/digest.h"

/* From the cheapest to the dearest. */
typedef enum iter__checksum_kind {
    ITER_CHECKSUM_NONE,
    ITER_CHECKSUM_CRC32C,
    ITER_CHECKSUM_CRC32,
    ITER_CHECKSUM_SHA1,
    ITER_CHECKSUM_SHA256,
    ITER_CHECKSUM_MD5,
    ITER_CHECKSUM_COUNT
} iter__checksum_kind;

#define ITER_CHECKSUM_BYTES 32

typedef struct iter__checksum_given {
    iter__checksum_kind kind;
    uint8_t bytes[ITER_CHECKSUM_BYTES];
} iter__checksum_given;

/* All zero = no answer yet. */
typedef struct iter__checksum {
    /* By an answer's head, by whom and of what: */
    iter__checksum_given amazon, of_object, of_bytes;
    bool of_parts;    /* Amazon's is a checksum of the checksums of parts */
    bool is_full;     /* Amazon's is of the object, though it has parts */
    bool is_unpacked; /* the body is not what is stored, but unpacked by the server */

    /* Of the body: */
    iter__checksum_given wanted; /* kind NONE = nothing is compared */
    uint32_t crc;
    iter__digest digest; /* of the kinds from SHA1 on */
} iter__checksum;

/* Takes a line of an answer's head; it has n bytes and no NUL. */
void iter__checksum_header(iter__checksum *sum, const char *line, size_t n);

/* The body begins. is_whole: it is the whole object. etag: of the object, or "". */
void iter__checksum_begin(iter__checksum *sum, bool is_whole, const char *etag);
void iter__checksum_add(iter__checksum *sum, const void *bytes, size_t n);

/* Whether the body that ends now has another checksum than was given. */
bool iter__checksum_is_wrong(iter__checksum *sum);

#endif
#endif
