/* resample_kernels_generic.c - the resampling kernels in portable C. */
#include "transforms/resample.h"

#define NAME(x) x##generic
#include "transforms/resample_windows_template.h"

/* 4 c of tap t, see resample.h. */
static inline uint32_t weight(const int16_t *weights, int32_t t) {
    const int16_t *pair = weights + (t >> 1) * 4 + (t & 1);
    return (uint32_t)pair[0] << RESAMPLE_LOW_BITS | (uint32_t)pair[2];
}

#define HALF (1u << 23)
#define FEW  32 /* taps whose weights are put together once for all rows and channels */

/* Up to RESAMPLE_MAX_TAPS roundings cannot reach beyond 255. */
static inline uint8_t finish(uint32_t sum) {
    return (uint8_t)((sum + HALF) >> 24);
}

static inline uint8_t finish_wide(uint64_t sum) {
    sum = (sum + HALF) >> 24;
    return (uint8_t)(sum > 255 ? 255 : sum);
}

static uint8_t wide_pixel(const uint8_t *at, int32_t channels, const int16_t *weights,
                          int32_t n_taps) {
    uint64_t sum = 0;
    for (int32_t t = 0; t < n_taps; t++, at += channels)
        sum += (uint64_t)*at * weight(weights, t);
    return finish_wide(sum);
}

static inline void pixel(uint8_t *out, const uint8_t *at, const int32_t channels,
                         const uint32_t *weights, int32_t n_taps) {
    uint32_t sums[RESAMPLE_MAX_CHANNELS] = {0};
    for (int32_t t = 0; t < n_taps; t++, at += channels)
        for (int32_t c = 0; c < channels; c++)
            sums[c] += at[c] * weights[t];
    for (int32_t c = 0; c < channels; c++)
        out[c] = finish(sums[c]);
}

static void horizontal(uint8_t *out, ptrdiff_t out_step, const uint8_t *const in[RESAMPLE_ROWS],
                       const resample_axis *axis, int32_t channels) {
    uint32_t few[FEW];
    for (int32_t i = 0; i < axis->n_out; i++) {
        const int16_t *weights = axis->weights + (size_t)i * (size_t)axis->n_pairs * 4;
        for (int32_t t = 0; t < axis->n_taps && t < FEW; t++)
            few[t] = weight(weights, t);
        for (int32_t row = 0; row < RESAMPLE_ROWS; row++) {
            const uint8_t *at = in[row] + (ptrdiff_t)axis->first[i] * channels;
            uint8_t *to = out + row * out_step + (ptrdiff_t)i * channels;
            if (axis->n_taps > FEW)
                for (int32_t c = 0; c < channels; c++)
                    to[c] = wide_pixel(at + c, channels, weights, axis->n_taps);
            else if (channels == 3)
                pixel(to, at, 3, few, axis->n_taps);
            else
                pixel(to, at, channels, few, axis->n_taps);
        }
    }
}

enum { BLOCK = 256 };

static void wide_block(uint8_t *out, size_t n, size_t at, const uint8_t *const *rows,
                       const int16_t *weights, int32_t n_pairs) {
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (int32_t t = 0; t < 2 * n_pairs; t++)
            sum += (uint64_t)rows[t][at + i] * weight(weights, t);
        out[i] = finish_wide(sum);
    }
}

static void block(uint8_t *out, size_t n, size_t at, const uint8_t *const *rows,
                  const int16_t *weights, int32_t n_pairs) {
    uint32_t sums[BLOCK] = {0};
    for (int32_t t = 0; t < 2 * n_pairs; t++) {
        const uint32_t w = weight(weights, t);
        const uint8_t *row = rows[t] + at;
        for (size_t i = 0; i < n; i++)
            sums[i] += row[i] * w;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = finish(sums[i]);
}

static void vertical(uint8_t *out, size_t n, const uint8_t *const *rows, const int16_t *weights,
                     int32_t n_pairs) {
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t here = n - at < BLOCK ? n - at : BLOCK;
        if (2 * n_pairs > RESAMPLE_MAX_TAPS)
            wide_block(out + at, here, at, rows, weights, n_pairs);
        else
            block(out + at, here, at, rows, weights, n_pairs);
    }
}

const resample_kernels iter__resample_generic = {triangle_generic, horizontal, vertical};
