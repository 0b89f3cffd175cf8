/*
 * image_exif.c - which way up a picture is: EXIF's orientation, and pixels stored accordingly.
 *
 * Orientation is tag 0x0112 of the first directory of a TIFF block (EXIF 2.3, 4.6.4): a number from
 * 1 to 8 for the eight ways to turn and mirror a stored picture. Each says whether rows become
 * columns, and the direction of either axis. So a stored row goes to a row or to a column of the
 * upright picture, forwards or backwards.
 */
#include "loaders/decoders/image.h"

#include <string.h>

#define ORIENTATION_TAG 0x0112
#define TYPE_SHORT      3

typedef struct tiff {
    const uint8_t *bytes;
    size_t size;
    bool big_endian;
} tiff;

/* ---- static helpers -------------------------------------------------------------------------- */

/* An unsigned number of n bytes at `at`; the caller must check that they exist. */
static uint32_t number(const tiff *t, size_t at, int n) {
    uint32_t value = 0;
    for (int i = 0; i < n; i++)
        value = value << 8 | t->bytes[at + (size_t)(t->big_endian ? i : n - 1 - i)];
    return value;
}

static bool flips_x(int32_t orientation) {
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static bool flips_y(int32_t orientation) {
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

/* ---- public functions ------------------------------------------------------------------------ */

int32_t iter__exif_orientation(const uint8_t *bytes, size_t size) {
    tiff t = {bytes, size, false};
    if (size < 8) return 1;
    if (memcmp(bytes, "MM\0*", 4) == 0)
        t.big_endian = true;
    else if (memcmp(bytes, "II*\0", 4) != 0)
        return 1;
    const size_t directory = number(&t, 4, 4);
    if (directory > size - 2) return 1;
    const uint32_t n = number(&t, directory, 2);
    for (uint32_t i = 0; i < n; i++) {
        const size_t at = directory + 2 + 12 * (size_t)i;
        if (at + 12 > size) return 1;
        if (number(&t, at, 2) != ORIENTATION_TAG) continue;
        if (number(&t, at + 2, 2) != TYPE_SHORT || number(&t, at + 4, 4) != 1) return 1;
        const uint32_t value = number(&t, at + 8, 2);
        return value >= 1 && value <= 8 ? (int32_t)value : 1;
    }
    return 1;
}

bool iter__orient_swaps(int32_t orientation) {
    return orientation >= 5;
}

iter_rect iter__orient_rect(int32_t orientation, const iter_rect *upright, int64_t height,
                            int64_t width) {
    iter_rect r = *upright;
    if (iter__orient_swaps(orientation))
        r = (iter_rect){upright->x, upright->y, upright->width, upright->height};
    if (flips_x(orientation)) r.x = width - r.x - r.width;
    if (flips_y(orientation)) r.y = height - r.y - r.height;
    return r;
}

void iter__orient_row(int32_t orientation, int64_t height, int64_t width, int64_t channels,
                      int64_t y, const uint8_t *row, uint8_t *out) {
    const bool swaps = iter__orient_swaps(orientation);
    const int64_t to = flips_y(orientation) ? height - 1 - y : y;
    if (!swaps && !flips_x(orientation)) {
        memcpy(out + to * width * channels, row, (size_t)(width * channels));
        return;
    }
    /* the place of the row's first pixel, and the step to each next one */
    int64_t step = swaps ? height * channels : channels;
    uint8_t *at = out + (swaps ? to * channels : to * width * channels);
    if (flips_x(orientation)) {
        at += (width - 1) * step;
        step = -step;
    }
    for (int64_t x = 0; x < width; x++, at += step, row += channels)
        for (int64_t c = 0; c < channels; c++)
            at[c] = row[c];
}
