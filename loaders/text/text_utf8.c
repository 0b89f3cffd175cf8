/* text_utf8.c - see text_utf8.h. Source: The Unicode Standard, section 3.9, table 3-7. */
#include "loaders/text/text_utf8.h"

#include <string.h>

/* Bytes of the sequence at p, 0 if it is not valid. */
static size_t sequence_bytes(const uint8_t *p, size_t left) {
    const uint8_t a = p[0];
    if (a < 0x80) return 1;
    if (a < 0xc2 || a > 0xf4 || left < 2) return 0;
    if (a < 0xe0) return text_is_tail(p[1]) ? 2 : 0;
    const uint8_t low = a == 0xe0 ? 0xa0 : a == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = a == 0xed ? 0x9f : a == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high || left < 3 || !text_is_tail(p[2])) return 0;
    if (a < 0xf0) return 3;
    return left >= 4 && text_is_tail(p[3]) ? 4 : 0;
}

size_t iter__utf8_check(const uint8_t *bytes, size_t size) {
    size_t i = 0;
    while (i < size) {
        uint64_t eight;
        if (size - i >= 8 && (memcpy(&eight, bytes + i, 8), eight & 0x8080808080808080u) == 0) {
            i += 8;
            continue;
        }
        const size_t n = sequence_bytes(bytes + i, size - i);
        if (n == 0) return i;
        i += n;
    }
    return size;
}

size_t iter__utf8_put(uint8_t *out, uint32_t code) {
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (uint8_t)(0xc0 | code >> 6);
        out[1] = (uint8_t)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (uint8_t)(0xe0 | code >> 12);
        out[1] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | code >> 18);
    out[1] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (code & 0x3f));
    return 4;
}
