/*
 * decode_webp.c - WebP to pixels through libwebp: lossy (VP8) and lossless (VP8L), still pictures.
 *
 * libwebp gets only the chunk of the picture, not the file. So the alpha channel of a lossy
 * picture, which is dropped as PNG's is, is not decoded at all.
 *
 * libwebp crops while it decodes: it stops after the last row that is needed, and converts no pixel
 * outside. But it upsamples chroma from the cropped picture, so at its edges colours differ from
 * those of the whole. Two more pixels on each side hold the neighbours that matter; they are
 * dropped afterwards.
 *
 * libwebp calls malloc(), and no option changes that. A picture's header tells what it takes,
 * except for the tables of a lossless one, which are less than a hundredth of it as encoders write
 * them. So a picture that would exceed its limit is refused before it is decoded.
 *
 * Source: RFC 9649 (container, VP8L); libwebp's AllocateMemory() and AllocateInternalBuffers32b()
 * for its memory.
 */
#include "loaders/decoders/image.h"

#include "iter/core/error.h"

#ifdef ITER_HAVE_WEBP

#include <stdio.h>
#include <string.h>

#include <webp/decode.h>

#include "iter/core/arith.h"
#include "loaders/decoders/codec_memory.h"

#define RIFF_BYTES      12 /* "RIFF", size, "WEBP" */
#define CHUNK_BYTES     8  /* name and size */
#define VP8X_BYTES      10
#define ANIMATED        0x02 /* in the flags of VP8X */
#define FORMAT_LOSSLESS 2    /* in WebPBitstreamFeatures */
#define NEIGHBOURS      2    /* pixels from which chroma at an edge is upsampled */

#define LOSSY_BYTES    ((size_t)32 << 10)
#define LOSSY_A_COLUMN 160
#define LOSSLESS_BYTES ((size_t)256 << 10)
#define LOSSLESS_ROWS  17 /* beside the picture */

typedef struct webp_state {
    const iter_image_options *options;
    iter__codec_memory memory;
} webp_state;

/* The parts of the file that matter; borrowed. */
typedef struct webp_file {
    const uint8_t *picture; /* content of the chunk "VP8 " or "VP8L" */
    size_t picture_bytes;
    const uint8_t *exif; /* NULL = absent */
    size_t exif_bytes;
    int64_t canvas_height, canvas_width; /* of VP8X; 0 = absent */
    int64_t height, width;
    bool lossless;
} webp_file;

/* ---- The container --------------------------------------------------------------------------- */

static uint32_t little_endian(const uint8_t *at, int n) {
    uint32_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint32_t)at[i] << (8 * i);
    return value;
}

static iter_status ends_early(size_t size, iter_error *err) {
    return iter__fail(err, ITER_EFORMAT, "the data end early, after %zu bytes", size);
}

/* The chunk VP8X, the first one if it is present. */
static iter_status read_features(webp_file *file, const uint8_t *at, size_t n, iter_error *err) {
    if (n < VP8X_BYTES) return iter__fail(err, ITER_EFORMAT, "a chunk VP8X of %zu bytes", n);
    if (at[0] & ANIMATED)
        return iter__fail(err, ITER_EUNSUPPORTED, "an animated WebP; only still ones can be read");
    file->canvas_width = 1 + (int64_t)little_endian(at + 4, 3);
    file->canvas_height = 1 + (int64_t)little_endian(at + 7, 3);
    return ITER_OK;
}

/* One chunk's content at[n]. */
static iter_status read_chunk(webp_file *file, const uint8_t *name, const uint8_t *at, size_t n,
                              iter_error *err) {
    const bool lossless = memcmp(name, "VP8L", 4) == 0;
    if (memcmp(name, "VP8X", 4) == 0) return read_features(file, at, n, err);
    if (memcmp(name, "EXIF", 4) == 0 && !file->exif) {
        const size_t head = n >= 6 && memcmp(at, "Exif\0\0", 6) == 0 ? 6 : 0; /* some writers' */
        file->exif = at + head;
        file->exif_bytes = n - head;
    }
    if ((lossless || memcmp(name, "VP8 ", 4) == 0) && !file->picture) {
        file->picture = at;
        file->picture_bytes = n;
        file->lossless = lossless;
    }
    return ITER_OK;
}

static iter_status read_container(webp_file *file, const uint8_t *bytes, size_t size,
                                  iter_error *err) {
    memset(file, 0, sizeof(*file));
    if (size < RIFF_BYTES) return ends_early(size, err);
    const size_t told = (size_t)little_endian(bytes + 4, 4) + CHUNK_BYTES;
    if (told > size) return ends_early(size, err);
    for (size_t at = RIFF_BYTES; told - at >= CHUNK_BYTES && told > at;) {
        const size_t n = little_endian(bytes + at + 4, 4), left = told - at - CHUNK_BYTES;
        if (n > left)
            return iter__fail(err, ITER_EFORMAT, "a chunk of %zu bytes, and %zu are left", n, left);
        ITER_TRY(read_chunk(file, bytes + at, bytes + at + CHUNK_BYTES, n, err));
        const size_t padded = n + (n & 1);
        at += CHUNK_BYTES + iter__min_size(padded, left);
    }
    if (!file->picture) return iter__fail(err, ITER_EFORMAT, "it has no chunk VP8 or VP8L");
    return ITER_OK;
}

/* Reads the container and the size; fails if the picture is too large. */
static iter_status look(const webp_state *s, const uint8_t *bytes, size_t size, webp_file *file,
                        int32_t *out_orientation, iter_error *err) {
    WebPBitstreamFeatures features;
    ITER_TRY(read_container(file, bytes, size, err));
    if (WebPGetFeatures(file->picture, file->picture_bytes, &features) != VP8_STATUS_OK)
        return iter__fail(err, ITER_EFORMAT, "its picture has no valid header");
    if ((features.format == FORMAT_LOSSLESS) != file->lossless)
        return iter__fail(err, ITER_EFORMAT, "the picture is not of the kind that its chunk names");
    const int height = features.height, width = features.width;
    file->height = height;
    file->width = width;
    if (file->canvas_width && (file->canvas_height != height || file->canvas_width != width))
        return iter__fail(err, ITER_EFORMAT,
                          "a picture of %d x %d pixels on a canvas of %lld x %lld", height, width,
                          (long long)file->canvas_height, (long long)file->canvas_width);
    *out_orientation =
        s->options->orient && file->exif ? iter__exif_orientation(file->exif, file->exif_bytes) : 1;
    return iter__image_check_size(s->options, height, width, file->lossless, err);
}

/* ---- Pixels ---------------------------------------------------------------------------------- */

/* The bytes that libwebp allocates for the picture. */
static size_t decoder_bytes(const webp_file *file) {
    const size_t width = (size_t)file->width, height = (size_t)file->height;
    if (!file->lossless) return LOSSY_BYTES + width * LOSSY_A_COLUMN;
    return LOSSLESS_BYTES + 4 * width * (height + LOSSLESS_ROWS) + width * height / 2;
}

/* Widens [at, at + n) by the pixels that must be decoded around it, to begin at an even place. */
static void widen(int64_t *at, int64_t *n, int64_t whole, bool lossless) {
    const int64_t more = lossless ? 0 : NEIGHBOURS;
    int64_t from = (*at & ~(int64_t)1) - more, to = *at + *n;
    if (!lossless) to = ((to - 1) & ~(int64_t)1) + 2 + more;
    if (from < 0) from = 0;
    if (to > whole) to = whole;
    *at = from;
    *n = to - from;
}

static iter_status failed(VP8StatusCode code, size_t size, iter_error *err) {
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY: return iter__fail(err, ITER_ENOMEM, "no memory for libwebp");
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA: return ends_early(size, err);
    default:
        return iter__fail(err, ITER_EFORMAT, "its data is corrupt (libwebp's error %d)", (int)code);
    }
}

/* Decodes the rectangle as RGB to `out`, dense. */
static iter_status decode_rect(const webp_file *file, const iter_rect *rect, uint8_t *out,
                               iter_error *err) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return iter__fail(err, ITER_EUNSUPPORTED, "libwebp has another version than its header");
    config.options.use_cropping = 1;
    config.options.crop_left = (int)rect->x;
    config.options.crop_top = (int)rect->y;
    config.options.crop_width = (int)rect->width;
    config.options.crop_height = (int)rect->height;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out;
    config.output.u.RGBA.stride = (int)(3 * rect->width);
    config.output.u.RGBA.size = (size_t)(3 * rect->width * rect->height);
    const VP8StatusCode code = WebPDecode(file->picture, file->picture_bytes, &config);
    WebPFreeDecBuffer(&config.output);
    return code == VP8_STATUS_OK ? ITER_OK : failed(code, file->picture_bytes, err);
}

/* Stores the rows of the decoded rectangle at their places in the part: RGB, or gray in place. */
static void store_rows(const webp_state *s, int32_t orientation, const iter_rect *rect,
                       const iter_rect *part, uint8_t *pixels, uint8_t *out) {
    const int64_t channels = iter__image_channels(s->options);
    for (int64_t y = 0; y < part->height; y++) {
        uint8_t *row = pixels + 3 * ((part->y - rect->y + y) * rect->width + part->x - rect->x);
        for (int64_t x = 0; channels == 1 && x < part->width; x++)
            row[x] = iter__luma(row[3 * x], row[3 * x + 1], row[3 * x + 2]);
        iter__orient_row(orientation, part->height, part->width, channels, y, row, out);
    }
}

static iter_status decode_file(webp_state *s, const webp_file *file, int32_t orientation,
                               const iter_rect *part, uint8_t *out, iter_error *err) {
    iter_rect rect = *part;
    widen(&rect.y, &rect.height, file->height, file->lossless);
    widen(&rect.x, &rect.width, file->width, file->lossless);
    const bool straight = orientation == 1 && iter__image_channels(s->options) == 3 &&
                          rect.height == part->height && rect.width == part->width;
    void *pixels = out;
    ITER_TRY(iter__codec_expect(&s->memory, decoder_bytes(file), err));
    if (!straight)
        ITER_TRY(
            iter__codec_take(&s->memory, (size_t)(3 * rect.height * rect.width), &pixels, err));
    ITER_TRY(decode_rect(file, &rect, pixels, err));
    if (!straight) store_rows(s, orientation, &rect, part, pixels, out);
    return ITER_OK;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void webp_stop(void *state) {
    webp_state *s = state;
    iter__codec_free(&s->memory);
}

static iter_status webp_start(void *state, const void *shared, iter_error *err) {
    webp_state *s = state;
    (void)err;
    s->options = shared;
    return ITER_OK;
}

static iter_status webp_header(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_desc *out, iter_error *err) {
    webp_file file;
    int32_t orientation = 1;
    (void)shared; /* the state has it */
    ITER_TRY(look(state, bytes, size, &file, &orientation, err));
    const bool swaps = iter__orient_swaps(orientation);
    out->dims[0] = swaps ? file.width : file.height;
    out->dims[1] = swaps ? file.height : file.width;
    return ITER_OK;
}

static iter_status webp_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               const iter_image_wish *wish, iter_tensor *out, iter_error *err) {
    webp_state *s = state;
    webp_file file;
    int32_t orientation = 1;
    (void)shared;
    ITER_TRY(look(s, bytes, size, &file, &orientation, err));
    const bool swaps = iter__orient_swaps(orientation);
    ITER_TRY(iter__image_check_wish(wish, swaps ? file.width : file.height,
                                    swaps ? file.height : file.width, err));
    const iter_rect part = iter__orient_rect(orientation, &wish->part, file.height, file.width);
    const iter_status status = decode_file(s, &file, orientation, &part, out->data, err);
    iter__codec_give_back(&s->memory);
    out->desc.dims[0] = wish->part.height;
    out->desc.dims[1] = wish->part.width;
    return status;
}

static void webp_limit(void *state, size_t bytes) {
    webp_state *s = state;
    s->memory.most = bytes;
}

const iter_decoder_ops iter__decoder_webp = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "webp",
             .help = "WebP to pixels, by libwebp",
             .state_size = sizeof(webp_state)},
    .start = webp_start,
    .stop = webp_stop,
    .header = webp_header,
    .decode_image = webp_decode,
    .limit = webp_limit,
};

#else

ITER_ABSENT_CODEC(webp, "WebP", "libwebp (ITER_WITH_WEBP)")

#endif
