/* hash.h - FNV-1a, 64 bits. */
#ifndef ITER_CORE_HASH_H
#define ITER_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ITER_FNV_START 0xcbf29ce484222325u

static inline uint64_t iter__fnv1a(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static inline uint64_t iter__fnv1a_text(uint64_t hash, const char *text) {
    return iter__fnv1a(hash, text, strlen(text) + 1);
}

static inline uint64_t iter__fnv1a_u64(uint64_t hash, uint64_t value) {
    return iter__fnv1a(hash, &value, sizeof(value));
}

#endif
