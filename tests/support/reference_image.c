/* reference_image.c - see reference_image.h. */
#include "tests/support/reference_image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Resize ---------------------------------------------------------------------------------- */

/* Keys' cubic convolution, a = -0.5. */
static double cubic(double x) {
    const double a = -0.5;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* Share of source position x in output position i, before rounding and before the shares are scaled
 * to sum up to 1. */
static double share(reference_filter filter, int64_t n_in, int64_t n_out, int64_t i, int64_t x) {
    const double scale = (double)n_in / (double)n_out;
    const double centre = ((double)i + 0.5) * scale;
    if (filter == REFERENCE_TRIANGLE || filter == REFERENCE_CUBIC) {
        const double step = fmax(scale, 1.0), support = filter == REFERENCE_CUBIC ? 2 * step : step;
        int64_t low = (int64_t)(centre - support + 0.5), high = (int64_t)(centre + support + 0.5);
        if (low < 0) low = 0;
        if (high > n_in) high = n_in;
        if (x < low || x >= high) return 0;
        const double distance = fabs(((double)x - centre + 0.5) * (1.0 / step));
        return filter == REFERENCE_CUBIC ? cubic(distance) : fmax(1.0 - distance, 0.0);
    }
    if (filter == REFERENCE_LINEAR) {
        double at = fmin(fmax(centre - 0.5, 0.0), (double)n_in - 1.0);
        return fmax(1.0 - fabs((double)x - at), 0.0);
    }
    const double low = (double)i * scale, high = ((double)i + 1.0) * scale;
    return fmax(fmin((double)x + 1.0, high) - fmax((double)x, low), 0.0);
}

/* Resizes one line of n_in values that lie `step` apart. */
static void resize_line(reference_filter filter, const uint8_t *in, int64_t n_in, int64_t step,
                        uint8_t *out, int64_t n_out, int64_t out_step) {
    for (int64_t i = 0; i < n_out; i++) {
        double sum = 0.0;
        int64_t value = (int64_t)1 << 21;
        for (int64_t x = 0; x < n_in; x++)
            sum += share(filter, n_in, n_out, i, x);
        for (int64_t x = 0; x < n_in; x++) {
            const double weight = share(filter, n_in, n_out, i, x) / sum;
            value += (int64_t)((weight < 0 ? -0.5 : 0.5) + weight * (1 << 22)) * in[x * step];
        }
        value >>= 22;
        out[i * out_step] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

static void resize_rows(reference_filter filter, const uint8_t *in, int64_t height, int64_t width,
                        int32_t channels, uint8_t *out, int64_t out_width) {
    for (int64_t y = 0; y < height; y++)
        for (int32_t c = 0; c < channels; c++)
            resize_line(filter, in + y * width * channels + c, width, channels,
                        out + y * out_width * channels + c, out_width, channels);
}

static void resize_columns(reference_filter filter, const uint8_t *in, int64_t height,
                           int64_t width, int32_t channels, uint8_t *out, int64_t out_height) {
    const int64_t row = width * channels;
    for (int64_t i = 0; i < row; i++)
        resize_line(filter, in + i, height, row, out + i, out_height, row);
}

void reference_resize(reference_filter filter, const uint8_t *in, int64_t height, int64_t width,
                      int32_t channels, uint8_t *out, int64_t out_height, int64_t out_width) {
    if (filter == REFERENCE_NEAREST) {
        for (int64_t y = 0; y < out_height; y++)
            for (int64_t x = 0; x < out_width; x++) {
                const int64_t from = (2 * y + 1) * height / (2 * out_height) * width +
                                     (2 * x + 1) * width / (2 * out_width);
                memcpy(out + (y * out_width + x) * channels, in + from * channels,
                       (size_t)channels);
            }
        return;
    }
    const int64_t lost = width > out_width ? width - out_width : 0;
    const int64_t most_height = height > out_height ? height : out_height;
    const int64_t most_width = width > out_width ? width : out_width;
    uint8_t *between = malloc((size_t)(most_height * most_width * channels));
    if (!between) abort();
    if (height - out_height > 2 * lost) {
        resize_columns(filter, in, height, width, channels, between, out_height);
        resize_rows(filter, between, out_height, width, channels, out, out_width);
    } else {
        resize_rows(filter, in, height, width, channels, between, out_width);
        resize_columns(filter, between, height, out_width, channels, out, out_height);
    }
    free(between);
}

/* ---- Colours --------------------------------------------------------------------------------- */

uint8_t reference_gray(const uint8_t *pixel) {
    return (uint8_t)((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 32768) / 65536);
}

uint8_t reference_blend(uint8_t base, uint8_t x, float factor) {
    const float v = (float)base + factor * (float)(x - base);
    return (uint8_t)(v <= 0.0f ? 0.0f : v >= 255.0f ? 255.0f : v);
}

/* colorsys' rgb_to_hsv and back, with hue, saturation and value as bytes in between. */
void reference_hue(uint8_t *pixel, uint8_t shift) {
    const int r = pixel[0], g = pixel[1], b = pixel[2];
    const int high = r > g ? (r > b ? r : b) : (g > b ? g : b);
    const int low = r < g ? (r < b ? r : b) : (g < b ? g : b);
    if (high == low) return;
    const float range = (float)(high - low);
    const float from_r = (float)(high - r) / range, from_g = (float)(high - g) / range;
    const float from_b = (float)(high - b) / range;
    float hue;
    if (r == high)
        hue = from_b - from_g;
    else if (g == high)
        hue = (float)(2.0 + (double)from_r - (double)from_b);
    else
        hue = (float)(4.0 + (double)from_g - (double)from_r);
    hue = (float)fmod((double)hue / 6.0 + 1.0, 1.0);
    const int h = ((int)((double)hue * 255.0) + shift) % 256;
    const int s = (int)((double)(range / (float)high) * 255.0), v = high;
    if (s == 0) {
        memset(pixel, v, 3);
        return;
    }
    const int sector = (int)floor((double)h * 6.0 / 255.0);
    const float rest = (float)((double)h * 6.0 / 255.0 - sector);
    const float share_s = (float)((double)s / 255.0);
    const uint8_t p = (uint8_t)round(v * (1.0 - (double)share_s));
    const uint8_t q = (uint8_t)round(v * (1.0 - (double)(share_s * rest)));
    const uint8_t t = (uint8_t)round(v * (1.0 - (double)share_s * (1.0 - (double)rest)));
    const uint8_t values[6][3] = {{(uint8_t)v, t, p}, {q, (uint8_t)v, p}, {p, (uint8_t)v, t},
                                  {p, q, (uint8_t)v}, {t, p, (uint8_t)v}, {(uint8_t)v, p, q}};
    memcpy(pixel, values[sector % 6], 3);
}
