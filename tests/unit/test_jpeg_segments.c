/*
 * test_jpeg_segments.c - JPEGs cut out of others by their restart markers: windows against a naive
 * search, pixels against the whole picture's, and damage.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/decoders/jpeg_segments.h"
#include "tests/support/image_files.h"

TestSuite(jpeg_segments, .timeout = 120);

static int64_t at_random(uint64_t *seed, int64_t n) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*seed >> 33) % (uint64_t)n);
}

/* Whether the segment that holds an MCU holds one that is within one MCU of the part. */
static bool is_needed(const iter__jpeg_grid *g, const iter_rect *part, int64_t row, int64_t column,
                      int64_t columns) {
    const int64_t segment = (row * columns + column) / g->interval;
    const int64_t top = part->y / g->mcu_height - 1,
                  bottom = (part->y + part->height - 1) / g->mcu_height + 1,
                  left = part->x / g->mcu_width - 1,
                  right = (part->x + part->width - 1) / g->mcu_width + 1;
    for (int64_t i = segment * g->interval; i < (segment + 1) * g->interval; i++)
        if (i / columns >= top && i / columns <= bottom && i % columns >= left &&
            i % columns <= right)
            return true;
    return false;
}

/* The window is the box around all segments that are needed. */
Test(jpeg_segments, windows) {
    uint64_t seed = 3;
    int found = 0;
    for (int k = 0; k < 20000; k++) {
        iter__jpeg_grid g = {.height = 1 + at_random(&seed, 150),
                             .width = 1 + at_random(&seed, 150),
                             .mcu_height = 8 << at_random(&seed, 2),
                             .mcu_width = 8 << at_random(&seed, 3)};
        const int64_t columns = (g.width + g.mcu_width - 1) / g.mcu_width,
                      rows = (g.height + g.mcu_height - 1) / g.mcu_height;
        g.interval = at_random(&seed, 2) ? at_random(&seed, columns + 1)
                                         : columns * (1 + at_random(&seed, 3));
        const iter_rect part = image_random_rect(&seed, g.height, g.width);
        iter_rect window;
        const bool taken = iter__jpeg_window(&g, &part, &window);
        if (g.interval == 0 || (columns % g.interval && g.interval % columns)) {
            cr_assert(!taken);
            continue;
        }
        int64_t top = rows, bottom = 0, left = columns, right = 0;
        for (int64_t y = 0; y < rows; y++)
            for (int64_t x = 0; x < columns; x++) {
                if (!is_needed(&g, &part, y, x, columns)) continue;
                top = y < top ? y : top;
                bottom = y >= bottom ? y + 1 : bottom;
                left = x < left ? x : left;
                right = x >= right ? x + 1 : right;
            }
        const int64_t y_end = bottom == rows ? g.height : bottom * g.mcu_height,
                      x_end = right == columns ? g.width : right * g.mcu_width;
        cr_assert_eq(taken, top > 0 || x_end - left * g.mcu_width < g.width);
        if (!taken) continue;
        found++;
        cr_assert_eq(window.y, top * g.mcu_height);
        cr_assert_eq(window.x, left * g.mcu_width);
        cr_assert_eq(window.y + window.height, y_end);
        cr_assert_eq(window.x + window.width, x_end);
    }
    cr_assert_gt(found, 1000);
}

#ifdef ITER_HAVE_JPEG

static const struct golden {
    const char *name;
    iter__jpeg_grid grid;
} goldens[] = {{"restart", {45, 53, 16, 16, 2}},
               {"restart1", {45, 53, 16, 16, 1}},
               {"restart_row", {45, 53, 8, 16, 4}},
               {"restart_rows", {45, 53, 8, 8, 14}},
               {"restart_gray", {45, 53, 8, 8, 7}}};

#define N_GOLDENS (sizeof(goldens) / sizeof(goldens[0]))

static uint8_t *read_golden(const char *name, size_t *size) {
    char path[512];
    snprintf(path, sizeof(path), ITER_SOURCE_DIR "/tests/golden/images/%s.jpg", name);
    uint8_t *bytes = image_file(path, size);
    cr_assert(bytes, "%s", path);
    return bytes;
}

/* Into memory of exactly size + 2 bytes. */
static size_t cut(const struct golden *g, const iter_rect *window, const uint8_t *bytes,
                  size_t size, uint8_t **out) {
    *out = malloc(size + 2);
    return iter__jpeg_cut(&g->grid, window, bytes, size, *out);
}

/* The cut is a JPEG of its own. Its pixels are the whole picture's, but for an MCU at its sides,
 * where chroma lacks neighbours. */
Test(jpeg_segments, cuts) {
    image_decoder decoder;
    iter_error err;
    uint64_t seed = 9;
    image_decoder_open(&decoder, &iter__decoder_jpeg, NULL);
    for (size_t k = 0; k < N_GOLDENS; k++) {
        const struct golden *g = &goldens[k];
        size_t size;
        int n_cuts = 0;
        uint8_t *bytes = read_golden(g->name, &size), *small;
        image whole, part;
        cr_assert_eq(image_decode(&decoder, bytes, size, NULL, &whole, &err), 0);
        for (int i = 0; i < 300; i++) {
            const iter_rect wanted = image_random_rect(&seed, 45, 53);
            iter_rect window;
            if (!iter__jpeg_window(&g->grid, &wanted, &window)) continue;
            const size_t n = cut(g, &window, bytes, size, &small);
            cr_assert(n > 0 && n < size, "%s: %zu of %zu bytes", g->name, n, size);
            const iter_image_wish wish = {
                .part = {wanted.y - window.y, wanted.x - window.x, wanted.height, wanted.width}};
            cr_assert_eq(image_decode(&decoder, small, n, &wish, &part, &err), 0, "%s: %s", g->name,
                         err.message);
            cr_assert(image_is_part(&whole, &wanted, &part), "%s", g->name);
            image_free(&part);
            cr_assert_eq(image_decode(&decoder, small, n, NULL, &part, &err), 0);
            cr_assert(part.height == window.height && part.width == window.width);
            image_free(&part);
            free(small);
            n_cuts++;
        }
        cr_assert_gt(n_cuts, 10, "%s", g->name);
        image_free(&whole);
        free(bytes);
    }
    image_decoder_close(&decoder);
}

/* Files that end early, or whose markers are not in order. */
Test(jpeg_segments, damage) {
    const struct golden *g = &goldens[1];
    const iter_rect window = {16, 16, 29, 37}; /* to the last segment */
    size_t size, n_markers = 0;
    uint8_t *bytes = read_golden(g->name, &size), *small;
    const size_t n = cut(g, &window, bytes, size, &small);
    cr_assert_gt(n, 0);
    free(small);
    for (size_t i = 0; i < size; i++) {
        uint8_t *short_one = malloc(i + 1);
        memcpy(short_one, bytes, i);
        cr_assert_eq(cut(g, &window, short_one, i, &small), 0, "%zu bytes", i);
        free(short_one);
        free(small);
    }
    for (size_t i = 600; i + 1 < size; i++) {
        if (bytes[i] != 0xff || (bytes[i + 1] & 0xf8) != 0xd0) continue;
        const uint8_t was = bytes[i + 1];
        const uint8_t others[] = {0xd9, 0xda, 0x01, (uint8_t)(0xd0 + (was + 1) % 8)};
        for (size_t k = 0; k < sizeof(others); k++) {
            bytes[i + 1] = others[k];
            cr_assert_eq(cut(g, &window, bytes, size, &small), 0);
            free(small);
        }
        bytes[i + 1] = was;
        n_markers++;
    }
    cr_assert_eq(n_markers, 11);
    bytes[2] = 0; /* no marker after the first one */
    cr_assert_eq(cut(g, &window, bytes, size, &small), 0);
    free(small);
    free(bytes);
}

#endif
