/*
 * sha256.h - SHA-256 and its HMAC, which names in the cache and signatures are made of.
 *
 * Both always succeed, need no memory, and may be called by any thread.
 */
#ifndef ITER_REMOTE_SHA256_H
#define ITER_REMOTE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define ITER_SHA256_BYTES 32

void iter__sha256(const void *bytes, size_t n, uint8_t out[ITER_SHA256_BYTES]);

/* HMAC-SHA-256 (RFC 2104) of n bytes of text. */
void iter__hmac_sha256(const void *key, size_t key_bytes, const void *text, size_t n,
                       uint8_t out[ITER_SHA256_BYTES]);

#endif
