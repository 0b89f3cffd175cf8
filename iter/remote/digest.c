/*
 * digest.c - see digest.h. The hashes are OpenSSL's.
 *
 * These are OpenSSL's plain functions, although version 3 recommends EVP instead. EVP brings every
 * algorithm along: it adds 3.8 MB to a file that has libcrypto linked in, as a Python wheel does,
 * and these add 35 KB. EVP also looks an algorithm up for each signature.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "iter/remote/digest.h"

#ifdef ITER_HAVE_REMOTE

#include <openssl/crypto.h>
#include <string.h>

#define BLOCK_BYTES 64 /* that SHA-256 takes at once; a longer key is hashed first */

void iter__digest_begin(iter__digest *digest, iter__digest_kind kind) {
    digest->kind = kind;
    switch (kind) {
    case ITER_DIGEST_SHA256: SHA256_Init(&digest->as.sha256); return;
    case ITER_DIGEST_SHA1: SHA1_Init(&digest->as.sha1); return;
    case ITER_DIGEST_MD5: MD5_Init(&digest->as.md5); return;
    }
}

void iter__digest_add(iter__digest *digest, const void *bytes, size_t n) {
    switch (digest->kind) {
    case ITER_DIGEST_SHA256: SHA256_Update(&digest->as.sha256, bytes, n); return;
    case ITER_DIGEST_SHA1: SHA1_Update(&digest->as.sha1, bytes, n); return;
    case ITER_DIGEST_MD5: MD5_Update(&digest->as.md5, bytes, n); return;
    }
}

void iter__digest_end(iter__digest *digest, uint8_t out[ITER_SHA256_BYTES]) {
    switch (digest->kind) {
    case ITER_DIGEST_SHA256: SHA256_Final(out, &digest->as.sha256); return;
    case ITER_DIGEST_SHA1: SHA1_Final(out, &digest->as.sha1); return;
    case ITER_DIGEST_MD5: MD5_Final(out, &digest->as.md5); return;
    }
}

void iter__digest_text(const uint8_t *bytes, size_t n, char *out) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

void iter__sha256(const void *bytes, size_t n, uint8_t out[ITER_SHA256_BYTES]) {
    iter__digest hash;
    iter__digest_begin(&hash, ITER_DIGEST_SHA256);
    iter__digest_add(&hash, bytes, n);
    iter__digest_end(&hash, out);
}

void iter__sha256_text(const void *bytes, size_t n, char out[ITER_SHA256_TEXT]) {
    uint8_t hash[ITER_SHA256_BYTES];
    iter__sha256(bytes, n, hash);
    iter__digest_text(hash, sizeof(hash), out);
}

/* Hashes the key, each of its bytes changed by `pad`, and then the text. */
static void hash_padded(const uint8_t key[BLOCK_BYTES], uint8_t pad, const void *text, size_t n,
                        uint8_t out[ITER_SHA256_BYTES]) {
    SHA256_CTX hash;
    uint8_t block[BLOCK_BYTES];
    for (int i = 0; i < BLOCK_BYTES; i++)
        block[i] = key[i] ^ pad;
    SHA256_Init(&hash);
    SHA256_Update(&hash, block, sizeof(block));
    SHA256_Update(&hash, text, n);
    SHA256_Final(out, &hash);
    OPENSSL_cleanse(block, sizeof(block));
}

void iter__hmac_sha256(const void *key, size_t key_bytes, const void *text, size_t n,
                       uint8_t out[ITER_SHA256_BYTES]) {
    uint8_t block[BLOCK_BYTES] = {0}, inner[ITER_SHA256_BYTES];
    if (key_bytes > BLOCK_BYTES)
        iter__sha256(key, key_bytes, block);
    else
        memcpy(block, key, key_bytes);
    hash_padded(block, 0x36, text, n, inner);
    hash_padded(block, 0x5c, inner, sizeof(inner), out);
    OPENSSL_cleanse(block, sizeof(block));
}

#endif
