/*
 * reference_image.h - resizes and colours of u8 pixels, naively: one number at a time, by the
 * definitions (Pillow's Resample.c, Blend.c and Convert.c for what must equal Pillow). No tables,
 * no tricks, no code shared with what is tested.
 */
#ifndef TESTS_SUPPORT_REFERENCE_IMAGE_H
#define TESTS_SUPPORT_REFERENCE_IMAGE_H

#include <stdint.h>

typedef enum reference_filter {
    REFERENCE_TRIANGLE,
    REFERENCE_CUBIC,
    REFERENCE_LINEAR,
    REFERENCE_AREA,
    REFERENCE_NEAREST
} reference_filter;

/* Dense [height][width][channels] to dense out. */
void reference_resize(reference_filter filter, const uint8_t *in, int64_t height, int64_t width,
                      int32_t channels, uint8_t *out, int64_t out_height, int64_t out_width);

/* From three bytes each. */
uint8_t reference_gray(const uint8_t *pixel);
uint8_t reference_blend(uint8_t base, uint8_t x, float factor);
void reference_hue(uint8_t *pixel, uint8_t shift);

#endif
