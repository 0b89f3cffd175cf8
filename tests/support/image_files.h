/*
 * image_files.h - image decoders by their tables, and the real photos under ITER_DATA.
 *
 * If something cannot be made or read, the program ends with a message. Only photos are optional:
 * tests skip without them.
 */
#ifndef TESTS_SUPPORT_IMAGE_FILES_H
#define TESTS_SUPPORT_IMAGE_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "loaders/decoders/image.h"

typedef struct image_decoder {
    const iter_decoder_ops *ops;
    void *state;
    iter_image_options options;
} image_decoder;

/* Opens a decoder as a worker does; options NULL = the defaults. */
void image_decoder_open(image_decoder *decoder, const iter_decoder_ops *ops,
                        const iter_image_options *options);
void image_decoder_close(image_decoder *decoder);

typedef struct image {
    uint8_t *pixels; /* malloc(), exactly height * width * channels bytes */
    int64_t height, width, channels;
} image;

/* Decodes the requested part; NULL = all. Leaves no pixels on an error. */
iter_status image_decode(image_decoder *decoder, const void *bytes, size_t size,
                         const iter_image_wish *wish, image *out, iter_error *err);
/* The same, but by rows as they are decoded; each row is read `beyond` bytes past its end.
 * *out_taken = false if the decoder delivered no rows but all pixels at once. */
iter_status image_decode_rows(image_decoder *decoder, const void *bytes, size_t size,
                              const iter_image_wish *wish, size_t beyond, image *out,
                              bool *out_taken, iter_error *err);
void image_free(image *image);

/* Rows and columns of the part equal those of the whole. */
bool image_is_part(const image *whole, const iter_rect *part, const image *cut);

/* Reads the whole file; the caller must free() it. */
uint8_t *image_file(const char *path, size_t *out_size);

/* Reads a .ppm or .pgm with 255 as its largest number. If that fails, so does an assertion of the
 * caller's: pixels are NULL. */
image image_expected(const char *path);

/* Paths of the photos under $ITER_DATA/clothing, sorted; 0 if there are none. */
size_t image_photos(char ***out);
void image_photos_free(char **paths, size_t n);

/* A rectangle within height x width, drawn from *seed. */
iter_rect image_random_rect(uint64_t *seed, int64_t height, int64_t width);

#endif
