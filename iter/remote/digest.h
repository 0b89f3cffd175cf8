/*
 * digest.h - SHA-256 and its HMAC, SHA-1 and MD5: what names in the cache, signatures and checksums
 * of servers are made of.
 *
 * All always succeed, need no memory, and may be called by any thread.
 */
#ifndef ITER_REMOTE_DIGEST_H
#define ITER_REMOTE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define ITER_SHA256_BYTES 32
#define ITER_SHA256_TEXT  (2 * ITER_SHA256_BYTES + 1)
#define ITER_MD5_BYTES    16

#ifdef ITER_HAVE_REMOTE

#include <openssl/md5.h>
#include <openssl/sha.h>

typedef enum iter__digest_kind {
    ITER_DIGEST_SHA256,
    ITER_DIGEST_SHA1,
    ITER_DIGEST_MD5
} iter__digest_kind;

/* Of bytes that come in pieces. */
typedef struct iter__digest {
    iter__digest_kind kind;
    union {
        SHA256_CTX sha256;
        SHA_CTX sha1;
        MD5_CTX md5;
    } as;
} iter__digest;

void iter__digest_begin(iter__digest *digest, iter__digest_kind kind);
void iter__digest_add(iter__digest *digest, const void *bytes, size_t n);
/* Writes 32, 20 or 16 bytes. */
void iter__digest_end(iter__digest *digest, uint8_t out[ITER_SHA256_BYTES]);

void iter__sha256(const void *bytes, size_t n, uint8_t out[ITER_SHA256_BYTES]);

/* The same in hexadecimal. */
void iter__sha256_text(const void *bytes, size_t n, char out[ITER_SHA256_TEXT]);

/* HMAC-SHA-256 (RFC 2104) of n bytes of text. */
void iter__hmac_sha256(const void *key, size_t key_bytes, const void *text, size_t n,
                       uint8_t out[ITER_SHA256_BYTES]);

/* n bytes as hexadecimal digits, and a NUL. */
void iter__digest_text(const uint8_t *bytes, size_t n, char *out);

#endif
#endif
