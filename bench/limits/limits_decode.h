/*
 * limits_decode.h - straight loops over photos: the time of libjpeg-turbo and libpng alone.
 *
 * There is no loader object, no lock and no counter here, and no allocation except the libraries'
 * own. The caller prepares photos and memory (photo_yard.h).
 */
#ifndef LIMITS_DECODE_H
#define LIMITS_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A JPEG or PNG in memory, and the part of it to decode. */
typedef struct limits_photo {
    const uint8_t *bytes;
    size_t size;
    int64_t y, x, height, width;
    /* A JPEG's part may be decoded 2, 4 or 8 times smaller, but not below this; 0, 0 = full
     * size. */
    int64_t min_height, min_width;
} limits_photo;

typedef struct limits_decoder limits_decoder;

/** NULL: no memory. `gray`: one channel, else three. */
limits_decoder *limits_decoder_create(bool gray);
void limits_decoder_destroy(limits_decoder *decoder);

/** Whether its first bytes are those of a PNG; everything else is taken for a JPEG. */
bool limits_is_png(const uint8_t *bytes, size_t size);

/** Bytes that the loops write for a picture of height x width, whole or in part. */
size_t limits_decode_bytes(int64_t height, int64_t width);

/**
 * Decodes photos[0..n), one after the other into the same pixels.
 *
 *   whole  true = each whole picture at full size; false = the part. Of a JPEG, columns outside it
 *          and rows above it are skipped, one MCU more is decoded on each side, and nothing below
 *          the last row is read. Of a PNG, all rows down to the part's last one must be
 *          decompressed; of an interlaced one, all rows.
 *
 * Returns  how many were decoded. If that is less than n, limits_decoder_text() describes the fault
 *          of the next one.
 */
uint64_t limits_decode(limits_decoder *decoder, const limits_photo *photos, uint64_t n, bool whole,
                       uint8_t *pixels);
const char *limits_decoder_text(const limits_decoder *decoder);

#endif
