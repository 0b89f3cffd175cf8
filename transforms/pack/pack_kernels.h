/*
 * pack_kernels.h - the inner loops of pack and convert, one set for each SIMD level and pair of
 * types.
 *
 * Every kernel computes x * a + b as one rounded multiply and one rounded add in f32, never fused,
 * so that all levels give the same bits. If there is nothing to compute, a = 1 and b = -0.0: that
 * keeps every value, -0.0 included. From u8 to u8, split3, join3 and window also take NULL for a
 * and b: they move the bytes as they are. Sources and targets may have any alignment. Nothing is
 * read or written outside the stated elements.
 *
 *   next     the bytes that the next call will read, as many as this one reads. The kernel
 *            prefetches one line of them for each line that it converts. Never NULL: if there is
 *            nothing to prefetch, the caller passes `in`.
 */
#ifndef ITER_TRANSFORMS_PACK_PACK_KERNELS_H
#define ITER_TRANSFORMS_PACK_PACK_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include <iter/tensor.h>

#include "iter/core/cpu.h"

/*
 * Spreads the prefetches of the next source over the rows of this one: each row fetches n_lines
 * neighbouring lines and advances by `step` bytes. Some lines are fetched twice. That costs less
 * than a branch that cannot be predicted.
 */
typedef struct iter__fetch {
    const char *at;
    ptrdiff_t step;
    int64_t n_lines;
} iter__fetch;

/* For n_rows rows. If next is NULL, nothing is fetched. */
static inline iter__fetch iter__fetch_start(const void *next, size_t bytes, int64_t n_rows) {
    iter__fetch fetch = {next ? next : "", 0, 0};
    if (!next || n_rows < 1) return fetch;
    fetch.step = ((ptrdiff_t)bytes + n_rows - 1) / n_rows;
    fetch.n_lines = (fetch.step + 63) / 64;
    return fetch;
}

static inline void iter__fetch_row(iter__fetch *fetch) {
    for (int64_t i = 0; i < fetch->n_lines; i++)
        __builtin_prefetch(fetch->at + 64 * i, 0, 3);
    fetch->at += fetch->step;
}

/* A rectangle cut out of planes of bytes, mirrored or not. Pixels without a source get a constant.
 * Output planes follow one another. */
typedef struct iter__window {
    int64_t height, width; /* of the output */
    int64_t top, bottom;   /* rows in [top, bottom) have a source, the first of them at `in` */
    int64_t left, right;   /* and in these rows the pixels in [left, right) */
    /* pixel x comes from byte offset + x of the source row; with reverse from offset - x */
    int64_t offset;
    int32_t reverse;
    int64_t in_width;   /* bytes of a source row */
    ptrdiff_t in_step;  /* bytes from source row to source row; negative upwards */
    ptrdiff_t in_plane; /* bytes from plane to plane */
    int64_t n_planes;
    const float *a, *b; /* [n_planes] */
    /* [n_planes] value where the source has no pixel, before it is rounded to the output type */
    const float *fill;
    iter__fetch fetch; /* advances with each row that has a source */
} iter__window;

typedef struct iter__kernels {
    /* n elements, one factor. */
    void (*line)(void *out, const void *in, size_t n, float a, float b, const void *next);
    /* n elements, a[i] and b[i] for each. */
    void (*table)(void *out, const void *in, size_t n, const float *a, const float *b);
    /* n pixels of three interleaved channels, to the same; a and b [48], three factors 16 times. */
    void (*pixels3)(void *out, const void *in, size_t n, const float *a, const float *b,
                    const void *next);
    /* n pixels of three interleaved channels, to three planes `plane` elements apart. */
    void (*split3)(void *out, size_t plane, const void *in, size_t n, const float *a,
                   const float *b, const void *next);
    /* n pixels from three planes, `plane` elements apart, to three interleaved channels. next: its
     * planes are as far apart. */
    void (*join3)(void *out, const void *in, size_t plane, size_t n, const float *a, const float *b,
                  const void *next);
    /* Only from u8, and only with AVX2 or AVX-512; else NULL. Rows of the source and of the output
     * have at least window_least pixels. */
    void (*window)(void *out, const uint8_t *in, const iter__window *window);
    int64_t window_least;
    /* As split3, the last pixel first; n at least 16. NULL unless the source is u8. */
    void (*split3_mirrored)(void *out, size_t plane, const uint8_t *in, size_t n, const float *a,
                            const float *b);
    /* n pixels of three bytes, the last one first. NULL unless both are u8, and `window` is
     * there. */
    void (*mirror3)(uint8_t *out, const uint8_t *in, size_t n);
} iter__kernels;

/* The kernels of a level for a pair of types, or NULL if there are none. */
const iter__kernels *iter__kernels_get(iter__cpu level, iter_dtype in, iter_dtype out);

/* One table per level, rows = in, columns = out, in this order. */
enum { ITER__TYPE_U8, ITER__TYPE_F16, ITER__TYPE_BF16, ITER__TYPE_F32, ITER__KERNEL_TYPES };
#define ITER__TYPE_KEPT ITER__KERNEL_TYPES /* inside of kernels: u8 to u8 without arithmetic */

static inline size_t iter__type_bytes(const int type) {
    return type == ITER__TYPE_F32 ? 4 : type == ITER__TYPE_F16 || type == ITER__TYPE_BF16 ? 2 : 1;
}

extern const iter__kernels iter__kernels_generic[ITER__KERNEL_TYPES][ITER__KERNEL_TYPES];
extern const iter__kernels iter__kernels_avx2[ITER__KERNEL_TYPES][ITER__KERNEL_TYPES];
extern const iter__kernels iter__kernels_avx512[ITER__KERNEL_TYPES][ITER__KERNEL_TYPES];
extern const iter__kernels iter__kernels_neon[ITER__KERNEL_TYPES][ITER__KERNEL_TYPES];

/* Raw elements of 1, 2, 4 or 8 bytes: element (y, x) of the source becomes (x, y) of the target.
 * Steps are bytes from row to row, and may be negative. */
void iter__transpose(size_t element_bytes, const void *in, ptrdiff_t in_step, void *out,
                     ptrdiff_t out_step, size_t n_y, size_t n_x);

#endif
