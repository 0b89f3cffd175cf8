/*
 * pack_run.c - one sample through one pass: which kernel runs over which pixels.
 *
 * Without geometry the whole image is one run of pixels. If the axes are intervals, every output
 * row is a run of neighbouring source pixels, mirrored or not, between two stretches of fill. Runs
 * are converted row by row; then pads and cutouts are overwritten as rectangles of finished
 * elements. From planes of bytes to planes the kernel `window`, where there is one, does all of
 * that at once. For small images with interleaved channels, bytes are moved to their places first,
 * pads included, and then converted as one run. If the axes are tables, a row is gathered pixel by
 * pixel, converted, and patched.
 *
 * The next sample's cache lines are prefetched one by one while this one is converted. A burst of
 * prefetches before the row gains nothing, because the processor tracks only some ten misses at a
 * time.
 */
#include <assert.h>
#include <string.h>

#include "iter/core/arith.h"
#include "transforms/pack/pack_run.h"

#define SPLIT_WIDTH  64  /* pixels of a row, see splits_first() */
#define BLOCK_PIXELS 512 /* looked up at a time */

/* If an image has at most so many bytes, all of them are looked up before its rows are converted.
 * They fill half of an L1 cache. If short rows were looked up one by one, their conversion would
 * wait for the stores of the lookup. */
#define SMALL_IMAGE ((size_t)16 << 10)

/* ---- Runs of pixels -------------------------------------------------------------------------- */

/* n pixels from pixel 0 at in and out. Planes are in_plane and out_plane elements apart; both are
 * ignored for interleaved channels. */
typedef struct pixel_run {
    const char *in;
    char *out;
    size_t in_plane, out_plane; /* elements */
    size_t n;
} pixel_run;

static size_t pixel_stride(int64_t channels, bool side_by_side) {
    return side_by_side ? (size_t)channels : 1;
}

/* For kernels that move bytes if there are no factors. */
static const float *a_of(const pack_pass *pass) {
    return pass->kind == ITER__KIND_RAW ? NULL : pass->a32;
}

static const float *b_of(const pack_pass *pass) {
    return pass->kind == ITER__KIND_RAW ? NULL : pass->b32;
}

/* Any types and layouts, channel by channel. */
static void convert_slowly(const pack_pass *pass, const pixel_run *run) {
    const size_t in_bytes = pass->in_element;
    const size_t out_bytes = pass->out_element;
    const size_t in_step = pixel_stride(pass->channels, pass->in_hwc) * in_bytes;
    const size_t out_step = pixel_stride(pass->channels, pass->out_hwc) * out_bytes;
    for (int64_t c = 0; c < pass->channels; c++) {
        const size_t in_at = pass->in_hwc ? (size_t)c : (size_t)c * run->in_plane;
        const size_t out_at = pass->out_hwc ? (size_t)c : (size_t)c * run->out_plane;
        iter__elements_convert(pass->in.dtype, pass->out.dtype, pass->kind,
                               run->in + in_at * in_bytes, (ptrdiff_t)in_step,
                               run->out + out_at * out_bytes, (ptrdiff_t)out_step, run->n,
                               pass->a[c], pass->b[c]);
    }
}

#define NEXT_BYTES ((size_t)1024)

/* Copies n bytes and prefetches the beginning of `next`; the processor's own prefetcher follows.
 * One copy, because the C library's has the best width and order for the machine. */
static void copy_bytes(char *out, const char *in, size_t n, const char *next) {
    for (size_t i = 0; next != in && i < iter__min_size(n, NEXT_BYTES); i += 64)
        __builtin_prefetch(next + i, 0, 3);
    memcpy(out, in, n);
}

/* Same layout on both sides. Inlined into convert_run(), which is not inlined itself, so that a row
 * costs one call. */
static inline __attribute__((always_inline)) void
convert_alike(const pack_pass *pass, const pixel_run *run, const char *next) {
    const iter__kernels *k = pass->kernels;
    const size_t c = (size_t)pass->channels;
    const size_t in_bytes = pass->in_element;
    const size_t out_bytes = pass->out_element;
    if (pass->in_hwc) {
        if (pass->kind == ITER__KIND_RAW) {
            copy_bytes(run->out, run->in, run->n * c * in_bytes, next);
        } else if (pass->widen) {
            pass->widen(run->out, run->in, run->n * c, next);
        } else if (pass->same_factor) {
            k->line(run->out, run->in, run->n * c, pass->a32[0], pass->b32[0], next);
        } else if (c == 3) {
            k->pixels3(run->out, run->in, run->n, pass->a_row, pass->b_row, next);
        } else {
            size_t i = 0;
            for (; i + 16 <= run->n; i += 16)
                k->table(run->out + i * c * out_bytes, run->in + i * c * in_bytes, 16 * c,
                         pass->a_row, pass->b_row);
            k->table(run->out + i * c * out_bytes, run->in + i * c * in_bytes, (run->n - i) * c,
                     pass->a_row, pass->b_row);
        }
        return;
    }
    for (size_t i = 0; i < c; i++) {
        const char *in = run->in + i * run->in_plane * in_bytes;
        char *out = run->out + i * run->out_plane * out_bytes;
        const char *ahead = next == run->in ? in : next + i * run->in_plane * in_bytes;
        if (pass->kind == ITER__KIND_RAW)
            copy_bytes(out, in, run->n * in_bytes, ahead);
        else if (pass->widen)
            pass->widen(out, in, run->n, ahead);
        else
            k->line(out, in, run->n, pass->a32[i], pass->b32[i], ahead);
    }
}

static __attribute__((noinline)) void convert_run(const pack_pass *pass, const pixel_run *run,
                                                  const char *next) {
    const iter__kernels *k = pass->kernels;
    if (!next) next = run->in;
    if (run->n == 0) return;
    if (pass->in_hwc == pass->out_hwc && (k || pass->widen || pass->kind == ITER__KIND_RAW))
        convert_alike(pass, run, next);
    else if (!k || pass->channels != 3)
        convert_slowly(pass, run);
    else if (pass->in_hwc)
        k->split3(run->out, run->out_plane, run->in, run->n, a_of(pass), b_of(pass), next);
    else
        k->join3(run->out, run->in, run->in_plane, run->n, a_of(pass), b_of(pass), next);
}

/* ---- Without geometry ------------------------------------------------------------------------ */

/* If all channels have the same factor, the whole image is one line. */
static void run_whole(const pack_pass *pass, const char *in, char *out, const char *next) {
    const size_t n = (size_t)(pass->in_height * pass->in_width);
    const pixel_run run = {in, out, n, n, n};
    if (pass->in_hwc == pass->out_hwc && pass->same_factor &&
        (pass->kernels || pass->widen || pass->kind == ITER__KIND_RAW)) {
        const size_t all = n * (size_t)pass->channels;
        if (!next) next = in;
        if (pass->kind == ITER__KIND_RAW)
            copy_bytes(out, in, all * pass->in_element, next);
        else if (pass->widen)
            pass->widen(out, in, all, next);
        else
            pass->kernels->line(out, in, all, pass->a32[0], pass->b32[0], next);
        return;
    }
    convert_run(pass, &run, next);
}

static void look_up(const pack_pass *pass, const uint8_t *table, char *out, const char *in,
                    size_t n) {
    pass->lookup((uint8_t *)out, (const uint8_t *)in, n, table);
}

/* n neighbouring pixels, interleaved or in planes in_plane bytes apart, to dense ones of the same
 * order. */
static void look_up_pixels(const pack_pass *pass, const uint8_t *table, char *out, const char *in,
                           size_t in_plane, size_t n) {
    if (pass->in_hwc) {
        look_up(pass, table, out, in, n * (size_t)pass->channels);
        return;
    }
    for (size_t c = 0; c < (size_t)pass->channels; c++)
        look_up(pass, table, out + c * n, in + c * in_plane, n);
}

/* Pixels [first, end) of an image through a table, block by block, so that the bytes are still in
 * the L1 cache when they are converted. */
static void run_blocks(const pack_pass *pass, const uint8_t *table, const char *in, char *out,
                       char *line, size_t first, size_t end, const char *next) {
    const size_t plane = (size_t)(pass->in_height * pass->in_width);
    const size_t in_pixel = pixel_stride(pass->channels, pass->in_hwc);
    const size_t out_pixel = pixel_stride(pass->channels, pass->out_hwc) * pass->out_element;
    iter__fetch fetch =
        iter__fetch_start(next, pass->in_bytes, (int64_t)((end - first) / BLOCK_PIXELS) + 1);
    if (pass->kind == ITER__KIND_RAW && pass->in_hwc && pass->out_hwc) {
        look_up(pass, table, out + first * out_pixel, in + first * in_pixel,
                (end - first) * in_pixel);
        return;
    }
    for (size_t at = first; at < end; at += BLOCK_PIXELS) {
        const size_t n = iter__min_size(end - at, BLOCK_PIXELS);
        const pixel_run run = {line, out + at * out_pixel, n, plane, n};
        iter__fetch_row(&fetch);
        look_up_pixels(pass, table, line, in + at * in_pixel, plane, n);
        convert_run(pass, &run, NULL);
    }
}

/* ---- Fills ----------------------------------------------------------------------------------- */

/* Dense elements: copies a pattern of 64 bytes. */
static void fill_dense(char *out, size_t bytes, const char *element, size_t n) {
    char pattern[64];
    for (size_t i = 0; i < sizeof(pattern); i += bytes)
        memcpy(pattern + i, element, bytes);
    size_t rest = n * bytes;
    for (; rest >= sizeof(pattern); rest -= sizeof(pattern), out += sizeof(pattern))
        memcpy(out, pattern, sizeof(pattern));
    for (; rest > 0; rest -= bytes, out += bytes)
        memcpy(out, element, bytes);
}

static void fill_elements(char *out, size_t bytes, const char *element, size_t n, size_t step) {
    switch (bytes) {
#define FILL_CASE(width)                            \
    case width:                                     \
        if (step == (width)) {                      \
            fill_dense(out, width, element, n);     \
            break;                                  \
        }                                           \
        for (size_t i = 0; i < n; i++)              \
            memcpy(out + i * step, element, width); \
        break;
        FILL_CASE(1)
        FILL_CASE(2)
        FILL_CASE(4)
        FILL_CASE(8)
    }
}

/* The output element of a fill; fill -1 is zero. */
static const char *fill_bytes(const pack_pass *pass, int32_t fill, int64_t channel) {
    static const char zero[8] = {0};
    if (fill < 0) return zero;
    return pass->fills[fill].bytes + (size_t)channel * pass->out_element;
}

/* Whether all channels have the same fill. */
static bool is_alike(const pack_pass *pass, int32_t fill) {
    const size_t bytes = pass->out_element;
    for (int64_t c = 1; c < pass->channels; c++)
        if (memcmp(fill_bytes(pass, fill, 0), fill_bytes(pass, fill, c), bytes) != 0) return false;
    return true;
}

static void fill_rectangle(const pack_pass *pass, char *out, int64_t y0, int64_t y1, int64_t x0,
                           int64_t x1, int32_t fill) {
    if (x0 >= x1 || y0 >= y1) return;
    const size_t bytes = pass->out_element;
    const size_t step = pixel_stride(pass->channels, pass->out_hwc) * bytes;
    const size_t row = (size_t)pass->out_width * step;
    const size_t plane = pass->out_hwc ? bytes : (size_t)pass->out_height * row;
    int64_t n = x1 - x0, n_rows = y1 - y0;
    if (n == pass->out_width) { /* whole rows are one run */
        n *= n_rows;
        n_rows = 1;
    }
    const size_t first = (size_t)y0 * row + (size_t)x0 * step;
    int64_t n_planes = pass->channels;
    size_t between = step;
    if (pass->out_hwc && is_alike(pass, fill)) { /* all channels at once */
        n *= n_planes;
        n_planes = 1;
        between = bytes;
    }
    for (int64_t c = 0; c < n_planes; c++) {
        const char *element = fill_bytes(pass, fill, c);
        char *at = out + (size_t)c * plane + first;
        for (int64_t y = 0; y < n_rows; y++, at += row)
            fill_elements(at, bytes, element, (size_t)n, between);
    }
}

/* ---- Intervals ------------------------------------------------------------------------------- */

/* Spreads what was not prefetched early over n_rows rows. */
static iter__fetch rest_of_fetch(const pack_pass *pass, const void *next_in, int64_t n_rows) {
    const size_t early = iter__pass_early_bytes(pass);
    if (!next_in || early == pass->in_bytes) return iter__fetch_start(NULL, 0, n_rows);
    return iter__fetch_start((const char *)next_in + early, pass->in_bytes - early, n_rows);
}

static int32_t fill_of_pad(const iter_fold *fold) {
    return fold->pad < 0 ? -1 : fold->fill_of[fold->pad];
}

/* u8 planes to planes by `k`; `in` is source row 0 of the first plane, planes in_plane bytes
 * apart. */
static void run_window(const pack_pass *pass, const iter__kernels *k, const float *a,
                       const float *b, const float *fill, const iter_fold *fold, const char *in,
                       int64_t in_plane, char *out, const void *next_in) {
    const int64_t n_rows = fold->y.high - fold->y.low;
    const int64_t calls = pass->channels == 3 ? 1 : pass->channels;
    const int64_t first = fold->y.offset + fold->y.step * fold->y.low;
    const iter__window window = {
        .height = pass->out_height,
        .width = pass->out_width,
        .top = fold->y.low,
        .bottom = fold->y.high,
        .left = fold->x.low,
        .right = fold->x.high,
        .offset = fold->x.offset,
        .reverse = fold->x.step < 0,
        .in_width = pass->in_width,
        .in_step = fold->y.step * pass->in_width,
        .in_plane = in_plane,
        .n_planes = pass->channels,
        .a = a,
        .b = b,
        .fill = fill,
        .fetch = rest_of_fetch(pass, next_in, n_rows * calls),
    };
    k->window(out, (const uint8_t *)in + first * pass->in_width, &window);
}

static void run_window_to_out(const pack_pass *pass, const iter_fold *fold, const char *in,
                              int64_t in_plane, char *out, const void *next_in) {
    const int32_t fill = fill_of_pad(fold);
    run_window(pass, pass->kernels, a_of(pass), b_of(pass),
               fill < 0 ? pass->zeros : pass->fills[fill].f32, fold, in, in_plane, out, next_in);
}

static bool has_window(const pack_pass *pass, const iter__kernels *k) {
    return k && k->window && pass->in_width >= k->window_least &&
           pass->out_width >= k->window_least;
}

/* Whether interleaved channels are split into planes of bytes first, and then go through
 * run_window(): when rows are short and most of the width is used. Longer rows go one by one,
 * each split as it is converted, which writes three streams from start to end (224 x 224 to f32:
 * 0.08 ms against 0.11). */
static bool splits_first(const pack_pass *pass) {
    return pass->in_hwc && !pass->out_hwc && pass->channels == 3 && pass->bytes_kernels &&
           has_window(pass, pass->kernels) && pass->in_width <= 2 * pass->out_width &&
           pass->out_width <= SPLIT_WIDTH;
}

/* Brings the needed rows as planes of bytes into `line`, through the table if there is one, then
 * runs the window kernel. */
static void run_line_window(const pack_pass *pass, const iter_fold *fold, const uint8_t *table,
                            const char *in, char *out, char *line, const void *next_in) {
    const fold_axis *y = &fold->y;
    const int64_t n_rows = y->high - y->low;
    const int64_t first = y->step > 0 ? y->offset + y->low : y->offset - (y->high - 1);
    const size_t n = (size_t)(n_rows * pass->in_width);
    const char *from = in + (size_t)(first * pass->in_width) * (pass->in_hwc ? 3 : 1);
    if (pass->in_hwc) {
        if (n > 0) pass->bytes_kernels->split3(line, n, from, n, NULL, NULL, from);
        if (table) look_up(pass, table, line, line, 3 * n);
    } else {
        look_up_pixels(pass, table, line, from, (size_t)(pass->in_height * pass->in_width), n);
    }
    run_window_to_out(pass, fold, line - first * pass->in_width, (int64_t)n, out, next_in);
}

/* Three bytes per pixel, moved as four, except the first and the last one: their fourth byte may
 * lie outside. */
static void mirror_triples(char *out, const char *in, size_t n) {
    if (n == 0) return;
    memcpy(out, in + (n - 1) * 3, 3);
    for (size_t i = 1; i + 1 < n; i++)
        memcpy(out + i * 3, in + (n - 1 - i) * 3, 4);
    memcpy(out + (n - 1) * 3, in, 3);
}

/* Eight at a time, because the loads of the conversion would wait for many small stores. */
static void mirror_bytes(char *out, const char *in, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t eight;
        memcpy(&eight, in + n - 8 - i, 8);
        eight = __builtin_bswap64(eight);
        memcpy(out + i, &eight, 8);
    }
    for (; i < n; i++)
        out[i] = in[n - 1 - i];
}

/* n pixels of `bytes` each, last one first. */
static void mirror_pixels(const pack_pass *pass, char *out, const char *in, size_t n,
                          size_t bytes) {
    const iter__kernels *k = pass->bytes_kernels;
    switch (bytes) {
#define MIRROR_CASE(width)                                            \
    case width:                                                       \
        for (size_t i = 0; i < n; i++)                                \
            memcpy(out + i * width, in + (n - 1 - i) * width, width); \
        break;
        MIRROR_CASE(2)
        MIRROR_CASE(4)
    case 1: mirror_bytes(out, in, n); break;
    case 3:
        if (k && k->mirror3)
            k->mirror3((uint8_t *)out, (const uint8_t *)in, n);
        else
            mirror_triples(out, in, n);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            memcpy(out + i * bytes, in + (n - 1 - i) * bytes, bytes);
    }
}

/* A row whose pixels keep their type and layout, straight to `out`. */
static void move_row(const pack_pass *pass, const uint8_t *table, bool mirror, const char *in,
                     char *out, size_t n) {
    const size_t pixel = pass->in_element * (size_t)pass->channels;
    if (mirror)
        mirror_pixels(pass, out, in, n, pixel);
    else if (!table)
        memcpy(out, in, n * pixel);
    if (table) look_up(pass, table, out, mirror ? out : in, n * pixel);
}

/* One row of the interval: n pixels from `in` to `out`, through `line` if they are mirrored or
 * looked up. */
static void run_row(const pack_pass *pass, const uint8_t *table, bool mirror, const char *in,
                    char *out, size_t n, char *line) {
    const size_t bytes = pass->in_element;
    const iter__kernels *k = pass->kernels;
    pixel_run run = {in, out, (size_t)(pass->in_height * pass->in_width),
                     (size_t)(pass->out_height * pass->out_width), n};
    const bool splits = mirror && pass->in_hwc && !pass->out_hwc && pass->channels == 3 &&
                        n >= 16 && k && k->split3_mirrored;
    if (mirror && pass->in_hwc && !splits) {
        mirror_pixels(pass, line, in, n, bytes * (size_t)pass->channels);
        run.in = line;
    } else if (mirror && !splits) {
        for (int64_t c = 0; c < pass->channels; c++)
            mirror_pixels(pass, line + (size_t)c * n * bytes, in + (size_t)c * run.in_plane * bytes,
                          n, bytes);
        run.in = line;
        run.in_plane = n;
    }
    if (table) {
        look_up_pixels(pass, table, line, run.in, run.in_plane, n);
        run.in = line;
        run.in_plane = n;
    }
    if (splits)
        k->split3_mirrored(out, run.out_plane, (const uint8_t *)run.in, n, pass->a32, pass->b32);
    else
        convert_run(pass, &run, NULL);
}

static void fetch_bytes(const char *at, size_t n) {
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch(at + i, 0, 3);
}

/* Output rows [low, high) of the interval. */
static void run_row_range(const pack_pass *pass, const iter_fold *fold, const uint8_t *table,
                          const char *in, char *out, char *line, int64_t low, int64_t high,
                          iter__fetch *fetch) {
    const size_t in_pixel = pixel_stride(pass->channels, pass->in_hwc) * pass->in_element;
    const size_t out_pixel = pixel_stride(pass->channels, pass->out_hwc) * pass->out_element;
    const fold_axis *x = &fold->x, *y = &fold->y;
    const bool mirror = x->step < 0;
    const bool moves =
        pass->kind == ITER__KIND_RAW && ((pass->in_hwc && pass->out_hwc) || pass->channels == 1);
    const int64_t x_first = mirror ? x->offset - (x->high - 1) : x->offset + x->low;
    const size_t row_bytes = (size_t)(x->high - x->low) * in_pixel;
    /* The processor fetches ahead what is read forwards; else it is done here, row by row. Of small
     * images, all was fetched with the sample before. */
    const bool backwards = (mirror || y->step < 0) && pass->in_bytes > SMALL_IMAGE;
    const ptrdiff_t in_step = (ptrdiff_t)pass->in_width * (ptrdiff_t)in_pixel;
    const ptrdiff_t in_plane = (ptrdiff_t)pass->in_height * in_step;
    const int64_t n_planes = pass->in_hwc ? 1 : pass->channels;
    for (int64_t row = low; row < high && x->low < x->high; row++) {
        if (fetch) iter__fetch_row(fetch);
        const int64_t source = y->offset + y->step * row;
        const char *from = in + (size_t)(source * pass->in_width + x_first) * in_pixel;
        char *to = out + (size_t)(row * pass->out_width + x->low) * out_pixel;
        if (backwards && row + 1 < high)
            for (int64_t p = 0; p < n_planes; p++)
                fetch_bytes(from + p * in_plane + y->step * in_step, row_bytes);
        if (moves)
            move_row(pass, table, mirror, from, to, (size_t)(x->high - x->low));
        else
            run_row(pass, table, mirror, from, to, (size_t)(x->high - x->low), line);
    }
}

/* Fills the pixels around the interval. */
static void fill_around(const pack_pass *pass, const iter_fold *fold, char *out) {
    const fold_axis *x = &fold->x, *y = &fold->y;
    const int32_t fill = fill_of_pad(fold);
    fill_rectangle(pass, out, 0, y->low, 0, pass->out_width, fill);
    fill_rectangle(pass, out, y->low, y->high, 0, x->low, fill);
    fill_rectangle(pass, out, y->low, y->high, x->high, pass->out_width, fill);
    fill_rectangle(pass, out, y->high, pass->out_height, 0, pass->out_width, fill);
}

static void run_rows(const pack_pass *pass, const iter_fold *fold, const uint8_t *table,
                     const char *in, char *out, char *line, const void *next_in) {
    iter__fetch fetch = rest_of_fetch(pass, next_in, fold->y.high - fold->y.low);
    run_row_range(pass, fold, table, in, out, line, fold->y.low, fold->y.high, &fetch);
    fill_around(pass, fold, out);
}

/* Whether bytes are moved first and converted as one run: of a small image whose channels are then
 * interleaved. Row by row, each row would cost its calls (CIFAR-10 cropped and mirrored, to f32:
 * 0.69 of the time, to u8 0.49). */
static bool moves_first(const pack_pass *pass) {
    const size_t bytes = (size_t)(pass->out_height * pass->out_width * 3);
    if (!pass->out_hwc || pass->channels != 3 || !pass->bytes_kernels || bytes > SMALL_IMAGE)
        return false;
    return pass->in_hwc ? pass->kind != ITER__KIND_RAW : has_window(pass, pass->bytes_kernels);
}

/* Interleaved bytes to their places in `line`; `byte` elsewhere. By run_row_range(), which knows
 * pixels of any size, the sample would take 1.06 of the time. */
static void move_pixels(const pack_pass *pass, const iter_fold *fold, const char *in, char *line,
                        int byte, const void *next_in) {
    const fold_axis *x = &fold->x, *y = &fold->y;
    const bool mirror = x->step < 0;
    const int64_t n = x->high - x->low;
    const int64_t x_first = mirror ? x->offset - (x->high - 1) : x->offset + x->low;
    iter__fetch fetch = rest_of_fetch(pass, next_in, y->high - y->low);
    if (n < x->n || y->high - y->low < y->n)
        memset(line, byte, (size_t)(pass->out_height * pass->out_width * 3));
    for (int64_t row = y->low; row < y->high && n > 0; row++) {
        const int64_t source = y->offset + y->step * row;
        const char *from = in + (size_t)(source * pass->in_width + x_first) * 3;
        char *to = line + (size_t)(row * pass->out_width + x->low) * 3;
        iter__fetch_row(&fetch);
        if (mirror)
            mirror_pixels(pass, to, from, (size_t)n, 3);
        else
            memcpy(to, from, (size_t)n * 3);
    }
}

static void run_moved(const pack_pass *pass, const iter_fold *fold, const uint8_t *table,
                      const char *in, char *out, char *line, const void *next_in) {
    const size_t n = (size_t)(pass->out_height * pass->out_width);
    const int32_t fill = fill_of_pad(fold);
    const int byte = fill < 0 ? -1 : pass->fills[fill].byte;
    const float fills[3] = {(float)byte, (float)byte, (float)byte};
    const pixel_run run = {line, out, n, n, n};
    if (pass->in_hwc)
        move_pixels(pass, fold, in, line, byte, next_in);
    else
        run_window(pass, pass->bytes_kernels, NULL, NULL, fills, fold, in,
                   pass->in_height * pass->in_width, line, next_in);
    if (table) look_up(pass, table, line, line, 3 * n);
    convert_run(pass, &run, NULL);
    if (table || byte < 0) fill_around(pass, fold, out);
}

static void fill_cuts(const pack_pass *pass, const iter_fold *fold, char *out) {
    for (int32_t i = 0; i < fold->n_cuts; i++) {
        const fold_cut *cut = &fold->cuts[i];
        fill_rectangle(pass, out, cut->y0, cut->y1, cut->x0, cut->x1, fold->fill_of[cut->order]);
    }
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* The source pixel of each pixel in a row. Those of [from, to) are neighbours, forwards or
 * backwards. */
typedef struct row_index {
    const int32_t *at;
    size_t n, from, to;
    bool mirror;
} row_index;

/* Finds the longest run of neighbours. `bytes` is the size of a pixel. A short run is not worth its
 * calls. */
static row_index index_of(const int32_t *at, size_t n, size_t bytes) {
    row_index index = {at, n, 0, 0, false};
    for (size_t from = 0, to; from + 1 < n; from = to) {
        const int32_t step = at[from + 1] - at[from];
        for (to = from + 1; to < n && at[to] - at[to - 1] == step;)
            to++;
        if ((step == 1 || step == -1) && to - from > index.to - index.from) {
            index.from = from;
            index.to = to;
            index.mirror = step < 0;
        }
        if (to < n && to > from + 1) to--; /* the next run may begin with this one's last pixel */
    }
    if ((index.to - index.from) * bytes < 16) index.from = index.to = 0;
    return index;
}

/* n pixels of `bytes` each, one by one. */
static void pick_pixels(const int32_t *at, size_t n, const char *row, char *out, size_t bytes) {
    switch (bytes) {
#define PICK_CASE(width)                                                        \
    case width:                                                                 \
        for (size_t i = 0; i < n; i++)                                          \
            memcpy(out + i * (width), row + (ptrdiff_t)at[i] * (width), width); \
        break;
        PICK_CASE(1)
        PICK_CASE(2)
        PICK_CASE(3)
        PICK_CASE(4)
    default:
        for (size_t i = 0; i < n; i++)
            memcpy(out + i * bytes, row + (size_t)at[i] * bytes, bytes);
    }
}

static void gather_row(const pack_pass *pass, const row_index *index, const char *row, char *out,
                       size_t bytes) {
    const size_t from = index->from, to = index->to, n = to - from;
    if (n == 0) {
        pick_pixels(index->at, index->n, row, out, bytes);
        return;
    }
    pick_pixels(index->at, from, row, out, bytes);
    if (index->mirror)
        mirror_pixels(pass, out + from * bytes, row + (size_t)index->at[to - 1] * bytes, n, bytes);
    else
        memcpy(out + from * bytes, row + (size_t)index->at[from] * bytes, n * bytes);
    pick_pixels(index->at + to, index->n - to, row, out + to * bytes, bytes);
}

static void run_tables(const pack_pass *pass, const iter_fold *fold, const uint8_t *table,
                       const char *in, char *out, char *line, const void *next_in) {
    const size_t bytes = pass->in_element;
    const size_t in_pixel = pixel_stride(pass->channels, pass->in_hwc) * bytes;
    const size_t out_pixel = pixel_stride(pass->channels, pass->out_hwc) * pass->out_element;
    const size_t n = (size_t)pass->out_width;
    const size_t in_plane = (size_t)(pass->in_height * pass->in_width);
    iter__fetch fetch = rest_of_fetch(pass, next_in, pass->out_height);
    /* A place without a source takes pixel 0 and is filled afterwards. */
    int32_t *places = (int32_t *)(void *)line;
    line += iter__align_up_size(n * sizeof(*places), 64);
    for (size_t x = 0; x < n; x++)
        places[x] = fold->x_table[x].source < 0 ? 0 : fold->x_table[x].source;
    const row_index index = index_of(places, n, pass->in_hwc ? in_pixel : bytes);
    for (int64_t y = 0; y < pass->out_height; y++) {
        const fold_place *place = &fold->y_table[y];
        char *to = out + (size_t)y * n * out_pixel;
        iter__fetch_row(&fetch);
        if (place->source >= 0) {
            const char *row = in + (size_t)place->source * (size_t)pass->in_width * in_pixel;
            if (pass->in_hwc)
                gather_row(pass, &index, row, line, in_pixel);
            else
                for (int64_t c = 0; c < pass->channels; c++)
                    gather_row(pass, &index, row + (size_t)c * in_plane * bytes,
                               line + (size_t)c * n * bytes, bytes);
            if (table) look_up_pixels(pass, table, line, line, n, n);
            const pixel_run run = {line, to, n, (size_t)pass->out_height * n, n};
            convert_run(pass, &run, NULL);
        }
        if (fold->n_orders == 0) continue;
        for (int64_t x = 0; x < pass->out_width;) {
            const int32_t order = iter__fold_order(place, &fold->x_table[x]);
            int64_t end = x + 1;
            while (end < pass->out_width && iter__fold_order(place, &fold->x_table[end]) == order)
                end++;
            if (order >= 0) fill_rectangle(pass, out, y, y + 1, x, end, fold->fill_of[order]);
            x = end;
        }
    }
}

/* ---- The pass -------------------------------------------------------------------------------- */

static bool is_window(const pack_pass *pass) {
    return !pass->in_hwc && !pass->out_hwc && has_window(pass, pass->kernels);
}

static bool has_table(const pack_pass *pass) {
    return pass->table || pass->has_tables;
}

/* Bytes of `line` that run_intervals() and run_tables() need. */
static size_t rows_bytes(const pack_pass *pass) {
    const size_t pixel = (size_t)pass->channels * pass->in_element;
    const int64_t width = iter__max_i64(pass->in_width, pass->out_width);
    size_t bytes =
        iter__align_up_size((size_t)pass->out_width * sizeof(int32_t), 64) + (size_t)width * pixel;
    if (has_table(pass)) bytes = iter__max_size(bytes, BLOCK_PIXELS * pixel);
    if (splits_first(pass) || (has_table(pass) && is_window(pass)))
        bytes = iter__max_size(bytes, pass->in_bytes);
    if (moves_first(pass)) bytes = iter__max_size(bytes, SMALL_IMAGE);
    return iter__align_up_size(bytes, 64);
}

size_t iter__pass_line_bytes(const pack_pass *pass) {
    const bool is_small = has_table(pass) && pass->in_bytes <= SMALL_IMAGE;
    return rows_bytes(pass) + (is_small ? pass->in_bytes : 0);
}

static void run_intervals(const pack_pass *pass, const iter_fold *fold, const uint8_t *table,
                          const char *in, char *out, char *line, const void *next_in) {
    if (is_window(pass) && !table)
        run_window_to_out(pass, fold, in, pass->in_height * pass->in_width, out, next_in);
    else if (is_window(pass) || splits_first(pass))
        run_line_window(pass, fold, table, in, out, line, next_in);
    else if (moves_first(pass))
        run_moved(pass, fold, table, in, out, line, next_in);
    else
        run_rows(pass, fold, table, in, out, line, next_in);
    fill_cuts(pass, fold, out);
}

void iter__pass_run(const pack_pass *pass, const iter_fold *fold, const void *in, void *out,
                    void *line, const void *next_in) {
    const uint8_t *table = fold ? fold->table : pass->table;
    if (!pass->has_geometry) {
        if (table)
            run_blocks(pass, table, in, out, line, 0, (size_t)(pass->in_height * pass->in_width),
                       next_in);
        else
            run_whole(pass, in, out, next_in);
        return;
    }
    assert(fold->y.n == pass->out_height && fold->x.n == pass->out_width);
    if (fold->y.n != pass->out_height || fold->x.n != pass->out_width) {
        /* A faulty stage: its fold_sample() made other sizes than its fold_plan(). */
        memset(out, 0, iter_desc_bytes(&pass->out));
        return;
    }
    if (table && pass->in_bytes <= SMALL_IMAGE) {
        char *image = (char *)line + rows_bytes(pass);
        look_up(pass, table, image, in, pass->in_bytes);
        in = image;
        table = NULL;
    }
    if (fold->is_table)
        run_tables(pass, fold, table, in, out, line, next_in);
    else
        run_intervals(pass, fold, table, in, out, line, next_in);
}

/* Without the calls that lead to each conversion, rows of 32 bytes take 0.76 of the time. */
bool iter__pass_rows(const pack_pass *pass, const uint8_t *base, size_t stride,
                     const uint64_t *index, uint32_t n, uint8_t *out) {
    if (pass->has_geometry || has_table(pass)) return false;
    const size_t row_bytes = iter_desc_bytes(&pass->out);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *in = base + index[i] * stride;
        const uint8_t *next = i + 1 < n ? base + index[i + 1] * stride : NULL;
        run_whole(pass, (const char *)in, (char *)out + i * row_bytes, (const char *)next);
    }
    return true;
}

bool iter__pass_has_bands(const pack_pass *pass) {
    return pass->is_image && (pass->in_hwc || pass->channels == 1) && !splits_first(pass);
}

void iter__pass_band(const pack_pass *pass, const iter_fold *fold, const void *in, void *out,
                     void *line, int64_t first, int64_t end) {
    const uint8_t *table = fold ? fold->table : pass->table;
    if (!pass->has_geometry && table) {
        run_blocks(pass, table, in, out, line, (size_t)(first * pass->in_width),
                   (size_t)(end * pass->in_width), NULL);
        return;
    }
    if (!pass->has_geometry) {
        const size_t at = (size_t)(first * pass->in_width), n = (size_t)(end - first);
        const size_t in_pixel = (size_t)pass->channels * pass->in_element;
        const size_t out_pixel = pixel_stride(pass->channels, pass->out_hwc) * pass->out_element;
        const size_t plane = (size_t)(pass->in_height * pass->in_width);
        const pixel_run run = {(const char *)in + at * in_pixel, (char *)out + at * out_pixel,
                               plane, plane, n * (size_t)pass->in_width};
        convert_run(pass, &run, NULL);
        return;
    }
    const fold_axis *y = &fold->y;
    int64_t low = y->step > 0 ? first - y->offset : y->offset - end + 1;
    int64_t high = low + end - first;
    if (low < y->low) low = y->low;
    if (high > y->high) high = y->high;
    run_row_range(pass, fold, table, in, out, line, low, high, NULL);
    if (end < pass->in_height) return;
    fill_around(pass, fold, out);
    fill_cuts(pass, fold, out);
}
