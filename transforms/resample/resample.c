/*
 * resample.c - an image of bytes to another size.
 *
 * The order of the passes is Pillow's, because the bytes between the passes depend on it. Rows
 * first: source rows go through the horizontal windows four at a time, into a ring that holds
 * little more than one vertical window and stays in the L1 cache. Each output row is made as soon
 * as its window is complete, so rows may arrive one by one as they are decoded. Columns first: four
 * output rows are made as wide as the source, and then go through the horizontal windows together.
 *
 * A horizontal kernel loads 16 bytes where a window begins. If it would read beyond the image's
 * last byte, the row is copied first. If windows do not touch every source row (linear, far apart),
 * only the rows that they touch are made.
 */
#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "iter/core/arith.h"
#include "transforms/resample/resample.h"

struct resample_run {
    resample_axis x, y;
    int32_t channels;
    bool columns_first;
    int32_t *rows;       /* [n_rows] their source rows; NULL = all of them */
    int32_t n_rows;      /* number of rows that go through the horizontal windows */
    int32_t n_ring;      /* of these held at a time, a multiple of RESAMPLE_ROWS */
    size_t ring_step;    /* bytes */
    size_t reach;        /* bytes from a row's start that the horizontal kernel may read */
    uint8_t *ring;       /* [n_ring][ring_step] */
    uint8_t *copies;     /* [RESAMPLE_ROWS][copy_step()] */
    const uint8_t **tap; /* [2 * y.n_pairs] */
    void *room;
    const resample_kernels *kernels;
    /* Rows first: progress. */
    uint8_t *out;
    size_t row_bytes;                    /* of a source row */
    int32_t n_seen;                      /* source rows taken */
    int32_t n_kept;                      /* of these, needed by a window */
    int32_t n_made;                      /* of these, through the horizontal windows */
    int32_t n_done;                      /* rows of out */
    const uint8_t *group[RESAMPLE_ROWS]; /* the n_kept - n_made that wait for a full group */
};

/* Allocates parts of the scratch. If base is NULL, it only counts. */
typedef struct bump {
    char *base;
    size_t used;
} bump;

static void *carve(bump *from, size_t bytes) {
    void *at = from->base ? from->base + from->used : NULL;
    from->used += iter__align_up_size(bytes, 64);
    return at;
}

/* Bytes from copy to copy. */
static size_t copy_step(const resample_run *p) {
    return iter__align_up_size(p->reach, 64);
}

static int32_t pairs_of(resample_filter filter, int64_t n_in, int64_t n_out) {
    return (iter__resample_taps(filter, n_in, n_out) + 1) / 2;
}

static void carve_axis(bump *from, resample_axis *axis, resample_filter filter, int64_t n_in,
                       int64_t n_out) {
    const size_t n = (size_t)(n_out + RESAMPLE_PIXELS - 1) / RESAMPLE_PIXELS * RESAMPLE_PIXELS;
    const size_t pairs = (size_t)pairs_of(filter, n_in, n_out);
    axis->first = carve(from, n * sizeof(*axis->first));
    axis->weights = carve(from, n * pairs * 4 * sizeof(*axis->weights));
}

/* Pillow's rule: the height loses more than twice the pixels that the width loses. */
static bool is_columns_first(int64_t in_height, int64_t in_width, int64_t out_height,
                             int64_t out_width) {
    const int64_t width_lost = iter__max_i64(in_width - out_width, 0);
    return in_height - out_height > 2 * width_lost;
}

/* Lays out the scratch for the largest windows that these sizes can have. */
static void lay_out(resample_run *p, bump *from, resample_filter filter, int64_t in_height,
                    int64_t in_width, int64_t out_height, int64_t out_width, int32_t channels) {
    const int32_t x_pairs = pairs_of(filter, in_width, out_width);
    const int32_t y_pairs = pairs_of(filter, in_height, out_height);
    p->channels = channels;
    p->columns_first = is_columns_first(in_height, in_width, out_height, out_width);
    carve_axis(from, &p->x, filter, in_width, out_width);
    carve_axis(from, &p->y, filter, in_height, out_height);
    p->n_ring = p->columns_first
                    ? RESAMPLE_ROWS
                    : (2 * y_pairs + 2 * RESAMPLE_ROWS - 1) / RESAMPLE_ROWS * RESAMPLE_ROWS;
    p->ring_step = iter__align_up_size((size_t)(out_width * channels) + RESAMPLE_LOAD, 64) + 64;
    p->reach = (size_t)(in_width + 2 * x_pairs) * (size_t)channels + RESAMPLE_LOAD;
    p->ring = carve(from, (size_t)p->n_ring * p->ring_step);
    p->copies = carve(from, RESAMPLE_ROWS * copy_step(p));
    p->tap = carve(from, 2 * (size_t)y_pairs * sizeof(*p->tap));
    p->room = carve(from, RESAMPLE_ROOM(2 * iter__max_i32(x_pairs, y_pairs) + 1));
    p->rows = carve(from, 2 * (size_t)out_height * sizeof(*p->rows));
}

size_t iter__resample_scratch(resample_filter filter, int64_t in_height, int64_t in_width,
                              int64_t out_height, int64_t out_width, int32_t channels) {
    resample_run p;
    bump from = {NULL, 0};
    if (filter == RESAMPLE_NEAREST)
        return iter__align_up_size((size_t)out_width * sizeof(int32_t), 64);
    carve(&from, sizeof(p));
    lay_out(&p, &from, filter, in_height, in_width, out_height, out_width, channels);
    return from.used;
}

/* ---- Rows first ------------------------------------------------------------------------------ */

/* Numbers the rows that windows touch, and makes the windows use these numbers. Only for windows of
 * at most two taps. */
static void number_rows(resample_run *p) {
    int32_t n = 0;
    for (int32_t i = 0; i < p->y.n_out; i++) {
        const int32_t first = p->y.first[i];
        while (n > 0 && p->rows[n - 1] >= first)
            n--;
        p->y.first[i] = n;
        for (int32_t t = 0; t < p->y.n_taps && first + t < p->y.n_in; t++)
            p->rows[n++] = first + t;
    }
    p->n_rows = n;
}

static const int16_t *weights_of(const resample_axis *axis, int32_t i) {
    return axis->weights + (size_t)i * (size_t)axis->n_pairs * 4;
}

/* Makes the rows of out whose windows are complete. */
static void make_rows(resample_run *p) {
    const size_t out_bytes = (size_t)p->x.n_out * (size_t)p->channels;
    for (; p->n_done < p->y.n_out; p->n_done++) {
        const int32_t first = p->y.first[p->n_done];
        const int32_t end = iter__min_i32(first + p->y.n_taps, p->n_rows);
        if (end > p->n_made) return;
        for (int32_t t = 0; t < 2 * p->y.n_pairs; t++) { /* beyond the window weights are 0 */
            const int32_t row = first + t < end ? first + t : first;
            p->tap[t] = p->ring + (size_t)(row % p->n_ring) * p->ring_step;
        }
        p->kernels->vertical(p->out + (size_t)p->n_done * out_bytes, out_bytes, p->tap,
                             weights_of(&p->y, p->n_done), p->y.n_pairs, p->y.is_cubic);
    }
}

static void make_group(resample_run *p) {
    for (int32_t k = p->n_kept - p->n_made; k < RESAMPLE_ROWS; k++) /* after the last row */
        p->group[k] = p->group[0];
    p->kernels->horizontal(p->ring + (size_t)(p->n_made % p->n_ring) * p->ring_step,
                           (ptrdiff_t)p->ring_step, p->group, &p->x, p->channels);
    p->n_made = p->n_kept;
    make_rows(p);
}

/* Copies row k of the group to memory of this run, which kernels may read as far as they need. */
static void copy_row(resample_run *p, int32_t k) {
    uint8_t *copy = p->copies + (size_t)k * copy_step(p);
    if (p->group[k] == copy) return;
    memcpy(copy, p->group[k], p->row_bytes);
    memset(copy + p->row_bytes, 0, p->reach - p->row_bytes);
    p->group[k] = copy;
}

/* Takes the next source row. It is copied if it ends before the bytes that a kernel may read. */
static void take_row(resample_run *p, const uint8_t *row, bool ends_early) {
    const int32_t y = p->n_seen++, k = p->n_kept - p->n_made;
    if (p->n_kept == p->n_rows || (p->rows && p->rows[p->n_kept] != y)) return;
    p->group[k] = row;
    if (ends_early) copy_row(p, k);
    p->n_kept++;
    if (k + 1 == RESAMPLE_ROWS || p->n_kept == p->n_rows) make_group(p);
}

static void run_rows_first(resample_run *p, const resample_image *in) {
    const uint8_t *row = in->data, *end = row + (in->height - 1) * in->row_step + p->row_bytes;
    for (int64_t y = 0; y < in->height; y++, row += in->row_step)
        take_row(p, row, (size_t)(end - row) < p->reach);
}

/* ---- Columns first --------------------------------------------------------------------------- */

/* Makes output row i, as wide as the source. */
static void make_row(resample_run *p, const resample_image *in, int32_t i, uint8_t *out,
                     const resample_kernels *kernels) {
    const size_t row_bytes = (size_t)in->width * (size_t)p->channels;
    const int32_t first = p->y.first[i];
    for (int32_t t = 0; t < 2 * p->y.n_pairs; t++) { /* beyond the window weights are 0 */
        const int32_t row = t < p->y.n_taps && first + t < p->y.n_in ? first + t : first;
        p->tap[t] = in->data + (ptrdiff_t)row * in->row_step;
    }
    kernels->vertical(out, row_bytes, p->tap, weights_of(&p->y, i), p->y.n_pairs, p->y.is_cubic);
    memset(out + row_bytes, 0, p->reach - row_bytes);
}

static void run_columns_first(resample_run *p, const resample_image *in) {
    const resample_kernels *kernels = p->kernels;
    uint8_t *out = p->out;
    const size_t out_bytes = (size_t)p->x.n_out * (size_t)p->channels;
    const size_t step = copy_step(p);
    for (int32_t i = 0; i < p->y.n_out; i += RESAMPLE_ROWS) {
        const uint8_t *rows[RESAMPLE_ROWS];
        const int32_t n = iter__min_i32(p->y.n_out - i, RESAMPLE_ROWS);
        for (int32_t k = 0; k < RESAMPLE_ROWS; k++) {
            uint8_t *row = p->copies + (size_t)k * step;
            if (k < n) make_row(p, in, i + k, row, kernels);
            rows[k] = k < n ? row : rows[0];
        }
        kernels->horizontal(p->ring, (ptrdiff_t)p->ring_step, rows, &p->x, p->channels);
        for (int32_t k = 0; k < n; k++, out += out_bytes)
            memcpy(out, p->ring + (size_t)k * p->ring_step, out_bytes);
    }
}

/* ---- Nearest: the pixel that holds the centre; on an edge, the pixel after it  */

static int64_t nearest(int64_t i, int64_t n_in, int64_t n_out) {
    return (2 * i + 1) * n_in / (2 * n_out);
}

static inline void pick(uint8_t *out, const uint8_t *in, const int32_t *offsets, int64_t n,
                        const size_t bytes) {
    for (int64_t i = 0; i < n; i++, out += bytes)
        memcpy(out, in + offsets[i], bytes);
}

static void run_nearest(const resample_image *in, uint8_t *out, int64_t out_height,
                        int64_t out_width, int32_t channels, int32_t *offsets) {
    for (int64_t x = 0; x < out_width; x++)
        offsets[x] = (int32_t)(nearest(x, in->width, out_width) * channels);
    for (int64_t y = 0; y < out_height; y++, out += out_width * channels) {
        const uint8_t *row = in->data + nearest(y, in->height, out_height) * in->row_step;
        switch (channels) {
        case 1: pick(out, row, offsets, out_width, 1); break;
        case 2: pick(out, row, offsets, out_width, 2); break;
        case 3: pick(out, row, offsets, out_width, 3); break;
        default: pick(out, row, offsets, out_width, 4);
        }
    }
}

/* ---- Public ---------------------------------------------------------------------------------- */

/* Sets everything except the source. */
static void begin(resample_run *p, bump *from, resample_filter filter, int64_t in_height,
                  int64_t in_width, uint8_t *out, int64_t out_height, int64_t out_width,
                  int32_t channels, const resample_kernels *kernels) {
    assert(channels >= 1 && channels <= RESAMPLE_MAX_CHANNELS);
    *p = (resample_run){.out = out, .row_bytes = (size_t)in_width * (size_t)channels};
    lay_out(p, from, filter, in_height, in_width, out_height, out_width, channels);
    iter__resample_windows(&p->x, filter, in_width, out_width, kernels, p->room);
    iter__resample_windows(&p->y, filter, in_height, out_height, kernels, p->room);
    const bool wide = p->x.n_taps > RESAMPLE_MAX_TAPS || p->y.n_taps > RESAMPLE_MAX_TAPS;
    p->kernels = wide ? &iter__resample_generic : kernels;
    p->n_rows = (int32_t)in_height;
    if (filter == RESAMPLE_LINEAR && !p->columns_first)
        number_rows(p);
    else
        p->rows = NULL;
}

resample_run *iter__resample_begin(resample_filter filter, int64_t in_height, int64_t in_width,
                                   uint8_t *out, int64_t out_height, int64_t out_width,
                                   int32_t channels, const resample_kernels *kernels, void *scratch,
                                   size_t *out_reach) {
    bump from = {scratch, 0};
    if (filter == RESAMPLE_NEAREST || is_columns_first(in_height, in_width, out_height, out_width))
        return NULL;
    resample_run *p = carve(&from, sizeof(*p));
    begin(p, &from, filter, in_height, in_width, out, out_height, out_width, channels, kernels);
    *out_reach = p->reach;
    return p;
}

int64_t iter__resample_rows(resample_run *p, const uint8_t *const *rows, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        take_row(p, rows[i], false);
    for (int32_t k = 0; k < p->n_kept - p->n_made; k++)
        copy_row(p, k);
    return p->n_done;
}

void iter__resample(resample_filter filter, const resample_image *in, uint8_t *out,
                    int64_t out_height, int64_t out_width, int32_t channels,
                    const resample_kernels *kernels, void *scratch) {
    resample_run p;
    bump from = {scratch, 0};
    if (filter == RESAMPLE_NEAREST) {
        run_nearest(in, out, out_height, out_width, channels, scratch);
        return;
    }
    begin(&p, &from, filter, in->height, in->width, out, out_height, out_width, channels, kernels);
    if (p.columns_first)
        run_columns_first(&p, in);
    else
        run_rows_first(&p, in);
}
