/*
 * test_decode_webp.c - WebPs of every kind against Pillow's pixels (tests/golden/webp.py), parts
 * against cuts from the whole, and damage.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "tests/support/image_files.h"

TestSuite(decode_webp, .timeout = 120);

#define GOLDEN ITER_SOURCE_DIR "/tests/golden/webp/"

static const iter_image_options defaults = ITER_IMAGE_OPTIONS_INIT;

#ifdef ITER_HAVE_WEBP

static uint8_t *golden(const char *name, size_t *size) {
    char path[512];
    snprintf(path, sizeof(path), GOLDEN "%s.webp", name);
    return image_file(path, size);
}

/* The golden file must give exactly these pixels, whole and in parts. */
static void expect_pixels(const iter_image_options *options, const char *name, const char *ending) {
    char path[512];
    size_t size;
    image_decoder decoder;
    image out;
    iter_error err = {0};
    uint64_t seed = 3;
    snprintf(path, sizeof(path), GOLDEN "%s.webp.%s", name, ending);
    image due = image_expected(path);
    cr_assert(due.pixels, "%s", path);
    uint8_t *bytes = golden(name, &size);
    image_decoder_open(&decoder, &iter__decoder_image, options);
    for (int i = 0; i < 400; i++) {
        iter_image_wish wish = {.part = image_random_rect(&seed, due.height, due.width)};
        if (i == 0) wish.part = (iter_rect){0, 0, due.height, due.width};
        cr_assert_eq(image_decode(&decoder, bytes, size, i ? &wish : NULL, &out, &err), 0, "%s: %s",
                     name, err.message);
        cr_assert_str_eq(err.message, "");
        cr_assert_eq(out.channels, due.channels);
        cr_assert(image_is_part(&due, &wish.part, &out),
                  "%s: %lld x %lld from (%lld, %lld) on differs", name, (long long)wish.part.height,
                  (long long)wish.part.width, (long long)wish.part.y, (long long)wish.part.x);
        image_free(&out);
    }
    image_free(&due);
    image_decoder_close(&decoder);
    free(bytes);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(decode_webp, every_kind) {
    static const char *const names[] = {
        "lossy", "lossy_large",    "lossy_rough",      "simple", "lossy_alpha", "lossless",
        "one",   "lossless_alpha", "lossless_palette", "column", "row"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        expect_pixels(&defaults, names[i], "ppm");
}

Test(decode_webp, one_channel) {
    static const char *const names[] = {"lossy", "lossy_alpha", "lossless", "lossless_alpha",
                                        "lossless_palette"};
    iter_image_options options = defaults;
    options.channels = ITER_IMAGE_GRAY;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        expect_pixels(&options, names[i], "gray.pgm");
}

Test(decode_webp, turned_as_exif_says) {
    iter_image_options options = defaults;
    expect_pixels(&options, "turned3", "ppm");
    expect_pixels(&options, "turned6", "ppm");
    options.orient = true;
    expect_pixels(&options, "turned3", "up.ppm");
    expect_pixels(&options, "turned6", "up.ppm");
}

/* ---- Damage ---------------------------------------------------------------------------------- */

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

Test(decode_webp, animated_ones_are_refused) {
    size_t size;
    uint8_t *bytes = golden("animated", &size);
    expect_refused(&defaults, bytes, size, ITER_EUNSUPPORTED, "an animated WebP");
    free(bytes);
}

/* With truncated=accept, too: Pillow also refuses them. */
Test(decode_webp, cut_anywhere_fails) {
    static const char *const names[] = {"lossy", "lossless", "lossy_alpha"};
    iter_image_options options = defaults;
    options.truncated = ITER_TRUNCATED_ACCEPT;
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        size_t size;
        uint8_t *bytes = golden(names[k], &size);
        for (size_t n = 12; n < size; n++) {
            /* of the exact size, so that a sanitizer sees reads past the end */
            uint8_t *cut = malloc(n);
            memcpy(cut, bytes, n);
            expect_refused(&options, cut, n, ITER_EFORMAT, "the data end early");
            free(cut);
        }
        free(bytes);
    }
}

/* The container's size is smaller than its chunks. */
Test(decode_webp, broken_containers) {
    size_t size;
    uint8_t *bytes = golden("turned6", &size); /* VP8X first */
    uint8_t *copy = malloc(size);
    memcpy(copy, bytes, size);
    copy[16] = 4; /* VP8X of 4 bytes */
    expect_refused(&defaults, copy, size, ITER_EFORMAT, "");
    memcpy(copy, bytes, size);
    copy[24]++; /* the canvas */
    expect_refused(&defaults, copy, size, ITER_EFORMAT, "on a canvas of 21 x 30");
    memcpy(copy, bytes, size);
    memset(copy + 16, 0xff, 4);
    expect_refused(&defaults, copy, size, ITER_EFORMAT, "a chunk of 4294967295 bytes");
    memcpy(copy, bytes, size);
    memcpy(copy + 4, "\x16\0\0\0", 4); /* ends after VP8X */
    expect_refused(&defaults, copy, size, ITER_EFORMAT, "no chunk VP8 or VP8L");
    memcpy(copy, bytes, size);
    uint8_t *chunk = memmem(copy, size, "VP8 ", 4);
    cr_assert(chunk);
    chunk[3] = 'L';
    expect_refused(&defaults, copy, size, ITER_EFORMAT, "not of the kind that its chunk names");
    expect_refused(&defaults, "RIFF\x24\0\0\0WAVEfmt ", 16, ITER_EFORMAT, "a RIFF");
    free(copy);
    free(bytes);
    /* Bytes after the end are not read. */
    image_decoder decoder;
    image out;
    iter_error err = {0};
    bytes = golden("lossy", &size);
    copy = calloc(1, size + 9);
    memcpy(copy, bytes, size);
    image_decoder_open(&decoder, &iter__decoder_image, &defaults);
    cr_assert_eq(image_decode(&decoder, copy, size + 9, NULL, &out, &err), 0, "%s", err.message);
    image_free(&out);
    image_decoder_close(&decoder);
    free(copy);
    free(bytes);
}

/* With flipped bits, the result must be the same every time; and if a picture can be decoded, so
 * can its parts. */
Test(decode_webp, flipped_bits) {
    static const char *const names[] = {"lossy", "lossless", "lossless_palette", "simple",
                                        "turned6"};
    uint64_t seed = 41;
    int refused = 0, done = 0;
    image_decoder decoder;
    iter_image_options options = defaults;
    options.orient = true;
    image_decoder_open(&decoder, &iter__decoder_image, &options);
    for (int round = 0; round < 1000; round++) {
        size_t size;
        image whole, part;
        iter_error err = {0};
        uint8_t *bytes = golden(names[round % 5], &size);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[12 + (seed >> 33) % (size - 12)] ^= (uint8_t)(1 << (seed >> 60 & 7));
        if (image_decode(&decoder, bytes, size, NULL, &whole, &err) == ITER_OK) {
            const iter_image_wish wish = {.part =
                                              image_random_rect(&seed, whole.height, whole.width)};
            cr_assert_eq(image_decode(&decoder, bytes, size, &wish, &part, &err), 0);
            cr_assert(image_is_part(&whole, &wish.part, &part), "round %d", round);
            image_free(&whole);
            image_free(&part);
            done++;
        } else {
            cr_assert(err.message[0]);
            refused++;
        }
        free(bytes);
    }
    image_decoder_close(&decoder);
    cr_assert(refused > 50 && done > 50, "%d refused, %d done", refused, done);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(decode_webp, ceilings) {
    size_t size;
    iter_image_options options = defaults;
    uint8_t *bytes = golden("lossy", &size);
    options.max_pixels = 45 * 53 - 1;
    expect_refused(&options, bytes, size, ITER_ENOMEM, "45 x 53 pixels are more than max-pixels");
    free(bytes);
    bytes = golden("lossless", &size);
    options.max_pixels = 4 * 45 * 53 - 4;
    expect_refused(&options, bytes, size, ITER_ENOMEM, "a quarter");
    free(bytes);
}

/* With growing limits: refused up to some limit, decoded as usual from there on. */
Test(decode_webp, within_a_limit) {
    static const char *const names[] = {"lossy_large", "lossless"};
    for (size_t k = 0; k < 2; k++) {
        size_t size;
        uint8_t *bytes = golden(names[k], &size);
        image_decoder decoder;
        int n_refused = 0, n_done = 0;
        image_decoder_open(&decoder, &iter__decoder_webp, NULL);
        for (size_t most = 1; most < 400000; most += 3999) {
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
        cr_assert(n_refused > 3 && n_done > 3, "%s: %d refused, %d done", names[k], n_refused,
                  n_done);
        image_decoder_close(&decoder);
        free(bytes);
    }
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(decode_webp, steady_state_allocates_nothing) {
    size_t size;
    image_decoder decoder;
    image out;
    iter_error err = {0};
    uint8_t *bytes = golden("turned6", &size);
    iter_image_options options = defaults;
    options.orient = true;
    image_decoder_open(&decoder, &iter__decoder_image, &options);
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

Test(decode_webp, says_what_this_build_is_without) {
    image_decoder decoder;
    image out;
    iter_error err = {0};
    image_decoder_open(&decoder, &iter__decoder_image, &defaults);
    cr_assert_eq(image_decode(&decoder, "RIFF\0\0\0\0WEBP", 12, NULL, &out, &err),
                 ITER_EUNSUPPORTED);
    cr_assert(strstr(err.message, "libwebp"), "%s", err.message);
    image_decoder_close(&decoder);
}

#endif
