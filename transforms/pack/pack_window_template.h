/*
 * pack_window_template.h - the kernel `window` for one level, included by pack_kernels_<level>.c
 * before pack_kernels_template.h. Before it, the level defines:
 *
 *   column             32 pixels of every row: where they lie, and which of them have a source
 *   column_at          of a window and a first pixel
 *   window32, store32  convert a column's part of one row, or store two vectors there. Rows are
 *                      given by their pixel 0; whole = 0: the row ends within the column
 *   TAIL_IS_MASKED     whether the last column needs whole = 0. Otherwise its pixels lie further
 *                      left, where they fit
 *   WINDOW_LEAST       pixels that rows of the source and of the output have at least
 *
 * and after it window_wide(), which does as window_columns() for images that are wide.
 */
#include <stdbool.h>

#define WINDOW_NARROW 64 /* pixels; in a wider image, columns write to hundreds of pages in turn */

#define INLINE static inline __attribute__((always_inline))

/* A column from top to bottom, in one plane, or in three at once: fewer loops mean fewer
 * mispredicted branches. Masks and factors stay in registers. */
INLINE void window_column(const int type, const int reverse, const int whole, const int planes,
                          char *to, const uint8_t *row, const iter__window *w, ptrdiff_t out_plane,
                          int64_t plane, int64_t x, iter__fetch fetch) {
    const float *fa = w->a + plane, *fb = w->b + plane, *ff = w->fill + plane;
    const int last = planes - 1, mid = planes > 1;
    const vec a0 = set16(fa[0]), a1 = set16(fa[mid]), a2 = set16(fa[last]);
    const vec b0 = set16(fb[0]), b1 = set16(fb[mid]), b2 = set16(fb[last]);
    const vec f0 = set16(ff[0]), f1 = set16(ff[mid]), f2 = set16(ff[last]);
    const ptrdiff_t out_step = w->width * (ptrdiff_t)iter__type_bytes(type);
    const ptrdiff_t in_step = w->in_step, in_plane = w->in_plane;
    const column c = column_at(w, x);
    int64_t y = 0;
    for (; y < w->height; y++) {
        if (y == w->top)
            for (; y < w->bottom; y++, to += out_step, row += in_step) {
                iter__fetch_row(&fetch);
                window32(type, reverse, whole, to, row, &c, a0, b0, f0);
                if (planes == 1) continue;
                window32(type, reverse, whole, to + out_plane, row + in_plane, &c, a1, b1, f1);
                window32(type, reverse, whole, to + 2 * out_plane, row + 2 * in_plane, &c, a2, b2,
                         f2);
            }
        if (y == w->height) break;
        store32(type, whole, to, &c, f0, f0);
        if (planes == 3) {
            store32(type, whole, to + out_plane, &c, f1, f1);
            store32(type, whole, to + 2 * out_plane, &c, f2, f2);
        }
        to += out_step;
    }
}

/* All columns of one plane, or of three. */
INLINE void window_columns(const int type, const int reverse, const int three, char *out,
                           const uint8_t *in, const iter__window *w, ptrdiff_t out_plane,
                           int64_t plane, iter__fetch fetch) {
    for (int64_t x = 0; x < w->width; x += 32) {
        const bool whole = !TAIL_IS_MASKED || x + 32 <= w->width;
        if (x > 0) fetch.n_lines = 0;
        if (whole && three)
            window_column(type, reverse, 1, 3, out, in, w, out_plane, plane, x, fetch);
        else if (three)
            window_column(type, reverse, 0, 3, out, in, w, out_plane, plane, x, fetch);
        else
            window_column(type, reverse, 0, 1, out, in, w, out_plane, plane, x, fetch);
    }
}

INLINE void window_wide(const int type, const int reverse, const int three, char *out,
                        const uint8_t *in, const iter__window *w, ptrdiff_t out_plane,
                        int64_t plane, iter__fetch fetch);

INLINE void window_planes(const int type, const int reverse, void *out, const uint8_t *in,
                          const iter__window *w) {
    const ptrdiff_t out_plane = w->height * w->width * (ptrdiff_t)iter__type_bytes(type);
    const int64_t group = w->n_planes == 3 ? 3 : 1;
    for (int64_t p = 0; p < w->n_planes; p += group) {
        char *to = (char *)out + p * out_plane;
        const uint8_t *from = in + p * w->in_plane;
        iter__fetch fetch = w->fetch;
        if (fetch.at) fetch.at += fetch.step * (w->bottom - w->top) * p;
        if (w->width > WINDOW_NARROW)
            window_wide(type, reverse, group == 3, to, from, w, out_plane, p, fetch);
        else
            window_columns(type, reverse, group == 3, to, from, w, out_plane, p, fetch);
    }
}
