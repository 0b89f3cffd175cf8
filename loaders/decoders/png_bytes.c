/* png_bytes.c - see png_bytes.h. Source: ISO/IEC 15948, clause 5 (chunks). */
#include "loaders/decoders/png_bytes.h"

#include <string.h>
#include <zlib.h>

#include "iter/core/arith.h"
#include "loaders/files/byte_order.h"

static const uint8_t end_chunk[ITER_PNG_CHUNK_BYTES] = {0,   0,   0,    0,    'I',  'E',
                                                        'N', 'D', 0xae, 0x42, 0x60, 0x82};

static void put_number(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void set_piece(iter__png_bytes *stream, int piece, const uint8_t *at, size_t n) {
    stream->pieces[piece].at = at;
    stream->pieces[piece].n = n;
}

/* Where the first incomplete chunk begins, which may be at `size`; SIZE_MAX = the file has its end.
 * *out_pixels: an IDAT chunk comes before it. */
static size_t find_cut(const uint8_t *bytes, size_t size, bool *out_pixels) {
    size_t at = ITER_PNG_MAGIC_BYTES;
    *out_pixels = false;
    while (size - at >= ITER_PNG_CHUNK_BYTES) {
        const uint32_t n = iter__get_be32(bytes + at);
        if (n > size - at - ITER_PNG_CHUNK_BYTES) break;
        if (memcmp(bytes + at + 4, "IEND", 4) == 0) return SIZE_MAX;
        *out_pixels |= memcmp(bytes + at + 4, "IDAT", 4) == 0;
        at += ITER_PNG_CHUNK_BYTES + n;
    }
    return at;
}

static void mend_cut(iter__png_bytes *stream, const uint8_t *bytes, size_t size) {
    bool has_pixels;
    const size_t at = find_cut(bytes, size, &has_pixels), head = sizeof(stream->head);
    if (at == SIZE_MAX) return;
    const size_t left = size - at;
    const bool in_pixels = left >= head && memcmp(bytes + at + 4, "IDAT", 4) == 0;
    if (!has_pixels && !in_pixels) return; /* nothing of the picture exists */
    set_piece(stream, ITER_PNG_FILE, bytes, at);
    set_piece(stream, ITER_PNG_END, end_chunk, sizeof(end_chunk));
    if (!in_pixels) return;
    const uint32_t length = iter__get_be32(bytes + at);
    const uint32_t n = left - head < length ? (uint32_t)(left - head) : length;
    memcpy(stream->head, bytes + at, head);
    put_number(stream->head, n);
    const uLong sum = crc32(0, bytes + at + 4, 4);
    put_number(stream->sum, (uint32_t)crc32(sum, bytes + at + head, n));
    set_piece(stream, ITER_PNG_HEAD, stream->head, head);
    set_piece(stream, ITER_PNG_DATA, bytes + at + head, n);
    set_piece(stream, ITER_PNG_SUM, stream->sum, sizeof(stream->sum));
}

void iter__png_bytes_open(iter__png_bytes *stream, const uint8_t *bytes, size_t size, bool mend) {
    memset(stream, 0, sizeof(*stream));
    set_piece(stream, ITER_PNG_FILE, bytes, size);
    if (mend && size >= ITER_PNG_MAGIC_BYTES) mend_cut(stream, bytes, size);
}

bool iter__png_bytes_read(iter__png_bytes *stream, uint8_t *out, size_t n) {
    while (n > 0) {
        while (stream->piece < ITER_PNG_PIECES && stream->pieces[stream->piece].n == 0)
            stream->piece++;
        if (stream->piece == ITER_PNG_PIECES) return false;
        const size_t step = iter__min_size(n, stream->pieces[stream->piece].n);
        memcpy(out, stream->pieces[stream->piece].at, step);
        stream->pieces[stream->piece].at += step;
        stream->pieces[stream->piece].n -= step;
        out += step;
        n -= step;
    }
    return true;
}

bool iter__png_bytes_mended(const iter__png_bytes *stream) {
    return stream->pieces[ITER_PNG_END].at != NULL;
}

bool iter__png_bytes_ended(const iter__png_bytes *stream) {
    return stream->piece == ITER_PNG_END;
}
