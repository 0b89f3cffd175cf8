/*
 * jpeg_copies.h - copies of a JPEG with fewer coefficients, kept behind its end.
 *
 * A decoder that makes a picture 4 or 8 times smaller multiplies few of a block's coefficients, but
 * must read the codes of all. A copy has only those that it multiplies; the others are 0, so the
 * pixels are the same. It is a sequential JPEG of the same size and tables of quantisation.
 *
 *   the JPEG, ..., a copy, its footer, ..., a copy, its footer
 *
 * A footer has 16 bytes: "iterjpg", the scale as a digit, and the copy's bytes (u64, little
 * endian). It ends the file, or stands before another copy. Other decoders stop at the JPEG's end.
 */
#ifndef ITER_LOADERS_FILES_JPEG_COPIES_H
#define ITER_LOADERS_FILES_JPEG_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ITER__JPEG_COPY_FOOTER 16 /* bytes */

/* The copy for the largest scale that is no larger than `scale`; NULL = there is none. */
const uint8_t *iter__jpeg_copy_find(const uint8_t *bytes, size_t size, int64_t scale,
                                    size_t *out_size);

/* Whether a decoder that makes a picture `scale` times smaller (4 or 8) multiplies coefficient
 * (row, column) of a block. `block` = what it makes of the 8 x 8 pixels: 1, 2, 4 or 8 each way. */
bool iter__jpeg_copy_has(int block, int row, int column);

/* Writes the footer of a copy of that many bytes, for scale 4 or 8. */
void iter__jpeg_copy_end(uint8_t out[ITER__JPEG_COPY_FOOTER], int64_t scale, size_t bytes);

#endif
