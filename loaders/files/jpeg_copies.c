/* jpeg_copies.c - see jpeg_copies.h. */
#include "loaders/files/jpeg_copies.h"

#include <string.h>

#include "loaders/files/byte_order.h"

#define FOOTER ITER__JPEG_COPY_FOOTER

static const char magic[7] = {'i', 't', 'e', 'r', 'j', 'p', 'g'};

const uint8_t *iter__jpeg_copy_find(const uint8_t *bytes, size_t size, int64_t scale,
                                    size_t *out_size) {
    const uint8_t *found = NULL;
    int64_t best = 1;
    while (size > FOOTER) {
        const uint8_t *footer = bytes + size - FOOTER;
        const int64_t of = footer[7] - '0';
        const uint64_t n = iter__get_le64(footer + 8);
        if (memcmp(footer, magic, sizeof(magic)) != 0 || n >= size - FOOTER) break;
        size -= FOOTER + (size_t)n;
        if (of <= best || of > scale) continue;
        best = of;
        found = bytes + size;
        *out_size = (size_t)n;
    }
    return found;
}

/* What jidctred.c of libjpeg-turbo multiplies; libjpeg's own reduced transforms, of the first
 * coefficients alone, need no others. */
bool iter__jpeg_copy_has(int block, int row, int column) {
    static const uint8_t used[9] = {[1] = 0x01, [2] = 0xab, [4] = 0xef, [8] = 0xff};
    return (used[block] >> row & used[block] >> column & 1) != 0;
}

void iter__jpeg_copy_end(uint8_t out[FOOTER], int64_t scale, size_t bytes) {
    memcpy(out, magic, sizeof(magic));
    out[7] = (uint8_t)('0' + scale);
    iter__put_le64(out + 8, bytes);
}
