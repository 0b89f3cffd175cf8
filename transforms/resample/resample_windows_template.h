/*
 * resample_windows_template.h - the windows of the triangle and the cubic, by inclusion. The
 * including file defines NAME(x), which makes names of its level.
 *
 * Weights are computed in double by the same operations in the same order as in Pillow's
 * precompute_coeffs() and normalize_coeffs_8bpc(), because the bits depend on it. Several windows
 * are computed at a time and without branches, so that the compiler vectorises the loops over k.
 * Weights beyond a window's end are 0 and add nothing to its sum.
 */
#include <math.h>
#include <string.h>

#include "transforms/resample/resample.h"

#define ONE        (1 << RESAMPLE_BITS)
#define HIGH_SHIFT RESAMPLE_CUBIC_BITS

/* Output positions i .. i + 7. Those beyond the last one repeat it. */
typedef struct NAME(batch_) {
    double centre[RESAMPLE_BATCH];
    int32_t first[RESAMPLE_BATCH], count[RESAMPLE_BATCH];
} NAME(batch_);

static inline void NAME(place_)(NAME(batch_) * b, const resample_axis *axis, int32_t i,
                                double scale, double support) {
    const int32_t last = axis->n_out - 1, n_in = axis->n_in;
    for (int32_t k = 0; k < RESAMPLE_BATCH; k++) {
        const int32_t at = i + k < last ? i + k : last;
        const double centre = ((double)at + 0.5) * scale;
        const int32_t low = (int32_t)(centre - support + 0.5);
        const int32_t high = (int32_t)(centre + support + 0.5);
        b->centre[k] = centre;
        b->first[k] = low > 0 ? low : 0;
        b->count[k] = (high < n_in ? high : n_in) - b->first[k];
    }
}

/* The filters; x is a distance, at least 0. */
static inline double NAME(triangle_)(double x) {
    return x < 1.0 ? 1.0 - x : 0.0;
}

static inline double NAME(cubic_)(double x) {
    const double a = -0.5;
    const double inner = ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    const double outer = (((x - 5) * x + 8) * x - 4) * a;
    return x < 1.0 ? inner : x < 2.0 ? outer : 0.0;
}

/* Weights in 2^-22, [n_taps][RESAMPLE_BATCH]. */
static inline __attribute__((always_inline)) void NAME(weigh_)(const bool is_cubic,
                                                               const NAME(batch_) * b,
                                                               double shrink, int32_t n_taps,
                                                               double *w, int32_t *out) {
    double sum[RESAMPLE_BATCH] = {0};
    for (int32_t x = 0; x < n_taps; x++)
        for (int32_t k = 0; k < RESAMPLE_BATCH; k++) {
            const double distance = fabs(((double)(x + b->first[k]) - b->centre[k] + 0.5) * shrink);
            const double inside = is_cubic ? NAME(cubic_)(distance) : NAME(triangle_)(distance);
            const double weight = x < b->count[k] ? inside : 0.0;
            w[x * RESAMPLE_BATCH + k] = weight;
            sum[k] += weight;
        }
    for (int32_t x = 0; x < n_taps; x++)
        for (int32_t k = 0; k < RESAMPLE_BATCH; k++) {
            const double weight = w[x * RESAMPLE_BATCH + k] / sum[k];
            const double half = is_cubic && weight < 0 ? -0.5 : 0.5;
            out[x * RESAMPLE_BATCH + k] = (int32_t)(half + weight * ONE);
        }
}

static inline __attribute__((always_inline)) int32_t
NAME(fill_)(const bool is_cubic, resample_axis *axis, int32_t n_taps, void *room) {
    const double scale = (double)axis->n_in / (double)axis->n_out;
    const double step = scale < 1.0 ? 1.0 : scale;
    const double support = is_cubic ? 2.0 * step : step;
    const double shrink = 1.0 / step;
    const int32_t low_shift = is_cubic ? 0 : 2;
    const uint32_t low_mask = (1u << (HIGH_SHIFT + low_shift)) - 1;
    const int32_t n_pairs = (n_taps + 1) / 2;
    const int32_t end = (axis->n_out + RESAMPLE_PIXELS - 1) / RESAMPLE_PIXELS * RESAMPLE_PIXELS;
    double *w = room;
    int32_t *weights = (int32_t *)(void *)(w + (size_t)n_taps * RESAMPLE_BATCH);
    int32_t n = 1;
    for (int32_t i = 0; i < end; i += RESAMPLE_BATCH) {
        const int32_t here = end - i < RESAMPLE_BATCH ? end - i : RESAMPLE_BATCH;
        NAME(batch_) batch;
        NAME(place_)(&batch, axis, i, scale, support);
        NAME(weigh_)(is_cubic, &batch, shrink, n_taps, w, weights);
        memcpy(axis->first + i, batch.first, (size_t)here * sizeof(*axis->first));
        for (int32_t p = 0; p < n_pairs; p++) {
            const int32_t *a = weights + 2 * p * RESAMPLE_BATCH, *b = a + RESAMPLE_BATCH;
            const int32_t has_b = 2 * p + 1 < n_taps;
            int16_t *to = axis->weights + ((size_t)i * (size_t)n_pairs + (size_t)p) * 4;
            for (int32_t k = 0; k < here; k++, to += 4 * n_pairs) {
                const int32_t one = a[k], two = has_b ? b[k] : 0;
                const int16_t pair[4] = {(int16_t)(one >> HIGH_SHIFT), (int16_t)(two >> HIGH_SHIFT),
                                         (int16_t)((uint32_t)one << low_shift & low_mask),
                                         (int16_t)((uint32_t)two << low_shift & low_mask)};
                memcpy(to, pair, sizeof(pair));
                n = one && 2 * p + 1 > n ? 2 * p + 1 : n;
                n = two && 2 * p + 2 > n ? 2 * p + 2 : n;
            }
        }
    }
    return n;
}

static int32_t NAME(windows_)(resample_axis *axis, int32_t n_taps, void *room) {
    return axis->is_cubic ? NAME(fill_)(true, axis, n_taps, room)
                          : NAME(fill_)(false, axis, n_taps, room);
}

#undef ONE
#undef HIGH_SHIFT
