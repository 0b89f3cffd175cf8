/*
 * test_decode_jpeg.c - JPEGs of every kind against Pillow's pixels (tests/golden/images.py), parts
 * against cuts from the whole, and damage.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "tests/support/image_files.h"

TestSuite(decode_jpeg, .timeout = 280);

#define GOLDEN ITER_SOURCE_DIR "/tests/golden/images/"

#ifdef __SANITIZE_ADDRESS__
#define PHOTO_STEP 12
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PHOTO_STEP 12
#endif
#endif
#ifndef PHOTO_STEP
#define PHOTO_STEP 1
#endif

static const iter_image_options defaults = ITER_IMAGE_OPTIONS_INIT;

#ifdef ITER_HAVE_JPEG

static uint8_t *golden(const char *name, size_t *size) {
    char path[512];
    snprintf(path, sizeof(path), GOLDEN "%s.jpg", name);
    return image_file(path, size);
}

/* The golden file must give exactly these pixels, whole and in parts. */
static void expect_pixels(const iter_image_options *options, const char *name,
                          const char *expected) {
    char path[512];
    size_t size;
    image_decoder decoder;
    image whole, part;
    iter_error err = {0};
    uint64_t seed = 5;
    snprintf(path, sizeof(path), GOLDEN "%s", expected);
    image due = image_expected(path);
    cr_assert(due.pixels, "%s", path);
    uint8_t *bytes = golden(name, &size);
    image_decoder_open(&decoder, &iter__decoder_image, options);
    cr_assert_eq(image_decode(&decoder, bytes, size, NULL, &whole, &err), 0, "%s: %s", name,
                 err.message);
    cr_assert_str_eq(err.message, "");
    cr_assert_eq(whole.channels, due.channels, "%s", name);
    const iter_rect all = {0, 0, due.height, due.width};
    cr_assert(image_is_part(&due, &all, &whole), "%s", name);
    for (int i = 0; i < 200; i++) {
        const iter_image_wish wish = {.part = image_random_rect(&seed, due.height, due.width)};
        cr_assert_eq(image_decode(&decoder, bytes, size, &wish, &part, &err), 0, "%s: %s", name,
                     err.message);
        cr_assert(image_is_part(&due, &wish.part, &part),
                  "%s: %lld x %lld from (%lld, %lld) on differs", name, (long long)wish.part.height,
                  (long long)wish.part.width, (long long)wish.part.y, (long long)wish.part.x);
        image_free(&part);
        bool taken;
        cr_assert_eq(
            image_decode_rows(&decoder, bytes, size, &wish, (size_t)i, &part, &taken, &err), 0,
            "%s: %s", name, err.message);
        cr_assert(image_is_part(&due, &wish.part, &part), "%s by rows", name);
        cr_assert(taken || options->orient, "%s", name);
        image_free(&part);
    }
    image_free(&whole);
    image_free(&due);
    image_decoder_close(&decoder);
    free(bytes);
    cr_assert_eq(iter__alloc_live(), 0);
}

static void expect_kind(const char *name) {
    char expected[64];
    snprintf(expected, sizeof(expected), "%s.ppm", name);
    expect_pixels(&defaults, name, expected);
}

Test(decode_jpeg, subsamplings_progressive_restarts) {
    const char *const names[] = {"rgb444",       "rgb422",       "rgb420",     "rgb440",
                                 "rgb411",       "gray",         "one",        "asrgb",
                                 "restart",      "restart1",     "restart3",   "restart_row",
                                 "restart_rows", "restart_gray", "progressive"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        expect_kind(names[i]);
}

Test(decode_jpeg, arithmetic_coding) {
    expect_pixels(&defaults, "arithmetic", "rgb420.ppm");
}

Test(decode_jpeg, cmyk_and_ycck_as_adobe_has_them) {
    expect_kind("cmyk");
    expect_kind("ycck");
}

Test(decode_jpeg, one_channel_is_the_file_s_own) {
    iter_image_options options = defaults;
    options.channels = ITER_IMAGE_GRAY;
    const char *const names[] = {"rgb444", "rgb422",      "rgb420",  "rgb440", "rgb411",
                                 "gray",   "progressive", "restart", "one"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char expected[64];
        snprintf(expected, sizeof(expected), "%s.gray.pgm", names[i]);
        expect_pixels(&options, names[i], expected);
    }
}

Test(decode_jpeg, turned_as_exif_says) {
    iter_image_options options = defaults;
    options.orient = true;
    for (int i = 1; i <= 8; i++) {
        char name[16], expected[32];
        snprintf(name, sizeof(name), "exif%d", i);
        snprintf(expected, sizeof(expected), "%s.up.ppm", name);
        expect_pixels(&options, name, expected);
    }
    expect_pixels(&options, "exif6be", "exif6be.up.ppm");
    expect_pixels(&defaults, "exif6", "exif1.up.ppm"); /* turning was not requested */
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static iter_status decode_bytes(const iter_image_options *options, const void *bytes, size_t size,
                                image *out, iter_error *err) {
    image_decoder decoder;
    *err = (iter_error){0};
    image_decoder_open(&decoder, &iter__decoder_image, options);
    const iter_status status = image_decode(&decoder, bytes, size, NULL, out, err);
    image_decoder_close(&decoder);
    return status;
}

static void expect_refused(const iter_image_options *options, const void *bytes, size_t size,
                           iter_status due, const char *reason) {
    image out;
    iter_error err;
    const iter_status status = decode_bytes(options, bytes, size, &out, &err);
    cr_assert_eq(status, due, "%s: got %d \"%s\"", reason, status, err.message);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(decode_jpeg, what_is_no_jpeg) {
    expect_refused(&defaults, "", 0, ITER_EFORMAT, "the file is empty");
    expect_refused(&defaults, "<html><body>Not found</body>", 28, ITER_EFORMAT,
                   "begins as a text (HTML?)");
    expect_refused(&defaults, "GIF89a........", 14, ITER_EFORMAT, "begins as a GIF");
    expect_refused(&defaults, "\x01\x02", 2, ITER_EFORMAT,
                   "not a JPEG, PNG or WebP: its first bytes are 01 02");
    expect_refused(&defaults, "\0\0\0\0\0\0\0\0\0\0\0\0", 12, ITER_EFORMAT,
                   "its first bytes are 00 00 00 00");
    expect_refused(&defaults,
                   "\0\0\0\x18"
                   "ftypheic",
                   12, ITER_EFORMAT, "begins as an ISO file (HEIF, AVIF?)");
    expect_refused(&defaults,
                   "\0\0\0\x18"
                   "fty",
                   7, ITER_EFORMAT, "its first bytes are 00 00 00 18");
    expect_refused(&defaults, "\xff\xd8\xff", 3, ITER_EFORMAT, "end early, after 3 bytes");
    expect_refused(&defaults, "\xff\xd8\xff\xd9", 4, ITER_EFORMAT, "no image");
}

Test(decode_jpeg, cut_anywhere_fails_but_behind_the_last_bit) {
    const char *const names[] = {"rgb444", "rgb420", "restart",   "progressive",
                                 "gray",   "exif6",  "arithmetic"};
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        size_t size;
        uint8_t *bytes = golden(names[k], &size);
        image out;
        iter_error err;
        for (size_t n = 3; n < size - 2; n++) {
            /* of the exact size, so that a sanitizer sees reads past the end */
            uint8_t *cut = malloc(n);
            memcpy(cut, bytes, n);
            const iter_status status = decode_bytes(&defaults, cut, n, &out, &err);
            cr_assert_eq(status, ITER_EFORMAT, "%s, %zu of %zu bytes", names[k], n, size);
            cr_assert(strstr(err.message, "the data end early"), "%s, %zu of %zu bytes: %s",
                      names[k], n, size, err.message);
            free(cut);
        }
        free(bytes);
    }
}

Test(decode_jpeg, what_is_there_may_be_all_that_is_wanted) {
    size_t size;
    image_decoder decoder;
    image out;
    iter_error err = {0};
    uint8_t *bytes = golden("rgb420", &size);
    const iter_image_wish top = {.part = {0, 0, 8, 8}};
    image_decoder_open(&decoder, &iter__decoder_image, NULL);
    cr_assert_eq(image_decode(&decoder, bytes, size * 3 / 4, &top, &out, &err), 0, "%s",
                 err.message);
    image_free(&out);
    cr_assert_eq(image_decode(&decoder, bytes, size * 3 / 4, NULL, &out, &err), ITER_EFORMAT);
    image_decoder_close(&decoder);
    free(bytes);
}

Test(decode_jpeg, warnings_are_accepted_counted_or_refused) {
    size_t size;
    image out;
    iter_error err;
    uint8_t *bytes = golden("restart", &size);
    iter_image_options options = defaults;
    uint8_t *marker = NULL; /* remove the first RST0 */
    for (size_t i = 0; i + 1 < size && !marker; i++)
        if (bytes[i] == 0xff && bytes[i + 1] == 0xd0) marker = bytes + i;
    cr_assert(marker);
    marker[1] = 0xd5;
    cr_assert_eq(decode_bytes(&options, bytes, size, &out, &err), 0);
    cr_assert(strstr(err.message, "Corrupt JPEG data"), "%s", err.message);
    image_free(&out);
    options.on_warning = ITER_WARNING_ACCEPT;
    cr_assert_eq(decode_bytes(&options, bytes, size, &out, &err), 0);
    cr_assert_str_eq(err.message, "");
    image_free(&out);
    options.on_warning = ITER_WARNING_REJECT;
    expect_refused(&options, bytes, size, ITER_EFORMAT, "Corrupt JPEG data");
    free(bytes);
}

Test(decode_jpeg, ceilings) {
    size_t size;
    image out;
    iter_error err;
    iter_image_options options = defaults;
    uint8_t *bytes = golden("rgb420", &size);
    options.max_pixels = 45 * 53;
    cr_assert_eq(decode_bytes(&options, bytes, size, &out, &err), 0);
    image_free(&out);
    options.max_pixels--;
    expect_refused(&options, bytes, size, ITER_ENOMEM, "45 x 53 pixels are more than max-pixels");
    free(bytes);
    bytes = golden("progressive", &size);
    options.max_pixels = 4 * 45 * 53;
    cr_assert_eq(decode_bytes(&options, bytes, size, &out, &err), 0);
    image_free(&out);
    options.max_pixels -= 4;
    expect_refused(&options, bytes, size, ITER_ENOMEM, "a quarter");
    options = defaults;
    options.max_scans = 10; /* Pillow's progressive files have more */
    cr_assert_eq(decode_bytes(&options, bytes, size, &out, &err), 0, "%s", err.message);
    image_free(&out);
    options.max_scans = 9;
    expect_refused(&options, bytes, size, ITER_EFORMAT, "more scans than max-scans=9");
    free(bytes);
}

/* Where the segment with this marker begins; *out_length includes the marker. */
static uint8_t *segment(uint8_t *bytes, size_t size, int marker, size_t *out_length) {
    for (size_t at = 2; at + 4 < size; at += *out_length) {
        *out_length = 2 + ((size_t)bytes[at + 2] << 8) + bytes[at + 3];
        if (bytes[at + 1] == marker) return bytes + at;
    }
    return NULL;
}

static size_t without(uint8_t *bytes, size_t size, int marker) {
    size_t length;
    for (uint8_t *at; (at = segment(bytes, size, marker, &length)); size -= length)
        memmove(at, at + length, (size_t)(bytes + size - at) - length);
    return size;
}

Test(decode_jpeg, no_table_comes_from_another_file) {
    size_t size, other_size;
    image_decoder decoder;
    image out, fresh;
    iter_error err = {0};
    uint8_t *bytes = golden("rgb444", &size), *other = golden("progressive", &other_size);
    image_decoder_open(&decoder, &iter__decoder_image, NULL);
    cr_assert_eq(image_decode(&decoder, other, other_size, NULL, &out, &err), 0);
    image_free(&out);
    /* if there are no Huffman tables, the standard ones apply, not the previous file's */
    size_t n = without(bytes, size, 0xc4);
    cr_assert_lt(n, size);
    const iter_status used = image_decode(&decoder, bytes, n, NULL, &out, &err);
    const iter_status unused = decode_bytes(&defaults, bytes, n, &fresh, &err);
    /* a quality of 85 uses the standard tables, so nothing changes */
    cr_assert_eq(used, 0, "%s", err.message);
    cr_assert_eq(unused, 0);
    image due = image_expected(GOLDEN "rgb444.ppm");
    const iter_rect all = {0, 0, due.height, due.width};
    cr_assert(image_is_part(&due, &all, &out));
    cr_assert(image_is_part(&due, &all, &fresh));
    image_free(&out);
    image_free(&fresh);
    image_free(&due);
    n = without(bytes, n, 0xdb);
    cr_assert_eq(image_decode(&decoder, bytes, n, NULL, &out, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "no quantization table"), "%s", err.message);
    image_decoder_close(&decoder);
    free(bytes);
    free(other);
}

static uint64_t hash(const image *picture) {
    uint64_t h = 1469598103934665603u;
    const size_t n = (size_t)(picture->height * picture->width * picture->channels);
    for (size_t i = 0; i < n; i++)
        h = (h ^ picture->pixels[i]) * 1099511628211u;
    return h;
}

/* With flipped bits, a decoder that has seen other files must give the same result as a new one. */
Test(decode_jpeg, flipped_bits_do_the_same_every_time) {
    const char *const names[] = {"rgb420", "restart", "progressive", "cmyk", "exif6"};
    image_decoder used;
    uint64_t seed = 99;
    iter_image_options options = defaults;
    options.orient = true;
    image_decoder_open(&used, &iter__decoder_image, &options);
    for (int round = 0; round < 2000 / PHOTO_STEP; round++) {
        size_t size;
        uint8_t *bytes = golden(names[round % 5], &size);
        for (int i = 0; i < 1 + round % 4; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[3 + (seed >> 33) % (size - 3)] ^= (uint8_t)(1 << (seed >> 60 & 7));
        }
        image a, b;
        iter_error of_a = {0}, of_b;
        const iter_status status_a = image_decode(&used, bytes, size, NULL, &a, &of_a);
        const iter_status status_b = decode_bytes(&options, bytes, size, &b, &of_b);
        cr_assert_eq(status_a, status_b, "round %d: \"%s\" or \"%s\"", round, of_a.message,
                     of_b.message);
        cr_assert_str_eq(of_a.message, of_b.message);
        if (status_a == ITER_OK) {
            cr_assert_eq(hash(&a), hash(&b), "round %d", round);
            image_free(&a);
            image_free(&b);
        } else {
            cr_assert(of_a.message[0]);
        }
        free(bytes);
    }
    image_decoder_close(&used);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* ---- Decoding at a smaller size -------------------------------------------------------------- */

Test(decode_jpeg, smaller_only_as_far_as_is_allowed) {
    size_t size;
    image_decoder decoder;
    iter_error err = {0};
    uint8_t *bytes = golden("rgb420", &size); /* 45 x 53 */
    image_decoder_open(&decoder, &iter__decoder_image, NULL);
    static const struct {
        int64_t min_height, min_width, height, width;
    } cases[] = {{0, 0, 40, 48},  {41, 48, 40, 48}, {20, 24, 20, 24}, {20, 25, 40, 48},
                 {11, 5, 20, 24}, {10, 12, 10, 12}, {5, 6, 5, 6},     {1, 1, 5, 6}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        image out;
        const iter_image_wish wish = {.part = {3, 2, 40, 48},
                                      .min_height = cases[i].min_height,
                                      .min_width = cases[i].min_width};
        cr_assert_eq(image_decode(&decoder, bytes, size, &wish, &out, &err), 0, "%s", err.message);
        cr_assert_eq(out.height, cases[i].height, "case %zu: %lld", i, (long long)out.height);
        cr_assert_eq(out.width, cases[i].width);
        image_free(&out);
    }
    image_decoder_close(&decoder);
    free(bytes);
}

/* Three files with the same coefficients: with restart markers that end equal parts of rows, and
 * with some that do not, so that no part is cut out before it is decoded. */
Test(decode_jpeg, smaller_parts_between_restarts) {
    const char *const names[] = {"restart3", "restart", "restart1"};
    uint8_t *bytes[3];
    size_t size[3];
    uint64_t seed = 11;
    int n_smaller = 0;
    image_decoder decoder;
    iter_error err = {0};
    image_decoder_open(&decoder, &iter__decoder_image, NULL);
    for (int f = 0; f < 3; f++)
        bytes[f] = golden(names[f], &size[f]);
    for (int i = 0; i < 500; i++) {
        image out[3];
        iter_image_wish wish = {.part = image_random_rect(&seed, 45, 53)};
        wish.min_height = (wish.part.height + 3) / (2 << i % 3);
        wish.min_width = (wish.part.width + 3) / (2 << i % 3);
        for (int f = 0; f < 3; f++)
            cr_assert_eq(image_decode(&decoder, bytes[f], size[f], &wish, &out[f], &err), 0, "%s",
                         err.message);
        const iter_rect all = {0, 0, out[0].height, out[0].width};
        n_smaller += all.height < wish.part.height;
        for (int f = 1; f < 3; f++)
            cr_assert(image_is_part(&out[0], &all, &out[f]), "%s, %d", names[f], i);
        for (int f = 0; f < 3; f++)
            image_free(&out[f]);
    }
    cr_assert_gt(n_smaller, 50);
    for (int f = 0; f < 3; f++)
        free(bytes[f]);
    image_decoder_close(&decoder);
}

/* A photo decoded at a smaller size must be near the mean of the pixels. */
Test(decode_jpeg, smaller_ones_look_like_the_whole) {
    char **paths;
    const size_t n = image_photos(&paths);
    if (n == 0) cr_skip("no photos: ITER_DATA");
    image_decoder decoder;
    iter_error err = {0};
    image_decoder_open(&decoder, &iter__decoder_image, NULL);
    for (size_t i = 0; i < n; i += 71) {
        size_t size;
        image whole, small;
        uint8_t *bytes = image_file(paths[i], &size);
        cr_assert_eq(image_decode(&decoder, bytes, size, NULL, &whole, &err), 0);
        const iter_image_wish wish = {
            .part = {16, 32, whole.height / 2 / 8 * 8, 160}, .min_height = 1, .min_width = 1};
        cr_assert_eq(image_decode(&decoder, bytes, size, &wish, &small, &err), 0);
        cr_assert_eq(small.width, 20);
        double off = 0;
        for (int64_t y = 0; y < small.height; y++)
            for (int64_t x = 0; x < small.width; x++) {
                double sum = 0;
                for (int k = 0; k < 64; k++)
                    sum +=
                        whole.pixels[((16 + 8 * y + k / 8) * whole.width + 32 + 8 * x + k % 8) * 3 +
                                     1];
                const double d = sum / 64 - small.pixels[(y * small.width + x) * 3 + 1];
                off += d < 0 ? -d : d;
            }
        off /= (double)(small.height * small.width);
        cr_assert_lt(off, 2.0, "%s: %g levels on average", paths[i], off);
        image_free(&whole);
        image_free(&small);
        free(bytes);
    }
    image_decoder_close(&decoder);
    image_photos_free(paths, n);
}

/* ---- Photos ---------------------------------------------------------------------------------- */

Test(decode_jpeg, parts_of_photos_are_cuts_of_them) {
    char **paths;
    const size_t n = image_photos(&paths);
    if (n == 0) cr_skip("no photos: ITER_DATA");
    image_decoder decoder;
    uint64_t seed = 17;
    image_decoder_open(&decoder, &iter__decoder_image, NULL);
    for (size_t i = 0; i < n; i += PHOTO_STEP) {
        size_t size;
        image whole, part;
        iter_error err = {0};
        uint8_t *bytes = image_file(paths[i], &size);
        cr_assert_eq(image_decode(&decoder, bytes, size, NULL, &whole, &err), 0, "%s: %s", paths[i],
                     err.message);
        for (int k = 0; k < 4; k++) {
            const iter_image_wish wish = {.part =
                                              image_random_rect(&seed, whole.height, whole.width)};
            cr_assert_eq(image_decode(&decoder, bytes, size, &wish, &part, &err), 0, "%s: %s",
                         paths[i], err.message);
            cr_assert(image_is_part(&whole, &wish.part, &part), "%s", paths[i]);
            image_free(&part);
        }
        image_free(&whole);
        free(bytes);
    }
    image_decoder_close(&decoder);
    image_photos_free(paths, n);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(decode_jpeg, damaged_photos) {
    char **paths;
    const size_t n = image_photos(&paths);
    if (n == 0) cr_skip("no photos: ITER_DATA");
    image_decoder decoder;
    uint64_t seed = 23;
    image_decoder_open(&decoder, &iter__decoder_image, NULL);
    for (size_t i = 0; i < n; i += 3 * PHOTO_STEP) {
        size_t size;
        image out;
        iter_error err = {0};
        uint8_t *bytes = image_file(paths[i], &size);
        const size_t cut = size / 10 + (size_t)(i * 7919) % (size * 8 / 10);
        uint8_t *first = malloc(cut);
        memcpy(first, bytes, cut);
        cr_assert_eq(image_decode(&decoder, first, cut, NULL, &out, &err), ITER_EFORMAT, "%s",
                     paths[i]);
        cr_assert(strstr(err.message, "the data end early"), "%s: %s", paths[i], err.message);
        free(first);
        for (int k = 0; k < 5; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[3 + (seed >> 33) % (size - 3)] ^= (uint8_t)(1 << (seed >> 60 & 7));
        }
        err = (iter_error){0};
        const iter_status status = image_decode(&decoder, bytes, size, NULL, &out, &err);
        if (status == ITER_OK) {
            image_free(&out);
        } else {
            cr_assert(err.message[0]);
        }
        free(bytes);
    }
    image_decoder_close(&decoder);
    image_photos_free(paths, n);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* With growing limits: refused up to some limit, decoded as usual from there on. */
Test(decode_jpeg, within_a_limit) {
    size_t size;
    uint8_t *bytes = golden("progressive", &size);
    image_decoder decoder;
    int n_refused = 0, n_done = 0;
    image_decoder_open(&decoder, &iter__decoder_jpeg, NULL);
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
    cr_assert(n_refused > 3 && n_done > 3, "%d refused, %d done", n_refused, n_done);
    image_decoder_close(&decoder);
    cr_assert_eq(iter__alloc_live(), 0);
    free(bytes);
}

Test(decode_jpeg, steady_state_allocates_nothing) {
    size_t size;
    image_decoder decoder;
    image out;
    iter_error err = {0};
    uint8_t *bytes = golden("cmyk", &size);
    image_decoder_open(&decoder, &iter__decoder_image, NULL);
    cr_assert_eq(image_decode(&decoder, bytes, size, NULL, &out, &err), 0);
    image_free(&out);
    const long count = iter__alloc_count();
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(image_decode(&decoder, bytes, size, NULL, &out, &err), 0);
        image_free(&out);
    }
    cr_assert_eq(iter__alloc_count(), count);
    image_decoder_close(&decoder);
    free(bytes);
}

#else

Test(decode_jpeg, says_what_this_build_is_without) {
    image_decoder decoder;
    image out;
    iter_error err = {0};
    image_decoder_open(&decoder, &iter__decoder_image, &defaults);
    cr_assert_eq(image_decode(&decoder, "\xff\xd8\xff\xe0", 4, NULL, &out, &err),
                 ITER_EUNSUPPORTED);
    cr_assert(strstr(err.message, "libjpeg-turbo"), "%s", err.message);
    image_decoder_close(&decoder);
}

#endif
