/*
 * resample.h - an image of bytes to another size: separable filters in fixed point, the same bits
 * at every SIMD level.
 *
 * The method is that of Pillow's Resample.c: two passes with bytes between them, and a weight c is
 * a whole number of 2^-22. So bilinear with antialias and bicubic equal Pillow bit for bit, since
 * version 13. (Older versions always begin with rows, so some results are one level away.) Weights
 * are kept as two digits, because processors have instructions that multiply 16-bit numbers and add
 * them in pairs. With H and L the sums over the digits:
 *
 *   without negative weights   4 c = 1024 * high + low. The result is the top byte of
 *                              1024 H + L + 2^23. That cannot overflow, because the result is at
 *                              most 255.
 *   cubic                      c = 256 * high + low, where high may be negative. The result is
 *                              256 H + L + 2^21, divided by 2^22, rounded down and clamped to a
 *                              byte. A weight is below 1.125 and their absolute values add up to
 *                              less than 1.3, so |256 H + L| is below 2^31.
 *
 * If a window has so many taps that roundings could add up, the generic kernels run it.
 */
#ifndef ITER_TRANSFORMS_RESAMPLE_RESAMPLE_H
#define ITER_TRANSFORMS_RESAMPLE_RESAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iter/core/cpu.h"

#define RESAMPLE_BITS         22   /* 32 of a sum, 8 of a byte, 2 to spare */
#define RESAMPLE_LOW_BITS     10   /* of the lower digit of 4 c */
#define RESAMPLE_CUBIC_BITS   8    /* of the lower digit of c */
#define RESAMPLE_MAX_TAPS     4096 /* 255 * 4 * taps / 2 roundings, far below 2^23 */
#define RESAMPLE_MAX_CHANNELS 4
#define RESAMPLE_ROWS         4  /* rows that a horizontal kernel makes at once */
#define RESAMPLE_PIXELS       4  /* output pixels that it makes at once */
#define RESAMPLE_LOAD         16 /* bytes that it loads for four taps */

/* Filters, by the resize option's numbers. */
typedef enum resample_filter {
    RESAMPLE_BILINEAR, /* triangle, as wide as the step: antialias */
    RESAMPLE_BICUBIC,  /* cubic with a = -0.5, four pixels or steps wide: antialias */
    RESAMPLE_LINEAR,   /* the two nearest, however large the step */
    RESAMPLE_AREA,     /* mean of the pixels that an output pixel covers */
    RESAMPLE_NEAREST   /* the pixel under the output pixel's centre */
} resample_filter;

/* The windows of one axis. The window of output position i is source positions first[i] .. first[i]
 * + n_taps - 1; weights beyond the source's end are 0. weights[i * n_pairs + p] holds taps 2p and
 * 2p + 1 as four numbers: high, high, low, low. */
typedef struct resample_axis {
    bool is_cubic; /* weights are digits of c, and may be negative */
    int32_t n_in, n_out, n_taps, n_pairs;
    int32_t *first;   /* [n_out rounded up to RESAMPLE_PIXELS] */
    int16_t *weights; /* [as many][n_pairs][4] */
} resample_axis;

/* Number of windows whose weights are computed at a time, and the memory for them. */
#define RESAMPLE_BATCH        8
#define RESAMPLE_ROOM(n_taps) ((size_t)(n_taps)*RESAMPLE_BATCH * (sizeof(double) + sizeof(int32_t)))

typedef struct resample_kernels {
    /* Fills axis->first and ->weights for the triangle, or for the cubic if axis->is_cubic. n_in,
     * n_out and n_pairs must be set; n_taps is iter__resample_taps(). Returns the number of taps up
     * to the last one that is not 0 in every window. room: RESAMPLE_ROOM(n_taps) bytes. */
    int32_t (*windows)(resample_axis *axis, int32_t n_taps, void *room);
    /* Rows in[0..4) through the windows of `axis` to rows out + k * out_step. Reads RESAMPLE_LOAD
     * bytes from every fourth tap on. Writes whole groups of RESAMPLE_PIXELS pixels, the last one
     * as 16 bytes, so out must have room for them. */
    void (*horizontal)(uint8_t *out, ptrdiff_t out_step, const uint8_t *const in[RESAMPLE_ROWS],
                       const resample_axis *axis, int32_t channels);
    /* One row of n bytes from 2 * n_pairs rows. */
    void (*vertical)(uint8_t *out, size_t n, const uint8_t *const *rows, const int16_t *weights,
                     int32_t n_pairs, bool is_cubic);
} resample_kernels;

extern const resample_kernels iter__resample_generic;
extern const resample_kernels iter__resample_avx2;
extern const resample_kernels iter__resample_avx512;
extern const resample_kernels iter__resample_vnni; /* AVX-512 with its dot products of words */

/* For each number of channels, four shuffles of 16 bytes of neighbouring pixels (0x80 = a zero).
 * The first three make words, two per channel: taps 0 and 1; taps 2 and 3; tap 4 and nothing. The
 * last one packs pixels of four bytes. */
extern const uint8_t iter__resample_orders[RESAMPLE_MAX_CHANNELS][4][16];

/* The kernels of a level. */
const resample_kernels *iter__resample_kernels(iter__cpu level);

/* The largest number of taps that a window can have. */
int32_t iter__resample_taps(resample_filter filter, int64_t n_in, int64_t n_out);

/* Fills axis->first and ->weights, which must have room for iter__resample_taps() taps, in pairs,
 * and sets the rest. room: RESAMPLE_ROOM of so many taps and one more, 64-byte aligned. */
void iter__resample_windows(resample_axis *axis, resample_filter filter, int64_t n_in,
                            int64_t n_out, const resample_kernels *kernels, void *room);

/* Sizes from 1 to RESAMPLE_MAX_SIDE. */
#define RESAMPLE_MAX_SIDE 65535

typedef struct resample_image {
    const uint8_t *data;
    ptrdiff_t row_step; /* bytes from row to row, at least width * channels */
    int64_t height, width;
} resample_image;

/* Bytes of scratch for iter__resample(); never 0. */
size_t iter__resample_scratch(resample_filter filter, int64_t in_height, int64_t in_width,
                              int64_t out_height, int64_t out_width, int32_t channels);

/* Resamples `in` to dense out[out_height][out_width][channels]. scratch: 64-byte aligned. Nothing
 * outside the images' bytes is touched. */
void iter__resample(resample_filter filter, const resample_image *in, uint8_t *out,
                    int64_t out_height, int64_t out_width, int32_t channels,
                    const resample_kernels *kernels, void *scratch);

/* The same over rows that arrive one after the other, with the same bits. The run lies in the
 * scratch, which is as large as for iter__resample(). */
typedef struct resample_run resample_run;

/* Returns NULL if this filter and these sizes need the whole image. Each row must be readable for
 * *out_reach bytes; those after its pixels may hold anything. */
resample_run *iter__resample_begin(resample_filter filter, int64_t in_height, int64_t in_width,
                                   uint8_t *out, int64_t out_height, int64_t out_width,
                                   int32_t channels, const resample_kernels *kernels, void *scratch,
                                   size_t *out_reach);

/* Takes the next n rows, borrowed for the call. Returns how many rows of out are finished. */
int64_t iter__resample_rows(resample_run *run, const uint8_t *const *rows, int32_t n);

#endif
