/*
 * fuzz_image.h - properties that an image decoder must keep for any bytes.
 *
 * The first byte sets options, the next four a part, the rest is the file. If the header can be
 * read, then exactly that size is decoded, or there is a message. A decoded part equals the part
 * cut from the whole. A decoder that has seen all earlier inputs does what a new one does. A copy
 * for smaller sizes may be damaged where the picture is not.
 */
#ifndef TESTS_SUPPORT_FUZZ_IMAGE_H
#define TESTS_SUPPORT_FUZZ_IMAGE_H

#include <stdlib.h>
#include <string.h>

#include "loaders/files/jpeg_copies.h"
#include "tests/support/image_files.h"

#define FUZZ_IMAGE_HEAD 5

static void fuzz_check(bool holds) {
    if (!holds) abort();
}

static iter_status fuzz_decode(image_decoder *decoder, const uint8_t *bytes, size_t size,
                               const iter_image_wish *wish, image *out) {
    iter_error err = {0};
    const iter_status status = image_decode(decoder, bytes, size, wish, out, &err);
    fuzz_check(status == ITER_OK || status == ITER_EFORMAT || status == ITER_ENOMEM ||
               status == ITER_EUNSUPPORTED);
    fuzz_check(status == ITER_OK || err.message[0]);
    return status;
}

static void fuzz_image(const iter_decoder_ops *ops, const uint8_t *data, size_t size) {
    static image_decoder used[16];
    if (size < FUZZ_IMAGE_HEAD) return;
    iter_image_options options = ITER_IMAGE_OPTIONS_INIT;
    const int kind = data[0] & 15;
    options.channels = kind & 1;
    options.orient = kind >> 1 & 1;
    options.on_warning = kind & 4 ? ITER_WARNING_REJECT : ITER_WARNING_COUNT;
    options.truncated = kind & 8 ? ITER_TRUNCATED_ACCEPT : ITER_TRUNCATED_FAIL;
    options.max_pixels = 1 << 18;
    options.max_scans = 12;
    if (!used[kind].ops) image_decoder_open(&used[kind], ops, &options);
    image_decoder fresh;
    image a, b, part;
    image_decoder_open(&fresh, ops, &options);
    const uint8_t *head = data;
    data += FUZZ_IMAGE_HEAD;
    size -= FUZZ_IMAGE_HEAD;
    const iter_status status = fuzz_decode(&fresh, data, size, NULL, &a);
    fuzz_check(fuzz_decode(&used[kind], data, size, NULL, &b) == status);
    image_decoder_close(&fresh);
    if (status < 0) return;
    fuzz_check(a.height == b.height && a.width == b.width);
    fuzz_check(memcmp(a.pixels, b.pixels, (size_t)(a.height * a.width * a.channels)) == 0);
    iter_rect r = {.y = head[1] * a.height / 256, .x = head[2] * a.width / 256};
    r.height = 1 + head[3] * (a.height - r.y - 1) / 255;
    r.width = 1 + head[4] * (a.width - r.x - 1) / 255;
    const iter_image_wish wish = {.part = r};
    fuzz_check(fuzz_decode(&used[kind], data, size, &wish, &part) == ITER_OK);
    fuzz_check(image_is_part(&a, &r, &part));
    image_free(&part);
    const iter_image_wish small = {.part = r, .min_height = 1, .min_width = 1};
    size_t copy_size;
    const bool has_copy = iter__jpeg_copy_find(data, size, 8, &copy_size) != NULL;
    const iter_status of_small = fuzz_decode(&used[kind], data, size, &small, &part);
    fuzz_check(of_small == ITER_OK || has_copy);
    if (of_small == ITER_OK) {
        fuzz_check(part.height >= 1 && part.height <= r.height && part.width >= 1 &&
                   part.width <= r.width);
        image_free(&part);
    }
    image_free(&a);
    image_free(&b);
}

#endif
