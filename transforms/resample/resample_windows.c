/*
 * resample_windows.c - the source pixels that make an output pixel, and their weights.
 *
 * The filters here compute windows one by one. The triangle and the cubic compute several at a
 * time, see resample_windows_template.h.
 */
#include <assert.h>
#include <string.h>

#include "iter/core/arith.h"
#include "transforms/resample/resample.h"

#define ONE        (1 << RESAMPLE_BITS)
#define HIGH_SHIFT (RESAMPLE_LOW_BITS - 2)
#define LOW_MASK   ((1 << RESAMPLE_LOW_BITS) - 1)

/* ---- Windows --------------------------------------------------------------------------------- */

/* Each function writes the weights of output position i to w[], from source pixel *first on, and
 * returns how many there are. */

/* The two pixels whose centres are nearest; at the edge only one. In units of 1 / (2 n_out) source
 * pixels the centre lies at (2 i + 1) n_in, and source centres lie at (2 x + 1) n_out. */
static int32_t linear_window(int32_t n_in, int32_t n_out, int32_t i, int32_t *first, double *w) {
    const int64_t from = (2 * (int64_t)i + 1) * n_in - n_out, step = 2 * (int64_t)n_out;
    const int32_t low = from < 0 ? 0 : (int32_t)(from / step);
    const double part = from < 0 ? 0.0 : (double)(from - low * step) / (double)step;
    *first = low;
    w[0] = 1.0 - part;
    w[1] = part;
    if (low + 1 < n_in) return 2;
    w[0] = 1.0;
    return 1;
}

/* Weights by overlap. In units of 1 / n_out source pixels the output pixel is [i n_in, (i + 1)
 * n_in), and source pixel x is [x n_out, (x + 1) n_out). */
static int32_t area_window(int32_t n_in, int32_t n_out, int32_t i, int32_t *first, double *w) {
    const int64_t begin = (int64_t)i * n_in, end = begin + n_in;
    const int32_t low = (int32_t)(begin / n_out);
    const double whole = 1.0 / (double)n_in;
    int32_t n = 0;
    for (int64_t at = (int64_t)low * n_out; at < end; at += n_out, n++) {
        const int64_t from = iter__max_i64(at, begin), to = iter__min_i64(at + n_out, end);
        w[n] = (double)(to - from) * whole;
    }
    *first = low;
    return n;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Writes w[0..n_taps), from source position `first` on, as window i. Returns the number of taps up
 * to the last one that is not 0. */
static int32_t put_window(resample_axis *axis, int32_t i, int32_t first, double *w,
                          int32_t n_taps) {
    const int32_t n_pairs = (n_taps + 1) / 2;
    int16_t *to = axis->weights + (size_t)i * (size_t)n_pairs * 4;
    int32_t n = 0;
    if (n_taps & 1) w[n_taps] = 0.0;
    for (int32_t p = 0; p < n_pairs; p++) {
        const int32_t a = (int32_t)(0.5 + w[2 * p] * ONE), b = (int32_t)(0.5 + w[2 * p + 1] * ONE);
        const int16_t pair[4] = {(int16_t)(a >> HIGH_SHIFT), (int16_t)(b >> HIGH_SHIFT),
                                 (int16_t)((a << 2) & LOW_MASK), (int16_t)((b << 2) & LOW_MASK)};
        memcpy(to + 4 * p, pair, sizeof(pair));
        n = a ? 2 * p + 1 : n;
        n = b ? 2 * p + 2 : n;
    }
    axis->first[i] = first;
    return n;
}

static int32_t linear_windows(resample_axis *axis, double *w) {
    int32_t n = 1;
    for (int32_t i = 0; i < axis->n_out; i++) {
        int32_t first;
        const int32_t taps = linear_window(axis->n_in, axis->n_out, i, &first, w);
        if (taps < 2) w[1] = 0.0;
        n = iter__max_i32(n, put_window(axis, i, first, w, 2));
    }
    return n;
}

static int32_t area_windows(resample_axis *axis, int32_t n_taps, double *w) {
    int32_t n = 1;
    for (int32_t i = 0; i < axis->n_out; i++) {
        int32_t first;
        for (int32_t t = area_window(axis->n_in, axis->n_out, i, &first, w); t < n_taps; t++)
            w[t] = 0.0;
        n = iter__max_i32(n, put_window(axis, i, first, w, n_taps));
    }
    return n;
}

/* Windows are narrower than planned: closes the gaps. */
static void close_gaps(resample_axis *axis, int32_t n_pairs) {
    const size_t from = (size_t)axis->n_pairs * 4, to = (size_t)n_pairs * 4;
    for (size_t i = 1; i < (size_t)axis->n_out; i++)
        memmove(axis->weights + i * to, axis->weights + i * from, to * sizeof(*axis->weights));
    axis->n_pairs = n_pairs;
}

int32_t iter__resample_taps(resample_filter filter, int64_t n_in, int64_t n_out) {
    const int64_t scale = n_in / n_out;
    int64_t n = 1;
    switch (filter) {
    case RESAMPLE_BILINEAR: n = n_in < n_out ? 3 : 2 * n_in / n_out + 1; break;
    case RESAMPLE_BICUBIC: n = n_in < n_out ? 5 : 4 * n_in / n_out + 1; break;
    case RESAMPLE_LINEAR: return 2;
    case RESAMPLE_AREA: n = scale + 2; break;
    case RESAMPLE_NEAREST: break;
    }
    return (int32_t)iter__min_i64(n, n_in); /* the first tap is within the source, so that many */
}

void iter__resample_windows(resample_axis *axis, resample_filter filter, int64_t n_in,
                            int64_t n_out, const resample_kernels *kernels, void *room) {
    assert(n_in >= 1 && n_in <= RESAMPLE_MAX_SIDE && n_out >= 1 && n_out <= RESAMPLE_MAX_SIDE);
    assert(filter != RESAMPLE_NEAREST);
    axis->n_in = (int32_t)n_in;
    axis->n_out = (int32_t)n_out;
    const int32_t n_taps = iter__resample_taps(filter, n_in, n_out);
    axis->n_pairs = (n_taps + 1) / 2;
    axis->is_cubic = filter == RESAMPLE_BICUBIC;
    if (filter == RESAMPLE_LINEAR)
        axis->n_taps = linear_windows(axis, room);
    else if (filter == RESAMPLE_AREA)
        axis->n_taps = area_windows(axis, n_taps, room);
    else
        axis->n_taps = kernels->windows(axis, n_taps, room);
    const int32_t n_pairs = (axis->n_taps + 1) / 2;
    if (n_pairs < axis->n_pairs) close_gaps(axis, n_pairs);
    const size_t window = (size_t)axis->n_pairs * 4 * sizeof(*axis->weights);
    for (int32_t i = axis->n_out; i % RESAMPLE_PIXELS != 0; i++) { /* fills up the last group */
        axis->first[i] = axis->first[i - 1];
        memcpy((char *)axis->weights + (size_t)i * window,
               (char *)axis->weights + (size_t)(i - 1) * window, window);
    }
}
