/* pack_image.h - converts images for packing: decodes, crops, resizes, encodes. */
#ifndef PACK_IMAGE_H
#define PACK_IMAGE_H

#include "tools/iterpack/iterpack.h"

/* What the command line asks for; zero = files as they are. */
typedef struct pack_image_options {
    int64_t resize;  /* the short side; 0 = not resized */
    int64_t quality; /* of JPEG; 0 = not given: 95 */
    bool center_crop, gray;
    bool seekable;        /* JPEGs with restart markers */
    bool progressive;     /* with it, progressive ones become sequential */
    const char *scales;   /* with it, copies for smaller pictures: 4, 8 or 4,8; NULL = none */
    const char *encoding; /* jpg, png, raw; NULL = not given: jpg */
} pack_image_options;

/* Rows of a command's options. */
#define PACK_IMAGE_ROWS(o)                                                                    \
    {"resize", PACK_NUMBER, &(o)->resize, 1, 65535},                                          \
        {"quality", PACK_NUMBER, &(o)->quality, 1, 100},                                      \
        {"center-crop", PACK_FLAG, &(o)->center_crop, 0, 0},                                  \
        {"gray", PACK_FLAG, &(o)->gray, 0, 0}, {"seekable", PACK_FLAG, &(o)->seekable, 0, 0}, \
        {"progressive", PACK_FLAG, &(o)->progressive, 0, 0},                                  \
        {"scales", PACK_TEXT, (void *)&(o)->scales, 0, 0}, {                                  \
        "encoding", PACK_TEXT, (void *)&(o)->encoding, 0, 0                                   \
    }

/* Whether images are decoded and encoded. */
bool pack_image_is_made(const pack_image_options *options);
/* Whether any conversion is asked for: this, or other codes for the same coefficients. */
bool pack_image_wanted(const pack_image_options *options);
/* The settings that decide the bytes, in a few words. The caller frees it. */
char *pack_image_text(const pack_image_options *options);

typedef struct pack_images pack_images;

/* Prepares the conversion. PACK_USAGE if options exclude each other; NULL if nothing is asked for.
 * Read-only after that. */
int pack_images_open(const pack_image_options *options, pack_images **out);
/* For a pack_image_make() that decodes a whole image, drops the pixels, and fails if the decoder
 * warns. */
pack_images *pack_images_to_check(void);
void pack_images_close(pack_images *images);

/* One for each thread. */
typedef struct pack_image pack_image;
/* NULL, with the reason, if it cannot be created. */
pack_image *pack_image_start(const pack_images *images, char *reason, size_t capacity);
void pack_image_stop(pack_image *image);

/* Converts a file's bytes into those to pack, valid until the next call. False with the reason;
 * *out_warned: the decoder warned, but went on. */
bool pack_image_make(pack_image *image, const uint8_t *bytes, size_t n, const uint8_t **out,
                     size_t *out_n, bool *out_warned, char *reason, size_t capacity);

#endif
