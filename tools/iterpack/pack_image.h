/* pack_image.h - images as they are to be packed: decoded, cut, resized, encoded anew. */
#ifndef BENCH_PACK_IMAGE_H
#define BENCH_PACK_IMAGE_H

#include "tools/iterpack/iterpack.h"

/* What the command line asks for; zero = files as they are. */
typedef struct pack_image_options {
    int64_t resize;  /* the short side; 0 = as it is */
    int64_t quality; /* of JPEG; 0 = not given, 95 */
    bool center_crop, gray;
    const char *encoding; /* jpg, png, raw; NULL = not given, jpg */
} pack_image_options;

/* Rows of a command's options. */
#define PACK_IMAGE_ROWS(o)                                   \
    {"resize", PACK_NUMBER, &(o)->resize, 1, 65535},         \
        {"quality", PACK_NUMBER, &(o)->quality, 1, 100},     \
        {"center-crop", PACK_FLAG, &(o)->center_crop, 0, 0}, \
        {"gray", PACK_FLAG, &(o)->gray, 0, 0}, {             \
        "encoding", PACK_TEXT, (void *)&(o)->encoding, 0, 0  \
    }

/* Does it ask for anything? */
bool pack_image_wanted(const pack_image_options *options);
/* What decides the bytes, in a few words. The caller frees it. */
char *pack_image_text(const pack_image_options *options);

typedef struct pack_images pack_images;

/* Gets ready; PACK_USAGE where options do not go together. NULL where nothing is asked for. Read-only
 * from then on. */
int pack_images_open(const pack_image_options *options, pack_images **out);
/* For pack_image_make() that decodes all of an image, makes nothing of it, and fails with what its
 * decoder only warns about. */
pack_images *pack_images_to_check(void);
void pack_images_close(pack_images *images);

/* A thread's own. */
typedef struct pack_image pack_image;
/* NULL with the reason where it cannot be had. */
pack_image *pack_image_start(const pack_images *images, char *reason, size_t capacity);
void pack_image_stop(pack_image *image);

/* Makes a file's bytes into those to be packed, valid until the next call. False with the reason;
 * *out_warned: the decoder warned, and went on. */
bool pack_image_make(pack_image *image, const uint8_t *bytes, size_t n, const uint8_t **out,
                     size_t *out_n, bool *out_warned, char *reason, size_t capacity);

#endif
