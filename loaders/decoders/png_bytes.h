/*
 * png_bytes.h - the bytes of a PNG as libpng reads them: those of the file, or, if it ends early
 * and the options accept that, those of a complete file made of it.
 *
 * The cut IDAT chunk gets the length of its remaining bytes and their checksum, and IEND follows.
 * So the decoder gets every byte of the file, and then lacks data.
 */
#ifndef ITER_LOADERS_DECODERS_PNG_BYTES_H
#define ITER_LOADERS_DECODERS_PNG_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ITER_PNG_MAGIC_BYTES 8
#define ITER_PNG_CHUNK_BYTES 12 /* of a chunk without data: length, type, checksum */

enum { ITER_PNG_FILE, ITER_PNG_HEAD, ITER_PNG_DATA, ITER_PNG_SUM, ITER_PNG_END, ITER_PNG_PIECES };

typedef struct iter__png_bytes {
    struct {
        const uint8_t *at;
        size_t n;
    } pieces[ITER_PNG_PIECES]; /* the rest of each */
    int piece;                 /* the current one */
    uint8_t head[8], sum[4];   /* of the cut chunk */
} iter__png_bytes;

/* Begins at the front of bytes[size], which are borrowed and begin with the magic. If `mend` is
 * set, a file that is cut within its pixels, or after some of them, is read as a complete one. */
void iter__png_bytes_open(iter__png_bytes *stream, const uint8_t *bytes, size_t size, bool mend);

/* The next n bytes; false if there are fewer. */
bool iter__png_bytes_read(iter__png_bytes *stream, uint8_t *out, size_t n);

/* Whether the file is cut and is read as a complete one. */
bool iter__png_bytes_mended(const iter__png_bytes *stream);

/* Whether the file is cut and a read went past its end. */
bool iter__png_bytes_ended(const iter__png_bytes *stream);

#endif
