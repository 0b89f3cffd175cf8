/*
 * image.h - images in files: what the built-in formats and the codecs share.
 *
 * A format gives an image's bytes as one extent, its field as u8 [ITER_VARIABLE, ITER_VARIABLE, C]
 * "HWC" with iter__decoder_image as its decoder, and an iter_image_options as description.shared.
 * It has the rows of ITER_IMAGE_OPTION_ROWS in its table of options.
 */
#ifndef ITER_LOADERS_DECODERS_IMAGE_H
#define ITER_LOADERS_DECODERS_IMAGE_H

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

/* Endings of the files that iter__decoder_image reads, for formats that find images by name. */
#define ITER_IMAGE_ENDINGS "jpg;jpeg;png;webp"

/* "image": picks the codec by the first bytes. It has header and decode_image, but no decode. */
extern const iter_decoder_ops iter__decoder_image;

/* Its codecs. If the build is without one's library, it fails with EUNSUPPORTED and names the
 * library. */
extern const iter_decoder_ops iter__decoder_jpeg;
extern const iter_decoder_ops iter__decoder_png;
extern const iter_decoder_ops iter__decoder_webp;

/* The table of a codec if this build is without its library; every call fails with EUNSUPPORTED. */
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

/* A new iter__decoder_image, for a decoder whose bytes hold an image, in *out_state; NULL on
 * errors. `options` is borrowed. */
iter_status iter__image_start(const iter_image_options *options, void **out_state, iter_error *err);
/* NULL is ignored. */
void iter__image_stop(void *state);

/* ---- What codecs share ----------------------------------------------------------------------- */

/* EXIF orientation, 1 to 8, of a TIFF block (which follows "Exif\0\0" in a JPEG); 1 if the block
 * has none that can be read. */
int32_t iter__exif_orientation(const uint8_t *bytes, size_t size);

/* Whether rows of the upright picture are columns of the stored one. */
bool iter__orient_swaps(int32_t orientation);
/* A part of the upright picture as a part of the stored one, which is height x width. */
iter_rect iter__orient_rect(int32_t orientation, const iter_rect *upright, int64_t height,
                            int64_t width);
/* Stores row y of a stored part of height x width pixels at its place in the upright part `out`,
 * dense. */
void iter__orient_row(int32_t orientation, int64_t height, int64_t width, int64_t channels,
                      int64_t y, const uint8_t *row, uint8_t *out);

/* Rec. 601 luma in fixed point, as Pillow's "L" has it. */
static inline uint8_t iter__luma(uint32_t r, uint32_t g, uint32_t b) {
    return (uint8_t)((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
}

/* Fails with ENOMEM if a picture has more pixels than the options allow. `whole`: its coefficients
 * or all of its passes are kept while it is decoded. */
iter_status iter__image_check_size(const iter_image_options *options, int64_t height, int64_t width,
                                   bool whole, iter_error *err);
/* Fails with EINVAL if the requested part is not inside the picture. */
iter_status iter__image_check_wish(const iter_image_wish *wish, int64_t height, int64_t width,
                                   iter_error *err);

#endif
