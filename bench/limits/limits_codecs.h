/*
 * limits_codecs.h - one photo by libjpeg-turbo or by libpng, for the loops of limits_decode.c.
 *
 * If a picture is broken, both return false with a reason in text[LIMITS_TEXT], and can go on with
 * the next one. In a build without the library they always return false.
 */
#ifndef LIMITS_CODECS_H
#define LIMITS_CODECS_H

#include "bench/limits/limits_decode.h"

#define LIMITS_TEXT 200

/* Rows start off 32-byte boundaries: libjpeg-turbo then stores them through the cache. */
#define LIMITS_BORDER    32
#define LIMITS_STRIDE(n) (((size_t)(n) + 2 * LIMITS_BORDER - 1) & ~(size_t)(LIMITS_BORDER - 1))

/** libjpeg's object, reused for every photo. NULL: no memory, or a build without libjpeg. */
typedef struct limits_jpeg limits_jpeg;
limits_jpeg *limits_jpeg_create(bool gray);
void limits_jpeg_destroy(limits_jpeg *jpeg);
bool limits_jpeg_decode(limits_jpeg *jpeg, const limits_photo *photo, bool whole, uint8_t *pixels,
                        char *text);

/** libpng makes an object for each file. */
bool limits_png_decode(bool gray, const limits_photo *photo, bool whole, uint8_t *pixels,
                       char *text);

#endif
