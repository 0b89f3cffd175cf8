/*
 * image.h - images in files: what built-in formats share, and the codecs behind the decoder.
 *
 * A format gives an image's bytes as one extent, its field as u8 [ITER_VARIABLE, ITER_VARIABLE, C]
 * "HWC" with iter__decoder_image as its decoder, and an iter_image_options as description.shared. It
 * takes the options of its user by the rows of ITER_IMAGE_OPTION_ROWS.
 */
#ifndef ITER_LOADERS_IMAGE_H
#define ITER_LOADERS_IMAGE_H

#include <iter/image.h>
#include <iter/option_rows.h>

/* Rows for the option table of a format whose options struct `holder` has an iter_image_options
 * `member`. */
#define ITER_IMAGE_OPTION_ROWS(holder, member)                                                 \
    ITER_ROW_CHOICE("channels", "what an image becomes", holder, member.channels, "rgb|gray"), \
        ITER_ROW_BOOL("orient", "turn images as their EXIF says", holder, member.orient),      \
        ITER_ROW_CHOICE("on-warning", "images that a decoder warns about", holder,             \
                        member.on_warning, "accept|count|reject"),                             \
        ITER_ROW_CHOICE("truncated",                                                           \
                        "JPEGs and PNGs that end early: accept = the missing part is made up", \
                        holder, member.truncated, "fail|accept"),                              \
        ITER_ROW_INT("max-pixels",                                                             \
                     "larger images fail (kept whole while decoded: a quarter of it)", holder, \
                     member.max_pixels, 1, 1e12, 0),                                           \
        ITER_ROW_INT("max-scans", "progressive JPEGs with more scans fail", holder,            \
                     member.max_scans, 1, 1e6, 0)

/* Channels of the decoded image: the field's dims[2]. */
static inline int64_t iter__image_channels(const iter_image_options *options) {
    return options->channels == ITER_IMAGE_GRAY ? 1 : 3;
}

/* Endings of the files that iter__decoder_image reads, for formats that look for images by name. */
#define ITER_IMAGE_ENDINGS "jpg;jpeg;png;webp"

/* "image": tells JPEG, PNG and WebP apart by their first bytes. header and decode_image, no decode. */
extern const iter_decoder_ops iter__decoder_image;

/* The codecs behind it; EUNSUPPORTED naming the library where this build is without. */
extern const iter_decoder_ops iter__decoder_jpeg;
extern const iter_decoder_ops iter__decoder_png;
extern const iter_decoder_ops iter__decoder_webp;

/* The table of a codec whose library this build is without; every call fails with EUNSUPPORTED. */
#define ITER_ABSENT_CODEC(codec, format, library)                                                 \
    static iter_status codec##_header(void *state, const void *shared, const uint8_t *bytes,      \
                                      size_t size, iter_desc *out, iter_error *err) {             \
        (void)state, (void)shared, (void)bytes, (void)size, (void)out;                            \
        return iter__fail(err, ITER_EUNSUPPORTED,                                                 \
                          "a " format ", and this build is without " library);                    \
    }                                                                                             \
    static iter_status codec##_decode(void *state, const void *shared, const uint8_t *bytes,      \
                                      size_t size, const iter_image_wish *wish, iter_tensor *out, \
                                      iter_error *err) {                                          \
        (void)wish;                                                                               \
        return codec##_header(state, shared, bytes, size, &out->desc, err);                       \
    }                                                                                             \
    const iter_decoder_ops iter__decoder_##codec = {                                              \
        .base = {.struct_size = sizeof(iter_decoder_ops),                                         \
                 .name = #codec,                                                                  \
                 .help = format " to pixels (not in this build)"},                                \
        .header = codec##_header,                                                                 \
        .decode_image = codec##_decode,                                                           \
    };

/* An iter__decoder_image of its own for a decoder that finds images inside of other bytes, or NULL
 * on error. `options` is borrowed. */
iter_status iter__image_start(const iter_image_options *options, void **out_state, iter_error *err);
/* NULL is ignored. */
void iter__image_stop(void *state);

/* ---- What codecs share ----------------------------------------------------------------------- */

/* EXIF orientation, 1 to 8, out of a TIFF block (what follows "Exif\0\0" in a JPEG); 1 where it says
 * nothing, or nothing that can be read. */
int32_t iter__exif_orientation(const uint8_t *bytes, size_t size);

/* Whether rows of the upright picture are columns of the stored one. */
bool iter__orient_swaps(int32_t orientation);
/* A part of the upright picture as a part of the stored one, which is height x width. */
iter_rect iter__orient_rect(int32_t orientation, const iter_rect *upright, int64_t height,
                            int64_t width);
/* Stores row y of a stored part of height x width pixels where it belongs in the upright part `out`,
 * dense. */
void iter__orient_row(int32_t orientation, int64_t height, int64_t width, int64_t channels,
                      int64_t y, const uint8_t *row, uint8_t *out);

/* Rec. 601 luma in fixed point, as Pillow's "L" has it. */
static inline uint8_t iter__luma(uint32_t r, uint32_t g, uint32_t b) {
    return (uint8_t)((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
}

/* Fails (ENOMEM) where a picture has more pixels than the options allow; `whole`: its coefficients or
 * all of its passes are kept while it is decoded. */
iter_status iter__image_check_size(const iter_image_options *options, int64_t height, int64_t width,
                                   bool whole, iter_error *err);
/* The wished part must lie in the picture: EINVAL. */
iter_status iter__image_check_wish(const iter_image_wish *wish, int64_t height, int64_t width,
                                   iter_error *err);

#endif
