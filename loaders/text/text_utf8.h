/* text_utf8.h - UTF-8: checked, read and written. */
#ifndef ITER_LOADERS_TEXT_TEXT_UTF8_H
#define ITER_LOADERS_TEXT_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the first byte sequence that is not UTF-8 begins, or size. */
size_t iter__utf8_check(const uint8_t *bytes, size_t size);

/* Writes a code point, at most 4 bytes; returns how many. */
size_t iter__utf8_put(uint8_t *out, uint32_t code);

/* Whether the byte does not begin a sequence. */
static inline bool text_is_tail(uint8_t byte) {
    return (byte & 0xc0) == 0x80;
}

/* The code point at p, which is valid, and its bytes. */
static inline uint32_t text_code_at(const uint8_t *p, size_t *out_bytes) {
    const uint32_t a = p[0];
    if (a < 0x80) {
        *out_bytes = 1;
        return a;
    }
    if (a < 0xe0) {
        *out_bytes = 2;
        return (a & 0x1f) << 6 | (p[1] & 0x3fu);
    }
    if (a < 0xf0) {
        *out_bytes = 3;
        return (a & 0x0f) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    }
    *out_bytes = 4;
    return (a & 0x07) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

#endif
