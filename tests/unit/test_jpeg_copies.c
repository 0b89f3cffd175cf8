/* test_jpeg_copies.c - copies of a JPEG with fewer coefficients: where they are found, which one is
 * decoded, and damage. What they hold is tested where they are made, by check_iterpack.sh. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "loaders/files/jpeg_copies.h"
#include "tests/support/image_files.h"

TestSuite(jpeg_copies, .timeout = 280);

#define FOOTER ITER__JPEG_COPY_FOOTER

/* A file that grows; bytes of exactly that size. */
typedef struct file {
    uint8_t *bytes;
    size_t size;
} file;

static void add(file *f, const void *bytes, size_t n) {
    uint8_t *more = malloc(f->size + n);
    if (f->size) memcpy(more, f->bytes, f->size);
    memcpy(more + f->size, bytes, n);
    free(f->bytes);
    *f = (file){more, f->size + n};
}

static void add_copy(file *f, int64_t scale, const void *bytes, size_t n) {
    uint8_t footer[FOOTER];
    iter__jpeg_copy_end(footer, scale, n);
    add(f, bytes, n);
    add(f, footer, FOOTER);
}

static void expect_copy(const file *f, int64_t scale, const char *text) {
    size_t size = 0;
    const uint8_t *found = iter__jpeg_copy_find(f->bytes, f->size, scale, &size);
    if (!text) {
        cr_assert_null(found, "scale %d", (int)scale);
        return;
    }
    cr_assert_not_null(found, "scale %d", (int)scale);
    cr_assert_eq(size, strlen(text));
    cr_assert_arr_eq(found, text, size);
}

/* The largest scale that is no larger than the one that is wanted. */
Test(jpeg_copies, found_by_their_footers) {
    file f = {0};
    add(&f, "picture", 7);
    expect_copy(&f, 8, NULL);
    add_copy(&f, 8, "eighth", 6);
    expect_copy(&f, 8, "eighth");
    expect_copy(&f, 4, NULL);
    add_copy(&f, 4, "quarter", 7);
    expect_copy(&f, 8, "eighth");
    expect_copy(&f, 4, "quarter");
    expect_copy(&f, 2, NULL);
    expect_copy(&f, 1, NULL);
    file only = {0};
    add(&only, "picture", 7);
    add_copy(&only, 4, "quarter", 7);
    expect_copy(&only, 8, "quarter");
    free(only.bytes);
    for (size_t n = 0; n < f.size; n++) { /* files that end early */
        file cut = {malloc(n + 1), n};
        memcpy(cut.bytes, f.bytes, n);
        expect_copy(&cut, 8, n == f.size - 7 - FOOTER ? "eighth" : NULL);
        free(cut.bytes);
    }
    free(f.bytes);
}

/* A copy that would begin before the file, or leave nothing of it, is none. */
Test(jpeg_copies, sizes_that_cannot_be) {
    const size_t sizes[] = {5, 6, SIZE_MAX, SIZE_MAX - FOOTER, (size_t)1 << 63};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t footer[FOOTER];
        file f = {0};
        add(&f, "12345", 5);
        iter__jpeg_copy_end(footer, 8, sizes[i]);
        add(&f, footer, FOOTER);
        expect_copy(&f, 8, NULL);
        free(f.bytes);
    }
}

Test(jpeg_copies, coefficients_of_a_smaller_copy_are_in_the_larger_one) {
    const int n_expected[9] = {[1] = 1, [2] = 25, [4] = 49, [8] = 64};
    for (int block = 1; block <= 8; block *= 2) {
        int n = 0;
        for (int k = 0; k < 64; k++) {
            const bool has = iter__jpeg_copy_has(block, k / 8, k % 8);
            n += has;
            cr_assert(!has || block == 8 || iter__jpeg_copy_has(2 * block, k / 8, k % 8));
        }
        cr_assert_eq(n, n_expected[block]);
    }
}

#ifdef ITER_HAVE_JPEG

static file golden(const char *name) {
    char path[512];
    file f;
    snprintf(path, sizeof(path), ITER_SOURCE_DIR "/tests/golden/images/%s.jpg", name);
    f.bytes = image_file(path, &f.size);
    cr_assert_not_null(f.bytes, "%s", path);
    return f;
}

static iter_image_wish wish_for(const iter_rect *part, int64_t scale) {
    return (iter_image_wish){
        .part = *part, .min_height = part->height / scale, .min_width = part->width / scale};
}

static void expect_same(image_decoder *decoder, const file *f, const file *due, int64_t scale) {
    static uint64_t seed = 5;
    for (int i = 0; i < 100; i++) {
        iter_rect part = image_random_rect(&seed, 45, 53);
        if (part.height < 8 || part.width < 8) part = (iter_rect){0, 0, 45, 53};
        const iter_image_wish wish = wish_for(&part, scale);
        image a, b;
        iter_error err = {0};
        cr_assert_eq(image_decode(decoder, f->bytes, f->size, &wish, &a, &err), 0, "%s",
                     err.message);
        cr_assert_eq(image_decode(decoder, due->bytes, due->size, &wish, &b, &err), 0);
        const iter_rect all = {0, 0, b.height, b.width};
        cr_assert(a.height == b.height && a.width == b.width && image_is_part(&b, &all, &a),
                  "scale %d, round %d", (int)scale, i);
        image_free(&a);
        image_free(&b);
    }
}

/* The "copies" are pictures of the same size with other pixels, so it shows which one was read. */
Test(jpeg_copies, decoded_for_their_scales_alone) {
    file own = golden("rgb444"), fourth = golden("restart1"), eighth = golden("rgb422"), f = {0};
    image_decoder decoder;
    image_decoder_open(&decoder, &iter__decoder_image, NULL);
    add(&f, own.bytes, own.size);
    add_copy(&f, 4, fourth.bytes, fourth.size);
    add_copy(&f, 8, eighth.bytes, eighth.size);
    expect_same(&decoder, &f, &own, 1);
    expect_same(&decoder, &f, &own, 2);
    expect_same(&decoder, &f, &fourth, 4);
    expect_same(&decoder, &f, &eighth, 8);
    image_decoder_close(&decoder);
    free(own.bytes);
    free(fourth.bytes);
    free(eighth.bytes);
    free(f.bytes);
    cr_assert_eq(iter__alloc_live(), 0);
}

static void expect_failure(const file *f, const char *text) {
    const iter_rect whole = {0, 0, 45, 53};
    const iter_image_wish small = wish_for(&whole, 8), large = wish_for(&whole, 1);
    image_decoder decoder;
    image out;
    iter_error err = {0};
    iter_image_options options = ITER_IMAGE_OPTIONS_INIT;
    options.on_warning = ITER_WARNING_REJECT;
    image_decoder_open(&decoder, &iter__decoder_image, &options);
    for (int i = 0; i < 2; i++) { /* a failure leaves nothing behind */
        cr_assert_eq(image_decode(&decoder, f->bytes, f->size, &small, &out, &err), ITER_EFORMAT);
        cr_assert(strstr(err.message, "in its copy for smaller sizes: "), "%s", err.message);
        cr_assert(strstr(err.message, text), "\"%s\" is not in \"%s\"", text, err.message);
        cr_assert_eq(image_decode(&decoder, f->bytes, f->size, &large, &out, &err), 0, "%s",
                     err.message);
        image_free(&out);
    }
    image_decoder_close(&decoder);
}

/* The picture itself is as good as before. */
Test(jpeg_copies, damage) {
    file own = golden("rgb444");
    static const struct {
        const char *name, *text;
    } others[] = {{"one", "another picture, of 1 x 1 pixels"},
                  {"gray", "another picture"},
                  {"cmyk", "another picture"},
                  {"progressive", "another picture"}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        file other = golden(others[i].name), f = {0};
        add(&f, own.bytes, own.size);
        add_copy(&f, 8, other.bytes, other.size);
        expect_failure(&f, others[i].text);
        free(other.bytes);
        free(f.bytes);
    }
    file none = {0}, cut = {0};
    add(&none, own.bytes, own.size);
    add_copy(&none, 8, "no picture", 10);
    expect_failure(&none, "Not a JPEG file");
    add(&cut, own.bytes, own.size);
    add_copy(&cut, 8, own.bytes, own.size / 2);
    expect_failure(&cut, "the data end early");
    free(own.bytes);
    free(none.bytes);
    free(cut.bytes);
    cr_assert_eq(iter__alloc_live(), 0);
}

#endif
