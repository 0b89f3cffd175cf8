/*
 * limits_decode.c - straight loops over photos: the time of libjpeg-turbo and libpng alone. One
 * photo is decoded by limits_jpeg.c or limits_png.c.
 */
#include "bench/limits/limits_decode.h"

#include <stdlib.h>
#include <string.h>

#include "bench/limits/limits_codecs.h"

struct limits_decoder {
    limits_jpeg *jpeg;
    bool gray;
    char text[LIMITS_TEXT];
};

limits_decoder *limits_decoder_create(bool gray) {
    limits_decoder *d = calloc(1, sizeof(*d));
    if (d == NULL) return NULL;
    d->gray = gray;
    d->jpeg = limits_jpeg_create(gray);
    return d;
}

void limits_decoder_destroy(limits_decoder *decoder) {
    if (decoder == NULL) return;
    limits_jpeg_destroy(decoder->jpeg);
    free(decoder);
}

const char *limits_decoder_text(const limits_decoder *decoder) {
    return decoder->text;
}

bool limits_is_png(const uint8_t *bytes, size_t size) {
    static const uint8_t magic[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    return size >= sizeof(magic) && memcmp(bytes, magic, sizeof(magic)) == 0;
}

size_t limits_decode_bytes(int64_t height, int64_t width) {
    return (size_t)height * LIMITS_STRIDE(4 * width) + 2 * LIMITS_BORDER;
}

uint64_t limits_decode(limits_decoder *d, const limits_photo *photos, uint64_t n, bool whole,
                       uint8_t *pixels) {
    for (uint64_t i = 0; i < n; i++) {
        const limits_photo *photo = &photos[i];
        if (!(limits_is_png(photo->bytes, photo->size)
                  ? limits_png_decode(d->gray, photo, whole, pixels, d->text)
                  : limits_jpeg_decode(d->jpeg, photo, whole, pixels, d->text)))
            return i;
    }
    return n;
}
