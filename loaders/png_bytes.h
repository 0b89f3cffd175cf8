/*
 * png_bytes.h - the bytes of a PNG as libpng reads them: the file, or, if it ends early and that is
 * accepted, a whole file made of it.
 *
 * The IDAT chunk that is cut becomes one as long as what is there, with its checksum, and IEND
 * follows. So the decoder gets every byte that there is, and then lacks data.
 */
#ifndef ITER_LOADERS_PNG_BYTES_H
#define ITER_LOADERS_PNG_BYTES_H

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
    } pieces[ITER_PNG_PIECES]; /* what is left of each */
    int piece;                 /* the one that is read */
    uint8_t head[8], sum[4];   /* of the chunk that is cut */
} iter__png_bytes;

/* Begins at the front of bytes[size], which are borrowed and begin with the magic. `mend`: a file that is
 * cut within its pixels, or behind some of them, is read as a whole one. */
void iter__png_bytes_open(iter__png_bytes *stream, const uint8_t *bytes, size_t size, bool mend);

/* The next n bytes; false = there are fewer. */
bool iter__png_bytes_read(iter__png_bytes *stream, uint8_t *out, size_t n);

/* Whether the file is cut and is read as a whole one. */
bool iter__png_bytes_mended(const iter__png_bytes *stream);

/* Whether it is a cut file of which all has been read, and more was asked for. */
bool iter__png_bytes_ended(const iter__png_bytes *stream);

#endif
