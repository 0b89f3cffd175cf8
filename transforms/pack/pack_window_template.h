/*
 * pack_window_template.h - what moves bytes on x86: the kernels `window` and `mirror3` for one
 * level, and how split3 and join3 order bytes. Included by pack_kernels_<level>.c before
 * pack_kernels_template.h. Before it, the level defines:
 *
 *   column             32 pixels of every row: where they lie, and which of them have a source
 *   column_at          of a window and a first pixel
 *   bytes16, widen16   a vector as bytes, and bytes as a vector
 *   window32, store32  convert a column's part of one row, or store two vectors there. Rows are
 *                      given by their pixel 0; whole = 0: the row ends within the column
 *   all16              as window32, one block of a column whose pixels all have a source
 *   TAIL_IS_MASKED     whether the last column needs whole = 0. Otherwise its pixels lie further
 *                      left, where they fit
 *   WINDOW_LEAST       pixels that rows of the source and of the output have at least
 */
#include <stdbool.h>
#include <string.h>

#define SHUFFLES_BYTES
#define LOAD_BYTES(p)     _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STORE_BYTES(p, v) _mm_storeu_si128((__m128i *)(void *)(p), (v))

#define WINDOW_NARROW 64 /* pixels; in a wider image, columns write to hundreds of pages in turn */

#define INLINE static inline __attribute__((always_inline))

/* A column from top to bottom, in one plane, or in three at once: fewer loops mean fewer
 * mispredicted branches. Masks and factors stay in registers. */
INLINE void window_column(const int type, const int reverse, const int whole, const int planes,
                          char *to, const uint8_t *row, const iter__window *w, ptrdiff_t out_plane,
                          int64_t plane, int64_t x, iter__fetch fetch) {
    const float *ff = w->fill + plane;
    const float *fa = type == ITER__TYPE_KEPT ? ff : w->a + plane; /* not used if kept */
    const float *fb = type == ITER__TYPE_KEPT ? ff : w->b + plane;
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

/* One row of a plane; `row` NULL = it has no source. */
INLINE void wide_row(const int type, const int reverse, char *to, const uint8_t *row,
                     const column *columns, int64_t n, vec a, vec b, vec fill) {
    for (const column *c = columns; c < columns + n; c++)
        if (!row)
            store32(type, 0, to, c, fill, fill);
        else if (c->all && type != ITER__TYPE_KEPT)
            store32(type, 1, to, c, affine16(all16(reverse, row, c, 0), a, b),
                    affine16(all16(reverse, row, c, 1), a, b));
        else
            window32(type, reverse, 0, to, row, c, a, b, fill);
}

#define WIDE_COLUMNS 64

/* Images that are wide, row by row, at most WIDE_COLUMNS at a time (u8 to f32, 192 x 192, beside
 * bands of columns: 0.87 of the time; 224 x 224: 0.6). The processor fetches ahead what is read
 * forwards. What is read backwards is fetched here, a row before it is needed. */
INLINE void window_wide(const int type, const int reverse, const int three, char *out,
                        const uint8_t *in, const iter__window *w, ptrdiff_t out_plane,
                        int64_t plane, iter__fetch fetch) {
    const int64_t planes = three ? 3 : 1;
    const bool kept = type == ITER__TYPE_KEPT, backwards = reverse || w->in_step < 0;
    const ptrdiff_t first = reverse ? w->offset - (w->right - 1) : w->offset + w->left;
    column columns[WIDE_COLUMNS];
    for (int64_t x = 0; x < w->width; x += 32 * WIDE_COLUMNS) {
        int64_t n = 0;
        for (; n < WIDE_COLUMNS && x + 32 * n < w->width; n++)
            columns[n] = column_at(w, x + 32 * n);
        if (x > 0) fetch.n_lines = 0;
        for (int64_t y = 0; y < w->height; y++) {
            const bool has_source = y >= w->top && y < w->bottom;
            if (has_source) iter__fetch_row(&fetch);
            for (int64_t p = 0; p < planes; p++) {
                const uint8_t *row =
                    has_source ? in + (y - w->top) * w->in_step + p * w->in_plane : NULL;
                const vec fill = set16(w->fill[plane + p]);
                if (row && backwards && y + 1 < w->bottom)
                    for (int64_t i = 0; i < w->right - w->left; i += 64)
                        __builtin_prefetch(row + w->in_step + first + i, 0, 3);
                wide_row(type, reverse,
                         out + p * out_plane + y * w->width * (ptrdiff_t)iter__type_bytes(type),
                         row, columns, n, kept ? fill : set16(w->a[plane + p]),
                         kept ? fill : set16(w->b[plane + p]), fill);
            }
        }
    }
}

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

/* ---- Mirrored pixels ------------------------------------------------------------------------- */

/* Five pixels at a time. A load of 16 bytes has one byte of the pixel after them, or for the last
 * five one of the pixel before; the store's 16th byte is overwritten by the next store. */
static void mirror3(uint8_t *out, const uint8_t *in, size_t n) {
    const __m128i order =
        _mm_setr_epi8(12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, (char)0x80);
    const __m128i one = _mm_set1_epi8(1);
    if (n < 6) {
        for (size_t i = 0; i < n; i++)
            memcpy(out + 3 * i, in + 3 * (n - 1 - i), 3);
        return;
    }
    __m128i five = LOAD_BYTES(in + 3 * (n - 5) - 1);
    five = _mm_shuffle_epi8(five, _mm_add_epi8(order, one));
    STORE_BYTES(out, five);
    for (size_t i = 5; i + 5 < n; i += 5) {
        five = LOAD_BYTES(in + 3 * (n - 5 - i));
        STORE_BYTES(out + 3 * i, _mm_shuffle_epi8(five, order));
    }
    five = _mm_shuffle_epi8(LOAD_BYTES(in), order);
    _mm_storel_epi64((__m128i *)(void *)(out + 3 * (n - 5)), five);
    _mm_storel_epi64((__m128i *)(void *)(out + 3 * (n - 5) + 7), _mm_srli_si128(five, 7));
}

/* ---- Three channels -------------------------------------------------------------------------- */

/* An order says what a vector of the result takes from one of the three. Byte i of channel c is
 * number 3 i + c of 48 interleaved ones. */
#define NO         (char)0x80
#define ORDER(...) _mm_setr_epi8(__VA_ARGS__)

INLINE __m128i three(const __m128i *in, __m128i o0, __m128i o1, __m128i o2) {
    return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(in[0], o0), _mm_shuffle_epi8(in[1], o1)),
                        _mm_shuffle_epi8(in[2], o2));
}

INLINE void join16_bytes(const __m128i *in, __m128i *out) {
    out[0] = three(in, ORDER(0, NO, NO, 1, NO, NO, 2, NO, NO, 3, NO, NO, 4, NO, NO, 5),
                   ORDER(NO, 0, NO, NO, 1, NO, NO, 2, NO, NO, 3, NO, NO, 4, NO, NO),
                   ORDER(NO, NO, 0, NO, NO, 1, NO, NO, 2, NO, NO, 3, NO, NO, 4, NO));
    out[1] = three(in, ORDER(NO, NO, 6, NO, NO, 7, NO, NO, 8, NO, NO, 9, NO, NO, 10, NO),
                   ORDER(5, NO, NO, 6, NO, NO, 7, NO, NO, 8, NO, NO, 9, NO, NO, 10),
                   ORDER(NO, 5, NO, NO, 6, NO, NO, 7, NO, NO, 8, NO, NO, 9, NO, NO));
    out[2] = three(in, ORDER(NO, 11, NO, NO, 12, NO, NO, 13, NO, NO, 14, NO, NO, 15, NO, NO),
                   ORDER(NO, NO, 11, NO, NO, 12, NO, NO, 13, NO, NO, 14, NO, NO, 15, NO),
                   ORDER(10, NO, NO, 11, NO, NO, 12, NO, NO, 13, NO, NO, 14, NO, NO, 15));
}

INLINE void split16_bytes(const __m128i *in, __m128i *out) {
    out[0] = three(in, ORDER(0, 3, 6, 9, 12, 15, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO),
                   ORDER(NO, NO, NO, NO, NO, NO, 2, 5, 8, 11, 14, NO, NO, NO, NO, NO),
                   ORDER(NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 1, 4, 7, 10, 13));
    out[1] = three(in, ORDER(1, 4, 7, 10, 13, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO),
                   ORDER(NO, NO, NO, NO, NO, 0, 3, 6, 9, 12, 15, NO, NO, NO, NO, NO),
                   ORDER(NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 2, 5, 8, 11, 14));
    out[2] = three(in, ORDER(2, 5, 8, 11, 14, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO),
                   ORDER(NO, NO, NO, NO, NO, 1, 4, 7, 10, 13, NO, NO, NO, NO, NO, NO),
                   ORDER(NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 0, 3, 6, 9, 12, 15));
}
#undef NO
#undef ORDER
