/*
 * test_decode_png.c - PNGs of every kind against their pixels (tests/golden/images.py), parts
 * against cuts from the whole, and damage.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "tests/support/image_files.h"

TestSuite(decode_png, .timeout = 120);

#define GOLDEN ITER_SOURCE_DIR "/tests/golden/images/"

static const iter_image_options defaults = ITER_IMAGE_OPTIONS_INIT;

#ifdef ITER_HAVE_PNG

static uint8_t *golden(const char *name, size_t *size) {
    char path[512];
    snprintf(path, sizeof(path), GOLDEN "%s.png", name);
    return image_file(path, size);
}

/* The golden file must give exactly these pixels, whole and in parts. */
static void expect_pixels(const iter_image_options *options, const char *name,
                          const char *expected) {
    char path[512];
    size_t size;
    image_decoder decoder;
    image out;
    iter_error err = {0};
    uint64_t seed = 3;
    snprintf(path, sizeof(path), GOLDEN "%s", expected);
    image due = image_expected(path);
    cr_assert(due.pixels, "%s", path);
    uint8_t *bytes = golden(name, &size);
    image_decoder_open(&decoder, &iter__decoder_image, options);
    for (int i = 0; i < 60; i++) {
        iter_image_wish wish = {.part = image_random_rect(&seed, due.height, due.width)};
        if (i == 0) wish.part = (iter_rect){0, 0, due.height, due.width};
        cr_assert_eq(image_decode(&decoder, bytes, size, i ? &wish : NULL, &out, &err), 0, "%s: %s",
                     name, err.message);
        cr_assert_str_eq(err.message, "");
        cr_assert_eq(out.channels, due.channels);
        cr_assert(image_is_part(&due, &wish.part, &out), "%s, part %d", name, i);
        image_free(&out);
    }
    image_free(&due);
    image_decoder_close(&decoder);
    free(bytes);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(decode_png, every_kind) {
    const char *const names[] = {"g1",   "g2",    "g4",      "g8",       "g16",    "p1",
                                 "p2",   "p4",    "p8",      "rgb8",     "rgb16",  "ga8",
                                 "ga16", "rgba8", "rgba16",  "palpha",   "rgbkey", "i_rgb8",
                                 "i_p4", "i_g1",  "i_small", "i_rgba16", "chunks"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char expected[64];
        iter_image_options options = defaults;
        snprintf(expected, sizeof(expected), "%s.ppm", names[i]);
        expect_pixels(&options, names[i], expected);
        options.channels = ITER_IMAGE_GRAY;
        snprintf(expected, sizeof(expected), "%s.gray.pgm", names[i]);
        expect_pixels(&options, names[i], expected);
    }
}

Test(decode_png, turned_as_exif_says) {
    iter_image_options options = defaults;
    options.orient = true;
    expect_pixels(&options, "turned6", "turned6.up.ppm");
}

static void expect_refused(const iter_image_options *options, const void *bytes, size_t size,
                           iter_status due, const char *reason) {
    image_decoder decoder;
    image out;
    iter_error err = {0};
    image_decoder_open(&decoder, &iter__decoder_image, options);
    const iter_status status = image_decode(&decoder, bytes, size, NULL, &out, &err);
    cr_assert_eq(status, due, "%s: got %d \"%s\"", reason, status, err.message);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
    image_decoder_close(&decoder);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(decode_png, cut_anywhere_fails) {
    const char *const names[] = {"rgb8", "p4", "i_rgb8"};
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        size_t size;
        uint8_t *bytes = golden(names[k], &size);
        for (size_t n = 8; n < size - 12 - 8; n++) { /* the last bytes are checksums and IEND */
            uint8_t *cut = malloc(n);
            memcpy(cut, bytes, n);
            expect_refused(&defaults, cut, n, ITER_EFORMAT, "the data end early");
            free(cut);
        }
        free(bytes);
    }
}

Test(decode_png, flipped_bits) {
    const char *const names[] = {"rgb8", "p4", "i_rgba16", "palpha", "turned6"};
    uint64_t seed = 41;
    int refused = 0;
    image_decoder decoder;
    iter_image_options options = defaults;
    options.orient = true;
    image_decoder_open(&decoder, &iter__decoder_image, &options);
    for (int round = 0; round < 1000; round++) {
        size_t size;
        image out;
        iter_error err = {0};
        uint8_t *bytes = golden(names[round % 5], &size);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[8 + (seed >> 33) % (size - 8)] ^= (uint8_t)(1 << (seed >> 60 & 7));
        if (image_decode(&decoder, bytes, size, NULL, &out, &err) == ITER_OK) {
            image_free(&out);
        } else {
            cr_assert(err.message[0]);
            refused++;
        }
        free(bytes);
    }
    image_decoder_close(&decoder);
    cr_assert_gt(refused, 900); /* checksums detect nearly all */
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(decode_png, ceilings_and_headers) {
    size_t size;
    iter_image_options options = defaults;
    uint8_t *bytes = golden("rgb8", &size);
    options.max_pixels = 45 * 53 - 1;
    expect_refused(&options, bytes, size, ITER_ENOMEM, "45 x 53 pixels are more than max-pixels");
    memset(bytes + 16, 0, 4);
    expect_refused(&defaults, bytes, size, ITER_EFORMAT, "no pixels");
    memset(bytes + 16, 0xff, 4);
    expect_refused(&defaults, bytes, size, ITER_EFORMAT, "pixels");
    memcpy(bytes + 12, "IDAT", 4);
    expect_refused(&defaults, bytes, size, ITER_EFORMAT, "does not begin with IHDR");
    free(bytes);
    bytes = golden("i_rgb8", &size);
    options.max_pixels = 4 * 45 * 53 - 4;
    expect_refused(&options, bytes, size, ITER_ENOMEM, "a quarter");
    free(bytes);
}

/* Each allocation fails in turn: the result is a message or a picture, and nothing leaks. */
Test(decode_png, without_memory) {
    size_t size;
    uint8_t *bytes = golden("i_rgb8", &size);
    for (long k = 0; k < 40; k++) {
        image_decoder decoder;
        image out;
        iter_error err = {0};
        image_decoder_open(&decoder, &iter__decoder_image, NULL);
        iter__alloc_fail_after = k;
        const iter_status status = image_decode(&decoder, bytes, size, NULL, &out, &err);
        iter__alloc_fail_after = -1;
        /* the block is optional: without it libpng's allocations come one by one */
        if (status == ITER_OK)
            image_free(&out);
        else
            cr_assert_eq(status, ITER_ENOMEM, "%s", err.message);
        image_decoder_close(&decoder);
        cr_assert_eq(iter__alloc_live(), 0);
    }
    free(bytes);
}

/* With growing limits: refused up to some limit, decoded as usual from there on. */
Test(decode_png, within_a_limit) {
    size_t size;
    uint8_t *bytes = golden("i_rgb8", &size);
    image_decoder decoder;
    int n_refused = 0, n_done = 0;
    image_decoder_open(&decoder, &iter__decoder_png, NULL);
    for (size_t most = 1; most < 200000; most += 1999) {
        image out;
        iter_error err = {0};
        decoder.ops->limit(decoder.state, most);
        const iter_status status = image_decode(&decoder, bytes, size, NULL, &out, &err);
        if (status == ITER_OK) {
            n_done++;
            image_free(&out);
            continue;
        }
        cr_assert_eq(status, ITER_ENOMEM);
        cr_assert(strstr(err.message, "raise max_sample_bytes"), "%s", err.message);
        cr_assert_eq(n_done, 0, "refused with %zu bytes, after less was enough", most);
        n_refused++;
    }
    cr_assert(n_refused > 3 && n_done > 3, "%d refused, %d done", n_refused, n_done);
    image_decoder_close(&decoder);
    cr_assert_eq(iter__alloc_live(), 0);
    free(bytes);
}

Test(decode_png, steady_state_allocates_nothing) {
    size_t size;
    image_decoder decoder;
    image out;
    iter_error err = {0};
    uint8_t *bytes = golden("i_rgba16", &size);
    image_decoder_open(&decoder, &iter__decoder_image, NULL);
    long count = 0;
    for (int i = 0; i < 10; i++) {
        if (i == 2) count = iter__alloc_count();
        cr_assert_eq(image_decode(&decoder, bytes, size, NULL, &out, &err), 0);
        image_free(&out);
    }
    cr_assert_eq(iter__alloc_count(), count);
    image_decoder_close(&decoder);
    free(bytes);
}

#else

Test(decode_png, says_what_this_build_is_without) {
    image_decoder decoder;
    image out;
    iter_error err = {0};
    image_decoder_open(&decoder, &iter__decoder_image, &defaults);
    cr_assert_eq(image_decode(&decoder, "\x89PNG\r\n\x1a\n", 8, NULL, &out, &err),
                 ITER_EUNSUPPORTED);
    cr_assert(strstr(err.message, "libpng"), "%s", err.message);
    image_decoder_close(&decoder);
}

#endif
