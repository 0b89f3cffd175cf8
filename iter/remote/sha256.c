/*
 * sha256.c - see sha256.h. The hash is OpenSSL's.
 *
 * These are OpenSSL's plain functions, although version 3 recommends EVP instead. EVP brings every
 * algorithm along: it adds 3.8 MB to a file that has libcrypto linked in, as a Python wheel does,
 * and these add 35 KB. EVP also looks an algorithm up for each signature.
 */
#include "iter/remote/sha256.h"

#ifdef ITER_HAVE_REMOTE

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>

#define BLOCK_BYTES 64 /* that SHA-256 takes at once; a longer key is hashed first */

void iter__sha256(const void *bytes, size_t n, uint8_t out[ITER_SHA256_BYTES]) {
    SHA256_CTX hash;
    SHA256_Init(&hash);
    SHA256_Update(&hash, bytes, n);
    SHA256_Final(out, &hash);
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
