/*
 * resample_kernels_template.h - the resampling kernels of one SIMD level, by inclusion.
 *
 * The including file defines, for its level:
 *
 *   LEVEL                        name of the table, e.g. avx2
 *   vec, LANES                   a vector, and how many lanes of 16 bytes it has
 *   zero(), set32(x)             all bits 0; one 32-bit number everywhere
 *   repeat(p)                    16 bytes in each lane
 *   gather(rows, at)             lane k = 16 bytes from rows[k] + at
 *   scatter(out, step, v)        lane k to out + k * step
 *   load(p), load_some(p, n)     a whole vector; its first n bytes, the others 0
 *   store_some(p, v, n)          its first n bytes
 *   shuffle(v, order)            bytes within each lane; order >= 0x80 = 0
 *   dot(sum, v, w)               sum + pairs of 16-bit products, added up
 *   add32(a, b), shift_left(v, n) of each 32-bit number
 *   low8(a, b), high8(a, b)      bytes of the lower or upper half of each lane, interleaved
 *   START                        start of a sum of high digits: one half once it is shifted, or 0
 *                                at levels whose top_bytes() rounds
 *   hold(held, k, sum)           keeps vector k, in order, of the four that become bytes together
 *   top_bytes(held)              the top byte of each of their 32-bit numbers, in the level's own
 *                                order within a lane
 *   in_order(v)                  the same bytes with vector 0's first in each lane
 *   order_of(order)              shuffle(v, order_of(order)) = shuffle(in_order(v), order)
 *   shift_right(v, n)            of each 32-bit number, with its sign
 *   pack32(a, b), pack16(a, b)   numbers clamped to signed 16 bits; to bytes; a's come first in
 *                                each lane
 *
 * and includes this file last.
 *
 * Horizontal: a lane is a source row. 16 bytes hold four taps of up to four channels. A shuffle
 * puts two taps of each channel next to each other as words, and one dot product adds them up, 32
 * bits per channel. All lanes have the same weights, so these are broadcast from memory. Four
 * pixels are packed to 16 bytes of their own rows. Vertical: bytes of two rows are interleaved and
 * widened.
 */
#include <string.h>

#include "transforms/resample/resample.h"

#define INLINE static inline __attribute__((always_inline))

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)
#define NAME(x)      PASTE(x, LEVEL)

#include "transforms/resample/resample_windows_template.h"

/* The same two weights everywhere. */
INLINE vec NAME(pair_)(const int16_t *w) {
    int32_t pair;
    memcpy(&pair, w, sizeof(pair));
    return set32(pair);
}

/* Half a unit of the result once the high digits are shifted. is_cubic is a constant in all of
 * these functions. */
INLINE vec NAME(start_)(const bool is_cubic) {
    return is_cubic ? set32(1 << (RESAMPLE_BITS - 1 - RESAMPLE_CUBIC_BITS)) : START;
}

INLINE vec NAME(shift_)(const bool is_cubic, vec high) {
    return is_cubic ? shift_left(high, RESAMPLE_CUBIC_BITS) : shift_left(high, RESAMPLE_LOW_BITS);
}

INLINE void NAME(hold_)(const bool is_cubic, vec *held, int k, vec sum) {
    if (is_cubic)
        held[k] = shift_right(sum, RESAMPLE_BITS);
    else
        hold(held, k, sum);
}

/* Four vectors of results as bytes, vector 0's first in each lane. */
INLINE vec NAME(bytes_)(const bool is_cubic, const vec *held) {
    if (is_cubic) return pack16(pack32(held[0], held[1]), pack32(held[2], held[3]));
    return in_order(top_bytes(held));
}

/* The same, with the bytes of each lane shuffled: by `order` if is_cubic, else `order` must be an
 * order_of(). */
INLINE vec NAME(shuffled_)(const bool is_cubic, const vec *held, vec order) {
    if (is_cubic) return shuffle(NAME(bytes_)(is_cubic, held), order);
    return shuffle(top_bytes(held), order);
}

/* ---- Horizontal ------------------------------------------------------------------------------ */

/* Local copies: the compiler must assume that a store of bytes changes any other memory. */
typedef struct NAME(source_) {
    const uint8_t *rows[RESAMPLE_ROWS];
    vec orders[4];
} NAME(source_);

#define GROUPS (RESAMPLE_ROWS / LANES)

/* One output pixel of each row; up to 4 taps, or 5 if five pixels fit into one load. */
INLINE void NAME(pixel_)(const bool is_cubic, vec *out, const int32_t n_pairs,
                         const NAME(source_) * from, ptrdiff_t at, const int16_t *w) {
    for (int32_t g = 0; g < GROUPS; g++) {
        const vec v = gather(from->rows + g * LANES, at);
        vec sum = NAME(start_)(is_cubic);
        for (int32_t p = 0; p < n_pairs; p++)
            sum = dot(sum, shuffle(v, from->orders[p]), NAME(pair_)(w + 4 * p));
        sum = NAME(shift_)(is_cubic, sum);
        for (int32_t p = 0; p < n_pairs; p++)
            sum = dot(sum, shuffle(v, from->orders[p]), NAME(pair_)(w + 4 * p + 2));
        out[g] = sum;
    }
}

/* The same, any number of taps. */
INLINE void NAME(wide_pixel_)(const bool is_cubic, vec *out, const int32_t n_pairs,
                              const NAME(source_) * from, ptrdiff_t at, const int16_t *w,
                              int32_t channels) {
    vec high[GROUPS], low[GROUPS];
    for (int32_t g = 0; g < GROUPS; g++) {
        high[g] = NAME(start_)(is_cubic);
        low[g] = zero();
    }
    for (int32_t p = 0; p < n_pairs; p += 2, at += 4 * channels)
        for (int32_t g = 0; g < GROUPS; g++) {
            const vec v = gather(from->rows + g * LANES, at);
            for (int32_t k = p; k < p + 2 && k < n_pairs; k++) {
                const vec taps = shuffle(v, from->orders[k - p]);
                high[g] = dot(high[g], taps, NAME(pair_)(w + 4 * k));
                low[g] = dot(low[g], taps, NAME(pair_)(w + 4 * k + 2));
            }
        }
    for (int32_t g = 0; g < GROUPS; g++)
        out[g] = add32(NAME(shift_)(is_cubic, high[g]), low[g]);
}

INLINE void NAME(rows_)(const bool is_cubic, const int wide, const int32_t n_pairs, uint8_t *out,
                        ptrdiff_t out_step, const uint8_t *const *rows, const resample_axis *axis,
                        int32_t channels) {
    const int16_t *w = axis->weights;
    const int32_t *first = axis->first, n = axis->n_out;
    NAME(source_) from;
    for (int32_t k = 0; k < RESAMPLE_ROWS; k++)
        from.rows[k] = rows[k];
    for (int32_t k = 0; k < 4; k++)
        from.orders[k] = repeat(iter__resample_orders[channels - 1][k]);
    if (!is_cubic) from.orders[3] = order_of(from.orders[3]);
    for (int32_t i = 0; i < n; i += RESAMPLE_PIXELS) {
        vec held[GROUPS][RESAMPLE_PIXELS];
        for (int32_t k = 0; k < RESAMPLE_PIXELS; k++, w += 4 * n_pairs) {
            const ptrdiff_t at = (ptrdiff_t)first[i + k] * channels;
            vec sum[GROUPS];
            if (wide)
                NAME(wide_pixel_)(is_cubic, sum, n_pairs, &from, at, w, channels);
            else
                NAME(pixel_)(is_cubic, sum, n_pairs, &from, at, w);
            for (int32_t g = 0; g < GROUPS; g++)
                NAME(hold_)(is_cubic, held[g], k, sum[g]);
        }
        for (int32_t g = 0; g < GROUPS; g++)
            scatter(out + g * LANES * out_step + (ptrdiff_t)i * channels, out_step,
                    NAME(shuffled_)(is_cubic, held[g], from.orders[3]));
    }
}

INLINE void NAME(any_rows_)(const bool is_cubic, uint8_t *out, ptrdiff_t out_step,
                            const uint8_t *const *in, const resample_axis *axis, int32_t channels) {
    const int fits = axis->n_taps <= 4 || (axis->n_taps == 5 && channels < 4);
    if (!fits)
        NAME(rows_)(is_cubic, 1, axis->n_pairs, out, out_step, in, axis, channels);
    else if (axis->n_pairs == 1)
        NAME(rows_)(is_cubic, 0, 1, out, out_step, in, axis, channels);
    else if (axis->n_pairs == 2)
        NAME(rows_)(is_cubic, 0, 2, out, out_step, in, axis, channels);
    else
        NAME(rows_)(is_cubic, 0, 3, out, out_step, in, axis, channels);
}

/* A function of its own, so that the compiler allocates registers for each case separately. */
static __attribute__((noinline)) void NAME(cubic_rows_)(uint8_t *out, ptrdiff_t out_step,
                                                        const uint8_t *const *in,
                                                        const resample_axis *axis,
                                                        int32_t channels) {
    NAME(any_rows_)(true, out, out_step, in, axis, channels);
}

static void NAME(horizontal_)(uint8_t *out, ptrdiff_t out_step,
                              const uint8_t *const in[RESAMPLE_ROWS], const resample_axis *axis,
                              int32_t channels) {
    if (axis->is_cubic)
        NAME(cubic_rows_)(out, out_step, in, axis, channels);
    else
        NAME(any_rows_)(false, out, out_step, in, axis, channels);
}

/* ---- Vertical -------------------------------------------------------------------------------- */

/* n bytes, or a whole vector, from offset `at` of the rows. Half of each lane at a time, because
 * the sums of all would not fit into 16 registers. */
INLINE vec NAME(block_)(const bool is_cubic, const int whole, const int32_t n_pairs, size_t at,
                        size_t n, const uint8_t *const *rows, const int16_t *w) {
    vec held[4];
    for (int half = 0; half < 2; half++) {
        const vec start = NAME(start_)(is_cubic);
        vec high[2] = {start, start}, low[2] = {zero(), zero()};
        for (int32_t p = 0; p < n_pairs; p++) {
            const uint8_t *from_a = rows[2 * p] + at, *from_b = rows[2 * p + 1] + at;
            const vec a = whole ? load(from_a) : load_some(from_a, n);
            const vec b = whole ? load(from_b) : load_some(from_b, n);
            const vec both = half ? high8(a, b) : low8(a, b);
            for (int k = 0; k < 2; k++) {
                const vec taps = k ? high8(both, zero()) : low8(both, zero());
                high[k] = dot(high[k], taps, NAME(pair_)(w + 4 * p));
                low[k] = dot(low[k], taps, NAME(pair_)(w + 4 * p + 2));
            }
        }
        for (int k = 0; k < 2; k++)
            NAME(hold_)
        (is_cubic, held, 2 * half + k, add32(NAME(shift_)(is_cubic, high[k]), low[k]));
    }
    return NAME(bytes_)(is_cubic, held);
}

INLINE void NAME(row_)(const bool is_cubic, const int32_t n_pairs, uint8_t *out, size_t n,
                       const uint8_t *const *rows, const int16_t *w) {
    const size_t bytes = sizeof(vec);
    size_t at = 0;
    for (; at + bytes <= n; at += bytes)
        store_some(out + at, NAME(block_)(is_cubic, 1, n_pairs, at, 0, rows, w), bytes);
    if (at < n)
        store_some(out + at, NAME(block_)(is_cubic, 0, n_pairs, at, n - at, rows, w), n - at);
}

INLINE void NAME(any_row_)(const bool is_cubic, uint8_t *out, size_t n, const uint8_t *const *rows,
                           const int16_t *weights, int32_t n_pairs) {
    if (n_pairs == 1)
        NAME(row_)(is_cubic, 1, out, n, rows, weights);
    else if (n_pairs == 2)
        NAME(row_)(is_cubic, 2, out, n, rows, weights);
    else if (n_pairs == 3)
        NAME(row_)(is_cubic, 3, out, n, rows, weights);
    else
        NAME(row_)(is_cubic, n_pairs, out, n, rows, weights);
}

static __attribute__((noinline)) void NAME(cubic_row_)(uint8_t *out, size_t n,
                                                       const uint8_t *const *rows,
                                                       const int16_t *weights, int32_t n_pairs) {
    NAME(any_row_)(true, out, n, rows, weights, n_pairs);
}

static void NAME(vertical_)(uint8_t *out, size_t n, const uint8_t *const *rows,
                            const int16_t *weights, int32_t n_pairs, bool is_cubic) {
    if (is_cubic)
        NAME(cubic_row_)(out, n, rows, weights, n_pairs);
    else
        NAME(any_row_)(false, out, n, rows, weights, n_pairs);
}

const resample_kernels NAME(iter__resample_) = {NAME(windows_), NAME(horizontal_), NAME(vertical_)};

#undef INLINE
#undef PASTE_
#undef PASTE
#undef NAME
#undef GROUPS
