/*
 * test_decode_truncated.c - JPEGs and PNGs that end early, with truncated=accept: against Pillow's
 * pixels (tests/golden/truncated.py), whole, in parts and by rows. Without that option they are
 * refused.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "tests/support/image_files.h"

TestSuite(decode_truncated, .timeout = 120);

#if !defined(ITER_HAVE_JPEG) && !defined(ITER_HAVE_PNG)

Test(decode_truncated, nothing_is_decoded_here) {
    cr_skip("this build is without libjpeg-turbo and libpng");
}

#endif

#define GOLDEN ITER_SOURCE_DIR "/tests/golden/images/"

typedef struct cut_row {
    const char *name;
    size_t bytes;
} cut_row;

#if defined(ITER_HAVE_JPEG) || defined(ITER_HAVE_PNG)

static iter_image_options accepting(void) {
    iter_image_options options = ITER_IMAGE_OPTIONS_INIT;
    options.truncated = ITER_TRUNCATED_ACCEPT;
    return options;
}

/* The first bytes of a golden file, in memory of exactly that size. */
static uint8_t *first_bytes(const char *name, size_t n) {
    char path[512];
    size_t size;
    snprintf(path, sizeof(path), GOLDEN "%s", name);
    uint8_t *bytes = image_file(path, &size), *first = malloc(n);
    cr_assert_lt(n, size);
    memcpy(first, bytes, n);
    free(bytes);
    return first;
}

static iter_status decode_with(const iter_image_options *options, const void *bytes, size_t size,
                               image *out, iter_error *err) {
    image_decoder decoder;
    *err = (iter_error){0};
    image_decoder_open(&decoder, &iter__decoder_image, options);
    const iter_status status = image_decode(&decoder, bytes, size, NULL, out, err);
    image_decoder_close(&decoder);
    return status;
}

static void expect_cut(const cut_row *row) {
    char path[512], due_text[64];
    iter_image_options options = accepting();
    image_decoder decoder;
    image out;
    iter_error err = {0};
    uint64_t seed = 9;
    snprintf(path, sizeof(path), GOLDEN "%s.cut.ppm", row->name);
    snprintf(due_text, sizeof(due_text), "the data end early, after %zu bytes", row->bytes);
    image due = image_expected(path);
    cr_assert(due.pixels, "%s", path);
    uint8_t *bytes = first_bytes(row->name, row->bytes);
    image_decoder_open(&decoder, &iter__decoder_image, &options);
    for (int i = 0; i < 150; i++) {
        iter_image_wish wish = {.part = image_random_rect(&seed, due.height, due.width)};
        if (i == 0) wish.part = (iter_rect){0, 0, due.height, due.width};
        err = (iter_error){0};
        cr_assert_eq(image_decode(&decoder, bytes, row->bytes, i ? &wish : NULL, &out, &err), 0,
                     "%s: %s", row->name, err.message);
        cr_assert(i > 0 || strcmp(err.message, due_text) == 0, "%s: \"%s\"", row->name,
                  err.message);
        cr_assert(!err.message[0] || strcmp(err.message, due_text) == 0, "%s", err.message);
        cr_assert(image_is_part(&due, &wish.part, &out), "%s, part %d", row->name, i);
        image_free(&out);
        bool taken;
        cr_assert_eq(
            image_decode_rows(&decoder, bytes, row->bytes, &wish, (size_t)i, &out, &taken, &err),
            0);
        cr_assert(image_is_part(&due, &wish.part, &out), "%s by rows, part %d", row->name, i);
        image_free(&out);
    }
    image_decoder_close(&decoder);

    options.on_warning = ITER_WARNING_REJECT;
    cr_assert_eq(decode_with(&options, bytes, row->bytes, &out, &err), ITER_EFORMAT);
    cr_assert_str_eq(err.message, due_text);
    options.on_warning = ITER_WARNING_ACCEPT;
    cr_assert_eq(decode_with(&options, bytes, row->bytes, &out, &err), ITER_OK);
    cr_assert_str_eq(err.message, "");
    image_free(&out);
    options.truncated = ITER_TRUNCATED_FAIL;
    cr_assert_eq(decode_with(&options, bytes, row->bytes, &out, &err), ITER_EFORMAT);
    cr_assert_str_eq(err.message, due_text);
    image_free(&due);
    free(bytes);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* At every cut: pixels and a warning, or a reason. A whole file gives the same as without the
 * option. */
static void expect_every_cut(const char *name) {
    const iter_image_options options = accepting();
    char path[512];
    size_t size;
    image whole, out;
    iter_error err;
    int n_failed = 0, n_accepted = 0;
    snprintf(path, sizeof(path), GOLDEN "%s", name);
    uint8_t *bytes = image_file(path, &size);
    cr_assert_eq(decode_with(&options, bytes, size, &whole, &err), ITER_OK);
    cr_assert_str_eq(err.message, "");
    for (size_t n = 9; n < size; n++) {
        uint8_t *cut = malloc(n);
        memcpy(cut, bytes, n);
        const iter_status status = decode_with(&options, cut, n, &out, &err);
        free(cut);
        if (status == ITER_OK) {
            const iter_rect all = {0, 0, whole.height, whole.width};
            if (!err.message[0]) cr_assert(image_is_part(&whole, &all, &out), "%s, %zu", name, n);
            n_accepted += err.message[0] != 0;
            image_free(&out);
        } else {
            cr_assert_eq(status, ITER_EFORMAT);
            n_failed++;
        }
        cr_assert(!err.message[0] || strstr(err.message, "the data end early, after "),
                  "%s, %zu: %s", name, n, err.message);
    }
    cr_assert(n_failed > 20 && n_accepted > 200, "%s: %d, %d", name, n_failed, n_accepted);
    image_free(&whole);
    free(bytes);
    cr_assert_eq(iter__alloc_live(), 0);
}

#endif

#ifdef ITER_HAVE_JPEG

/* The same rows as in truncated.py. */
static const cut_row jpegs[] = {
    {"rgb420.jpg", 1100}, {"rgb444.jpg", 1200},      {"restart.jpg", 950}, {"gray.jpg", 1000},
    {"cmyk.jpg", 2500},   {"progressive.jpg", 1100}, {"exif6.jpg", 800}};

Test(decode_truncated, jpegs_as_pillow_has_them) {
    for (size_t i = 0; i < sizeof(jpegs) / sizeof(jpegs[0]); i++)
        expect_cut(&jpegs[i]);
}

Test(decode_truncated, jpegs_cut_anywhere) {
    expect_every_cut("rgb420.jpg");
    expect_every_cut("progressive.jpg");
    expect_every_cut("restart.jpg");
}

/* libjpeg's decoder reads zeros for missing bits, which gives noise. */
Test(decode_truncated, arithmetic_coding_fails) {
    const iter_image_options options = accepting();
    image out;
    iter_error err;
    uint8_t *bytes = first_bytes("arithmetic.jpg", 800);
    cr_assert_eq(decode_with(&options, bytes, 800, &out, &err), ITER_EFORMAT);
    cr_assert_str_eq(err.message, "the data end early, after 800 bytes");
    free(bytes);
}

/* The next picture is not affected. */
Test(decode_truncated, the_next_one_is_whole) {
    iter_image_options options = accepting();
    image_decoder decoder;
    image out;
    iter_error err = {0};
    size_t size;
    uint8_t *cut = first_bytes("progressive.jpg", 700);
    uint8_t *bytes = image_file(GOLDEN "progressive.jpg", &size);
    image due = image_expected(GOLDEN "progressive.ppm");
    const iter_rect all = {0, 0, due.height, due.width};
    image_decoder_open(&decoder, &iter__decoder_image, &options);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(image_decode(&decoder, cut, 700, NULL, &out, &err), ITER_OK);
        cr_assert(err.message[0]);
        image_free(&out);
        err = (iter_error){0};
        cr_assert_eq(image_decode(&decoder, bytes, size, NULL, &out, &err), ITER_OK);
        cr_assert_str_eq(err.message, "");
        cr_assert(image_is_part(&due, &all, &out));
        image_free(&out);
    }
    image_decoder_close(&decoder);
    image_free(&due);
    free(bytes);
    free(cut);
}

#endif

#ifdef ITER_HAVE_PNG

static const cut_row pngs[] = {{"rgb8.png", 3000}, {"p8.png", 1500}, {"i_rgb8.png", 2000},
                               {"i_p4.png", 500},  {"g8.png", 1200}, {"turned6.png", 900}};

Test(decode_truncated, pngs_as_pillow_has_them) {
    for (size_t i = 0; i < sizeof(pngs) / sizeof(pngs[0]); i++)
        expect_cut(&pngs[i]);
}

Test(decode_truncated, pngs_cut_anywhere) {
    expect_every_cut("p4.png");
    expect_every_cut("i_g1.png");
    expect_every_cut("rgb8.png");
}

/* Damage is not truncation: a wrong checksum of complete data is still refused. */
Test(decode_truncated, a_wrong_checksum_is_refused) {
    const iter_image_options options = accepting();
    image out;
    iter_error err;
    uint8_t *bytes = first_bytes("rgb8.png", 6000);
    bytes[200] ^= 1; /* in the first IDAT chunk, which is complete */
    cr_assert_eq(decode_with(&options, bytes, 6000, &out, &err), ITER_EFORMAT);
    cr_assert_not(strstr(err.message, "end early"), "%s", err.message);
    free(bytes);
}

#endif
