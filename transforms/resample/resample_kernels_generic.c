/* resample_kernels_generic.c - the resampling kernels in portable C. */
#include "transforms/resample/resample.h"

#define NAME(x) x##generic
#include "transforms/resample/resample_windows_template.h"

/* 4 c of tap t, or c if weights are cubic, see resample.h. Negative weights are modulo 2^32. */
static inline uint32_t weight(const int16_t *weights, int32_t t, bool is_cubic) {
    const int16_t *pair = weights + (t >> 1) * 4 + (t & 1);
    const uint32_t high = (uint32_t)(int32_t)pair[0];
    return (high << (is_cubic ? RESAMPLE_CUBIC_BITS : RESAMPLE_LOW_BITS)) + (uint32_t)pair[2];
}

#define HALF       (1u << 23)
#define CUBIC_HALF (1 << 21)
#define FEW        32 /* taps whose weights are computed once for all rows and channels */

static inline uint8_t to_byte(int64_t x) {
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* For up to RESAMPLE_MAX_TAPS taps roundings cannot push the result above 255, or the sum above 32
 * bits. */
static inline uint8_t finish(uint32_t sum, bool is_cubic) {
    if (is_cubic) return to_byte(((int32_t)sum + CUBIC_HALF) >> RESAMPLE_BITS);
    return (uint8_t)((sum + HALF) >> 24);
}

static inline uint8_t finish_wide(int64_t sum, bool is_cubic) {
    if (is_cubic) return to_byte((sum + CUBIC_HALF) >> RESAMPLE_BITS);
    return to_byte((sum + HALF) >> 24);
}

/* As weight(), but signed. */
static inline int64_t wide_weight(const int16_t *weights, int32_t t, bool is_cubic) {
    return (int32_t)weight(weights, t, is_cubic);
}

static uint8_t wide_pixel(const uint8_t *at, int32_t channels, const int16_t *weights,
                          int32_t n_taps, bool is_cubic) {
    int64_t sum = 0;
    for (int32_t t = 0; t < n_taps; t++, at += channels)
        sum += *at * wide_weight(weights, t, is_cubic);
    return finish_wide(sum, is_cubic);
}

/* The functions below are compiled twice: is_cubic is a constant in each. */
#define INLINE static inline __attribute__((always_inline))

INLINE void pixel(const bool is_cubic, uint8_t *out, const uint8_t *at, const int32_t channels,
                  const uint32_t *weights, int32_t n_taps) {
    uint32_t sums[RESAMPLE_MAX_CHANNELS] = {0};
    for (int32_t t = 0; t < n_taps; t++, at += channels)
        for (int32_t c = 0; c < channels; c++)
            sums[c] += at[c] * weights[t];
    for (int32_t c = 0; c < channels; c++)
        out[c] = finish(sums[c], is_cubic);
}

INLINE void rows(const bool is_cubic, uint8_t *out, ptrdiff_t out_step, const uint8_t *const *in,
                 const resample_axis *axis, int32_t channels) {
    uint32_t few[FEW];
    for (int32_t i = 0; i < axis->n_out; i++) {
        const int16_t *weights = axis->weights + (size_t)i * (size_t)axis->n_pairs * 4;
        for (int32_t t = 0; t < axis->n_taps && t < FEW; t++)
            few[t] = weight(weights, t, is_cubic);
        for (int32_t row = 0; row < RESAMPLE_ROWS; row++) {
            const uint8_t *at = in[row] + (ptrdiff_t)axis->first[i] * channels;
            uint8_t *to = out + row * out_step + (ptrdiff_t)i * channels;
            if (axis->n_taps > FEW)
                for (int32_t c = 0; c < channels; c++)
                    to[c] = wide_pixel(at + c, channels, weights, axis->n_taps, is_cubic);
            else if (channels == 3)
                pixel(is_cubic, to, at, 3, few, axis->n_taps);
            else
                pixel(is_cubic, to, at, channels, few, axis->n_taps);
        }
    }
}

static void horizontal(uint8_t *out, ptrdiff_t out_step, const uint8_t *const in[RESAMPLE_ROWS],
                       const resample_axis *axis, int32_t channels) {
    if (axis->is_cubic)
        rows(true, out, out_step, in, axis, channels);
    else
        rows(false, out, out_step, in, axis, channels);
}

enum { BLOCK = 256 };

static void wide_block(uint8_t *out, size_t n, size_t at, const uint8_t *const *rows,
                       const int16_t *weights, int32_t n_pairs, bool is_cubic) {
    for (size_t i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int32_t t = 0; t < 2 * n_pairs; t++)
            sum += rows[t][at + i] * wide_weight(weights, t, is_cubic);
        out[i] = finish_wide(sum, is_cubic);
    }
}

INLINE void block(const bool is_cubic, uint8_t *out, size_t n, size_t at,
                  const uint8_t *const *rows, const int16_t *weights, int32_t n_pairs) {
    uint32_t sums[BLOCK] = {0};
    for (int32_t t = 0; t < 2 * n_pairs; t++) {
        const uint32_t w = weight(weights, t, is_cubic);
        const uint8_t *row = rows[t] + at;
        for (size_t i = 0; i < n; i++)
            sums[i] += row[i] * w;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = finish(sums[i], is_cubic);
}

static void vertical(uint8_t *out, size_t n, const uint8_t *const *rows, const int16_t *weights,
                     int32_t n_pairs, bool is_cubic) {
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t here = n - at < BLOCK ? n - at : BLOCK;
        if (2 * n_pairs > RESAMPLE_MAX_TAPS)
            wide_block(out + at, here, at, rows, weights, n_pairs, is_cubic);
        else if (is_cubic)
            block(true, out + at, here, at, rows, weights, n_pairs);
        else
            block(false, out + at, here, at, rows, weights, n_pairs);
    }
}

const resample_kernels iter__resample_generic = {windows_generic, horizontal, vertical};
