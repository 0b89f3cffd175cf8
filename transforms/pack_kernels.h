/*
 * pack_kernels.h - the inner loops of pack and convert, one set for each SIMD level and pair of types.
 *
 * Every kernel computes x * a + b as one rounded multiply and one rounded add in f32, never fused, so that all levels give the same bits.
 * Where there is nothing to compute, a = 1 and b = -0.0: that keeps every value, -0.0 included. Sources and targets may have any alignment.
 * Nothing is read or written outside the stated elements.
 *
 *   next     bytes that the next call will read, as many as this one reads: one cache line of it is fetched for each line that is
 *            converted. Never NULL: the caller passes `in` where there is nothing to fetch.
 */
#ifndef ITER_TRANSFORMS_PACK_KERNELS_H
#define ITER_TRANSFORMS_PACK_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include <iter/tensor.h>

#include "iter/core/cpu.h"

/* Spreads the cache lines of the next source over the rows of this one, as Bresenham's line does. */
typedef struct iter__fetch {
    const char *at;
    int64_t n_lines, n_rows, error; /* error starts at 0 and stays below n_rows */
} iter__fetch;

static inline void iter__fetch_row(iter__fetch *fetch) {
    for (fetch->error += fetch->n_lines; fetch->error >= fetch->n_rows;
         fetch->error -= fetch->n_rows) {
        __builtin_prefetch(fetch->at, 0, 3);
        fetch->at += 64;
    }
}

/* Rows cut out of a plane of bytes, mirrored or not, with a constant where the source has no pixel. */
typedef struct iter__window {
    int64_t n;          /* pixels of an output row */
    int64_t low, high;  /* those in [low, high) have a source */
    int64_t offset;     /* pixel p comes from byte offset + p of the source row, or offset - p where reverse */
    int32_t reverse;
    float a, b, fill;   /* fill: what a pixel without source holds, before it is rounded to the output type */
    int64_t n_rows;
    ptrdiff_t in_step;  /* bytes from source row to source row; negative upwards */
} iter__window;

typedef struct iter__kernels {
    /* n elements, one factor. */
    void (*line)(void *out, const void *in, size_t n, float a, float b, const void *next);
    /* n elements, a[i] and b[i] for each. */
    void (*table)(void *out, const void *in, size_t n, const float *a, const float *b);
    /* n pixels of three channels side by side, to the same. */
    void (*pixels3)(void *out, const void *in, size_t n, const float *a, const float *b,
                    const void *next);
    /* n pixels, three channels side by side, to three planes `plane` elements apart. */
    void (*split3)(void *out, size_t plane, const void *in, size_t n, const float *a,
                   const float *b, const void *next);
    /* n pixels from three planes, `plane` elements apart, to three channels side by side; next as one plane of n, in three places. */
    void (*join3)(void *out, const void *in, size_t plane, size_t n, const float *a, const float *b,
                  const void *next);
    /* u8 only, NULL at levels without masked loads: dense output rows. */
    void (*window)(void *out, const uint8_t *in, const iter__window *window, iter__fetch *fetch);
} iter__kernels;

/* The kernels of a level for a pair of types, or NULL where there are none. */
const iter__kernels *iter__kernels_get(iter_cpu level, iter_dtype in, iter_dtype out);

/* One table a level, rows = in, columns = out, in this order. */
enum { ITER__TYPE_U8, ITER__TYPE_F16, ITER__TYPE_BF16, ITER__TYPE_F32, ITER__KERNEL_TYPES };
extern const iter__kernels iter__kernels_generic[ITER__KERNEL_TYPES][ITER__KERNEL_TYPES];
extern const iter__kernels iter__kernels_avx2[ITER__KERNEL_TYPES][ITER__KERNEL_TYPES];
extern const iter__kernels iter__kernels_avx512[ITER__KERNEL_TYPES][ITER__KERNEL_TYPES];
extern const iter__kernels iter__kernels_neon[ITER__KERNEL_TYPES][ITER__KERNEL_TYPES];

/* Raw elements of 1, 2, 4 or 8 bytes: element (y, x) of the source becomes (x, y) of the target. Steps in bytes from row to row, may be negative. */
void iter__transpose(size_t element_bytes, const void *in, ptrdiff_t in_step, void *out,
                     ptrdiff_t out_step, size_t n_y, size_t n_x);

#endif
