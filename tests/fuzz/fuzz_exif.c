/*
 * fuzz_exif.c - EXIF's TIFF blocks: an orientation from 1 to 8, never anything else. Pixels turned
 * by it stay within the picture, each at a place of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "loaders/decoders/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

/* Turns a picture of numbered pixels: all numbers must still be there. */
static void check_turning(int32_t orientation, int64_t height, int64_t width) {
    uint8_t row[16], out[256];
    bool seen[256] = {false};
    memset(out, 255, sizeof(out));
    for (int64_t y = 0; y < height; y++) {
        for (int64_t x = 0; x < width; x++)
            row[x] = (uint8_t)(y * width + x);
        iter__orient_row(orientation, height, width, 1, y, row, out);
    }
    for (int64_t i = 0; i < height * width; i++) {
        check(out[i] < height * width && !seen[out[i]]);
        seen[out[i]] = true;
    }
    check(out[height * width] == 255);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const int32_t orientation = iter__exif_orientation(data, size);
    check(orientation >= 1 && orientation <= 8);
    if (size >= 2) check_turning(orientation, 1 + data[0] % 15, 1 + data[1] % 15);
    return 0;
}
