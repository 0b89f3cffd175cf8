/*
 * pack_run.c - one sample through one pass: which kernel runs over which pixels.
 *
 * Without geometry the whole image is one run of pixels. With geometry that intervals can say, every output row is a run of neighbouring
 * source pixels, mirrored or not, between two stretches of fill; runs are converted row by row, then pads and cutouts are written over as
 * rectangles of finished elements. Bytes to planes has a kernel of its own (window) that does a whole plane of such rows with masked loads.
 * With tables a row is gathered pixel by pixel, converted, and patched.
 *
 * The next sample's cache lines are fetched one by one while this one is converted: a burst of prefetches before the row gains nothing,
 * because the processor tracks only some ten misses at a time.
 */
#include <assert.h>
#include <string.h>

#include "transforms/pack_run.h"

/* ---- Runs of pixels ----------------------------------------------------------------------------------------- */

/* Where pixel 0 of a run is, and how far its planes are apart (0 where channels stand side by side). */
typedef struct pixel_run {
    const char *in;
    char *out;
    size_t in_plane, out_plane; /* elements */
    size_t n;
} pixel_run;

static size_t pixel_stride(int64_t channels, bool side_by_side) {
    return side_by_side ? (size_t)channels : 1;
}

/* Any types, any layouts: channel by channel. */
static void convert_slowly(const pack_pass *pass, const pixel_run *run) {
    const size_t in_bytes = iter_dtype_bytes(pass->in.dtype);
    const size_t out_bytes = iter_dtype_bytes(pass->out.dtype);
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

/* Copies, fetching as many bytes of `next`. */
static void copy_bytes(char *out, const char *in, size_t n, const char *next) {
    const size_t step = 512;
    size_t i = 0;
    if (next != in) {
        for (; i + step <= n; i += step) {
            for (size_t line = 0; line < step; line += 64)
                __builtin_prefetch(next + i + line, 0, 3);
            memcpy(out + i, in + i, step);
        }
    }
    memcpy(out + i, in + i, n - i);
}

/* Same layout on both sides: rows of elements. */
static void convert_alike(const pack_pass *pass, const pixel_run *run, const char *next) {
    const iter__kernels *k = pass->kernels;
    const size_t c = (size_t)pass->channels;
    const size_t in_bytes = iter_dtype_bytes(pass->in.dtype);
    const size_t out_bytes = iter_dtype_bytes(pass->out.dtype);
    if (pass->in_hwc) {
        if (pass->kind == ITER__KIND_RAW) {
            copy_bytes(run->out, run->in, run->n * c * in_bytes, next);
        } else if (pass->same_factor) {
            k->line(run->out, run->in, run->n * c, pass->a32[0], pass->b32[0], next);
        } else if (c == 3) {
            k->pixels3(run->out, run->in, run->n, pass->a32, pass->b32, next);
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
        else
            k->line(out, in, run->n, pass->a32[i], pass->b32[i], ahead);
    }
}

static void convert_run(const pack_pass *pass, const pixel_run *run, const char *next) {
    const iter__kernels *k = pass->kernels;
    if (!next) next = run->in;
    if (run->n == 0) return;
    if (pass->in_hwc == pass->out_hwc && (k || pass->kind == ITER__KIND_RAW))
        convert_alike(pass, run, next);
    else if (!k || pass->channels != 3)
        convert_slowly(pass, run);
    else if (pass->in_hwc)
        k->split3(run->out, run->out_plane, run->in, run->n, pass->a32, pass->b32, next);
    else
        k->join3(run->out, run->in, run->in_plane, run->n, pass->a32, pass->b32, next);
}

/* No geometry: everything at once. Planes without a gap and with one factor are one line. */
static void run_whole(const pack_pass *pass, const char *in, char *out, const char *next) {
    const size_t n = (size_t)(pass->in_height * pass->in_width);
    const pixel_run run = {in, out, n, n, n};
    if (pass->in_hwc == pass->out_hwc && pass->same_factor &&
        (pass->kernels || pass->kind == ITER__KIND_RAW)) {
        const size_t all = n * (size_t)pass->channels;
        if (!next) next = in;
        if (pass->kind == ITER__KIND_RAW)
            copy_bytes(out, in, all * iter_dtype_bytes(pass->in.dtype), next);
        else
            pass->kernels->line(out, in, all, pass->a32[0], pass->b32[0], next);
        return;
    }
    convert_run(pass, &run, next);
}

/* ---- Fills -------------------------------------------------------------------------------------------------- */

/* Dense: a pattern of 64 bytes, copied. */
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

/* Output elements of a fill; fill -1 is zero. */
static const char *fill_bytes(const pack_pass *pass, int32_t fill, int64_t channel) {
    static const char zero[8] = {0};
    if (fill < 0) return zero;
    return pass->fills[fill].bytes + (size_t)channel * iter_dtype_bytes(pass->out.dtype);
}

static void fill_rectangle(const pack_pass *pass, char *out, int64_t y0, int64_t y1, int64_t x0,
                           int64_t x1, int32_t fill) {
    if (x0 >= x1 || y0 >= y1) return;
    const size_t bytes = iter_dtype_bytes(pass->out.dtype);
    const size_t step = pixel_stride(pass->channels, pass->out_hwc) * bytes;
    const size_t row = (size_t)pass->out_width * step;
    const size_t plane = pass->out_hwc ? bytes : (size_t)pass->out_height * row;
    int64_t n = x1 - x0, n_rows = y1 - y0;
    if (n == pass->out_width) { /* whole rows follow one another */
        n *= n_rows;
        n_rows = 1;
    }
    for (int64_t c = 0; c < pass->channels; c++) {
        const char *element = fill_bytes(pass, fill, c);
        char *at = out + (size_t)c * plane + (size_t)y0 * row + (size_t)x0 * step;
        for (int64_t y = 0; y < n_rows; y++, at += row)
            fill_elements(at, bytes, element, (size_t)n, step);
    }
}

/* ---- Intervals ---------------------------------------------------------------------------------------------- */

static void start_fetch(const pack_pass *pass, const void *in, const void *next_in, int64_t n_rows,
                        iter__fetch *fetch) {
    const int64_t bytes = (int64_t)iter_desc_bytes(&pass->in);
    fetch->at = next_in ? next_in : in;
    fetch->n_lines = next_in ? (bytes + 63) / 64 : 0;
    fetch->n_rows = n_rows > 0 ? n_rows : 1;
    fetch->error = 0;
}

/* u8 planes to planes. */
static void run_window(const pack_pass *pass, const iter_fold *fold, const char *in, char *out,
                       const void *next_in) {
    const size_t plane = (size_t)(pass->in_height * pass->in_width);
    const size_t out_row = (size_t)pass->out_width * iter_dtype_bytes(pass->out.dtype);
    const int32_t fill = fold->pad < 0 ? -1 : fold->fill_of[fold->pad];
    const int64_t y_first = fold->y.offset + fold->y.step * fold->y.low;
    iter__window window = {
        .n = pass->out_width,
        .low = fold->x.low,
        .high = fold->x.high,
        .offset = fold->x.offset,
        .reverse = fold->x.step < 0,
        .n_rows = fold->y.high - fold->y.low,
        .in_step = fold->y.step * pass->in_width,
    };
    iter__fetch fetch;
    start_fetch(pass, in, next_in, pass->channels * window.n_rows, &fetch);
    for (int64_t c = 0; c < pass->channels; c++) {
        window.a = pass->a32[c];
        window.b = pass->b32[c];
        window.fill = fill < 0 ? 0 : pass->fills[fill].f32[c];
        pass->kernels->window(out + (size_t)(c * pass->out_height + fold->y.low) * out_row,
                              (const uint8_t *)in + (size_t)c * plane + y_first * pass->in_width,
                              &window, &fetch);
    }
    fill_rectangle(pass, out, 0, fold->y.low, 0, pass->out_width, fill);
    fill_rectangle(pass, out, fold->y.high, pass->out_height, 0, pass->out_width, fill);
}

/* n pixels of `bytes` each, last one first. */
static void mirror_pixels(char *out, const char *in, size_t n, size_t bytes) {
    switch (bytes) {
#define MIRROR_CASE(width)                                          \
    case width:                                                     \
        for (size_t i = 0; i < n; i++)                              \
            memcpy(out + i * width, in + (n - 1 - i) * width, width); \
        break;
        MIRROR_CASE(1)
        MIRROR_CASE(2)
        MIRROR_CASE(3)
        MIRROR_CASE(4)
    default:
        for (size_t i = 0; i < n; i++)
            memcpy(out + i * bytes, in + (n - 1 - i) * bytes, bytes);
    }
}

/* Row y of the interval: its n pixels from `source`, mirrored into `line` where need be, to `out`. */
static void run_row(const pack_pass *pass, bool mirror, const char *in, char *out, size_t n,
                    char *line) {
    const size_t bytes = iter_dtype_bytes(pass->in.dtype);
    pixel_run run = {in, out, (size_t)(pass->in_height * pass->in_width),
                     (size_t)(pass->out_height * pass->out_width), n};
    if (mirror && pass->in_hwc) {
        mirror_pixels(line, in, n, bytes * (size_t)pass->channels);
        run.in = line;
    } else if (mirror) {
        for (int64_t c = 0; c < pass->channels; c++)
            mirror_pixels(line + (size_t)c * n * bytes, in + (size_t)c * run.in_plane * bytes, n,
                          bytes);
        run.in = line;
        run.in_plane = n;
    }
    convert_run(pass, &run, NULL);
}

static void run_rows(const pack_pass *pass, const iter_fold *fold, const char *in, char *out,
                     char *line, const void *next_in) {
    const size_t in_pixel =
        pixel_stride(pass->channels, pass->in_hwc) * iter_dtype_bytes(pass->in.dtype);
    const size_t out_pixel =
        pixel_stride(pass->channels, pass->out_hwc) * iter_dtype_bytes(pass->out.dtype);
    const fold_axis *x = &fold->x, *y = &fold->y;
    const int32_t fill = fold->pad < 0 ? -1 : fold->fill_of[fold->pad];
    const bool mirror = x->step < 0;
    const int64_t x_first = mirror ? x->offset - (x->high - 1) : x->offset + x->low;
    iter__fetch fetch;
    start_fetch(pass, in, next_in, y->high - y->low, &fetch);
    for (int64_t row = y->low; row < y->high && x->low < x->high; row++) {
        iter__fetch_row(&fetch);
        const int64_t source = y->offset + y->step * row;
        run_row(pass, mirror, in + (size_t)(source * pass->in_width + x_first) * in_pixel,
                out + (size_t)(row * pass->out_width + x->low) * out_pixel,
                (size_t)(x->high - x->low), line);
    }
    fill_rectangle(pass, out, 0, y->low, 0, pass->out_width, fill);
    fill_rectangle(pass, out, y->low, y->high, 0, x->low, fill);
    fill_rectangle(pass, out, y->low, y->high, x->high, pass->out_width, fill);
    fill_rectangle(pass, out, y->high, pass->out_height, 0, pass->out_width, fill);
}

/* ---- Tables ------------------------------------------------------------------------------------------------- */

/* Pixels of one source row by the x table; those without source become zero. `bytes` a pixel. */
static void gather_row(const fold_place *x, size_t n, const char *row, char *out, size_t bytes) {
    if (bytes == 1) {
        for (size_t i = 0; i < n; i++)
            out[i] = x[i].source < 0 ? 0 : row[x[i].source];
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (x[i].source < 0)
            memset(out + i * bytes, 0, bytes);
        else
            memcpy(out + i * bytes, row + (size_t)x[i].source * bytes, bytes);
    }
}

static void run_tables(const pack_pass *pass, const iter_fold *fold, const char *in, char *out,
                       char *line, const void *next_in) {
    const size_t bytes = iter_dtype_bytes(pass->in.dtype);
    const size_t in_pixel = pixel_stride(pass->channels, pass->in_hwc) * bytes;
    const size_t out_pixel =
        pixel_stride(pass->channels, pass->out_hwc) * iter_dtype_bytes(pass->out.dtype);
    const size_t n = (size_t)pass->out_width;
    const size_t in_plane = (size_t)(pass->in_height * pass->in_width);
    iter__fetch fetch;
    start_fetch(pass, in, next_in, pass->out_height, &fetch);
    for (int64_t y = 0; y < pass->out_height; y++) {
        const fold_place *place = &fold->y_table[y];
        char *to = out + (size_t)y * n * out_pixel;
        iter__fetch_row(&fetch);
        if (place->source >= 0) {
            const char *row = in + (size_t)place->source * (size_t)pass->in_width * in_pixel;
            if (pass->in_hwc)
                gather_row(fold->x_table, n, row, line, in_pixel);
            else
                for (int64_t c = 0; c < pass->channels; c++)
                    gather_row(fold->x_table, n, row + (size_t)c * in_plane * bytes,
                               line + (size_t)c * n * bytes, bytes);
            const pixel_run run = {line, to, n, (size_t)pass->out_height * n, n};
            convert_run(pass, &run, NULL);
        }
        if (fold->n_orders == 0) continue;
        for (int64_t x = 0; x < pass->out_width;) {
            const int32_t order = iter__fold_order(place, &fold->x_table[x]);
            int64_t end = x + 1;
            while (end < pass->out_width &&
                   iter__fold_order(place, &fold->x_table[end]) == order)
                end++;
            if (order >= 0) fill_rectangle(pass, out, y, y + 1, x, end, fold->fill_of[order]);
            x = end;
        }
    }
}

/* ---- The pass ----------------------------------------------------------------------------------------------- */

size_t iter__pass_line_bytes(const pack_pass *pass) {
    const int64_t width = pass->in_width > pass->out_width ? pass->in_width : pass->out_width;
    return (size_t)(width * pass->channels) * iter_dtype_bytes(pass->in.dtype);
}

void iter__pass_run(const pack_pass *pass, const iter_fold *fold, const void *in, void *out,
                    void *line, const void *next_in) {
    if (!fold) {
        run_whole(pass, in, out, next_in);
        return;
    }
    assert(fold->y.n == pass->out_height && fold->x.n == pass->out_width);
    if (fold->y.n != pass->out_height || fold->x.n != pass->out_width) {
        memset(out, 0, iter_desc_bytes(&pass->out)); /* a stage with a bug: see fold_sample */
        return;
    }
    if (fold->is_table) {
        run_tables(pass, fold, in, out, line, next_in);
        return;
    }
    const bool is_planar = !pass->in_hwc && !pass->out_hwc;
    if (is_planar && pass->kernels && pass->kernels->window && pass->kind == ITER__KIND_F32)
        run_window(pass, fold, in, out, next_in);
    else
        run_rows(pass, fold, in, out, line, next_in);
    for (int32_t i = 0; i < fold->n_cuts; i++) {
        const fold_cut *cut = &fold->cuts[i];
        fill_rectangle(pass, out, cut->y0, cut->y1, cut->x0, cut->x1, fold->fill_of[cut->order]);
    }
}
