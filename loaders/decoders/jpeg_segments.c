/* jpeg_segments.c - see jpeg_segments.h. Source: ITU-T T.81, annex B. */
#include "loaders/decoders/jpeg_segments.h"

#include <string.h>

#include "iter/core/arith.h"

enum { SOF0 = 0xc0, SOF1 = 0xc1, RST0 = 0xd0, SOI = 0xd8, EOI = 0xd9, SOS = 0xda };
enum { DQT = 0xdb, DHT = 0xc4, DRI = 0xdd, APP0 = 0xe0, APP14 = 0xee, APP15 = 0xef, COM = 0xfe };

/* A segment's size in MCUs: some columns of one row, or whole rows. */
typedef struct segment_shape {
    int64_t height, width;    /* of a segment */
    int64_t n_down, n_across; /* segments of the picture */
} segment_shape;

static int64_t divide_up(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

static bool shape_of(const iter__jpeg_grid *grid, segment_shape *out) {
    const int64_t rows = divide_up(grid->height, grid->mcu_height),
                  columns = divide_up(grid->width, grid->mcu_width);
    if (grid->interval <= 0) return false;
    if (grid->interval % columns == 0)
        *out = (segment_shape){.height = grid->interval / columns, .width = columns};
    else if (columns % grid->interval == 0)
        *out = (segment_shape){.height = 1, .width = grid->interval};
    else
        return false;
    out->n_down = divide_up(rows, out->height);
    out->n_across = columns / out->width;
    return true;
}

/* Widens [*at, *at + *n) by one MCU on each side, then to whole segments. */
static void widen(int64_t *at, int64_t *n, int64_t mcu, int64_t segment, int64_t whole) {
    const int64_t step = mcu * segment, from = iter__max_i64(*at / mcu - 1, 0) * mcu / step * step;
    const int64_t end = divide_up(divide_up(*at + *n, mcu) + 1, segment) * step;
    *at = from;
    *n = iter__min_i64(end, whole) - from;
}

bool iter__jpeg_window(const iter__jpeg_grid *grid, const iter_rect *part, iter_rect *out) {
    segment_shape shape;
    *out = *part;
    if (!shape_of(grid, &shape)) return false;
    widen(&out->y, &out->height, grid->mcu_height, shape.height, grid->height);
    widen(&out->x, &out->width, grid->mcu_width, shape.width, grid->width);
    return out->y > 0 || out->width < grid->width;
}

/* Copies what comes before the entropy-coded data, with another size of picture. Returns the bytes
 * read; *out_bytes = those written. 0 = not as expected. */
static size_t copy_head(const iter_rect *window, const uint8_t *bytes, size_t size, uint8_t *out,
                        size_t *out_bytes) {
    size_t at = 2, to = 2;
    if (size < 4 || bytes[0] != 0xff || bytes[1] != SOI) return 0;
    memcpy(out, bytes, 2);
    for (;;) {
        if (size - at < 4 || bytes[at] != 0xff) return 0;
        const uint8_t marker = bytes[at + 1];
        const size_t length = 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]);
        if (length < 4 || length > size - at) return 0;
        const bool is_application = marker >= APP0 && marker <= APP15;
        const bool keeps_colour = marker == APP0 || marker == APP14;
        if (keeps_colour || marker == SOF0 || marker == SOF1 || marker == DQT || marker == DHT ||
            marker == DRI || marker == SOS) {
            memcpy(out + to, bytes + at, length);
            if (marker == SOF0 || marker == SOF1) {
                if (length < 9) return 0;
                out[to + 5] = (uint8_t)(window->height >> 8);
                out[to + 6] = (uint8_t)window->height;
                out[to + 7] = (uint8_t)(window->width >> 8);
                out[to + 8] = (uint8_t)window->width;
            }
            to += length;
        } else if (!is_application && marker != COM) {
            return 0;
        }
        at += length;
        if (marker == SOS) break;
    }
    *out_bytes = to;
    return at;
}

/* The next marker from `at` on; NULL = there is none. */
static const uint8_t *find_marker(const uint8_t *at, const uint8_t *end) {
    while (end - at >= 2) {
        at = memchr(at, 0xff, (size_t)(end - at - 1));
        if (!at) return NULL;
        if (at[1] != 0 && at[1] != 0xff) return at;
        at += at[1] == 0 ? 2 : 1; /* a stuffed byte, or one more 0xff before the marker */
    }
    return NULL;
}

size_t iter__jpeg_cut(const iter__jpeg_grid *grid, const iter_rect *window, const uint8_t *bytes,
                      size_t size, uint8_t *out) {
    segment_shape shape;
    size_t to;
    const size_t begin = copy_head(window, bytes, size, out, &to);
    if (begin == 0 || !shape_of(grid, &shape)) return 0;
    const int64_t step_y = grid->mcu_height * shape.height, step_x = grid->mcu_width * shape.width;
    const int64_t top = window->y / step_y, bottom = divide_up(window->y + window->height, step_y),
                  left = window->x / step_x, right = divide_up(window->x + window->width, step_x);
    const int64_t n_segments = shape.n_down * shape.n_across,
                  n_needed = (bottom - 1) * shape.n_across + right;
    const uint8_t *at = bytes + begin, *const end = bytes + size;
    unsigned n_taken = 0;
    for (int64_t i = 0; i < n_needed; i++) {
        const uint8_t *marker = find_marker(at, end);
        if (!marker) return 0;
        const bool is_restart = (marker[1] & 0xf8) == RST0;
        if (is_restart ? marker[1] != RST0 + i % 8 || i == n_segments - 1 : i != n_segments - 1)
            return 0;
        const int64_t y = i / shape.n_across, x = i % shape.n_across;
        if (y >= top && x >= left && x < right) {
            const size_t length = (size_t)(marker - at);
            memcpy(out + to, at, length);
            to += length;
            out[to++] = 0xff;
            out[to++] = (uint8_t)(RST0 + n_taken++ % 8);
        }
        at = marker + 2;
    }
    out[to - 1] = EOI; /* instead of the last restart */
    return to;
}
