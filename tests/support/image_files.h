/*
 * image_files.h - image decoders by their tables, and the real photos under ITER_DATA.
 *
 * What cannot be had ends the program with a message, but for the photos: without them tests skip.
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

/* A decoder as a worker has it; options NULL = the defaults. */
void image_decoder_open(image_decoder *decoder, const iter_decoder_ops *ops,
                        const iter_image_options *options);
void image_decoder_close(image_decoder *decoder);

typedef struct image {
    uint8_t *pixels; /* malloc(), exactly height * width * channels bytes */
    int64_t height, width, channels;
} image;

/* The wished part; NULL = all. Without it there are no pixels. */
iter_status image_decode(image_decoder *decoder, const void *bytes, size_t size,
                         const iter_image_wish *wish, image *out, iter_error *err);
/* The same by rows as they are decoded, each read `beyond` bytes past its end. *out_taken = false: none came, the
 * pixels came as ever. */
iter_status image_decode_rows(image_decoder *decoder, const void *bytes, size_t size,
                              const iter_image_wish *wish, size_t beyond, image *out,
                              bool *out_taken, iter_error *err);
void image_free(image *image);

/* Rows and columns of the part equal those of the whole. */
bool image_is_part(const image *whole, const iter_rect *part, const image *cut);

/* The whole file, malloc()ed. */
uint8_t *image_file(const char *path, size_t *out_size);

/* A .ppm or .pgm with 255 as its largest number, or a failed assertion of the caller's: pixels NULL. */
image image_expected(const char *path);

/* Paths of the photos under $ITER_DATA/clothing, sorted; 0 where there are none. */
size_t image_photos(char ***out);
void image_photos_free(char **paths, size_t n);

/* A rectangle within height x width, drawn from *seed. */
iter_rect image_random_rect(uint64_t *seed, int64_t height, int64_t width);

#endif
