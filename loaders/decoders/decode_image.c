/*
 * decode_image.c - JPEG, PNG or WebP? The first bytes decide; file names are often wrong.
 *
 * The states of all codecs are made when a worker starts, so decoding allocates memory only for the
 * size of a picture. The options are checked and copied then, too: they may come from a user's own
 * format that was compiled with an older version of the struct, or be absent.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/spec/options.h"
#include "loaders/decoders/codec_memory.h"
#include "loaders/decoders/image.h"

#define N_CODECS    3
#define NO_IMAGE    "not a JPEG, PNG or WebP"
#define SHOWN_BYTES 4 /* of a file of an unknown kind */

typedef struct codec {
    const iter_decoder_ops *ops;
    void *state;
} codec;

typedef struct image_state {
    iter_image_options options;
    codec jpeg, png, webp;
} image_state;

/* ---- static helpers -------------------------------------------------------------------------- */

/* The caller's options, or the defaults. */
static iter_status read_options(const void *shared, iter_image_options *out, iter_error *err) {
    const iter_image_options defaults = ITER_IMAGE_OPTIONS_INIT;
    if (!shared) {
        *out = defaults;
        return ITER_OK;
    }
    ITER_TRY(iter__options_copy(out, sizeof(*out), shared, sizeof(out->struct_size), err));
    if (out->max_pixels == 0) out->max_pixels = defaults.max_pixels;
    if (out->max_scans == 0) out->max_scans = defaults.max_scans;
    if (out->channels < ITER_IMAGE_RGB || out->channels > ITER_IMAGE_GRAY)
        return iter__fail(err, ITER_EINVAL, "options: channels is %d", (int)out->channels);
    if (out->on_warning < ITER_WARNING_ACCEPT || out->on_warning > ITER_WARNING_REJECT)
        return iter__fail(err, ITER_EINVAL, "options: on_warning is %d", (int)out->on_warning);
    if (out->truncated < ITER_TRUNCATED_FAIL || out->truncated > ITER_TRUNCATED_ACCEPT)
        return iter__fail(err, ITER_EINVAL, "options: truncated is %d", (int)out->truncated);
    if (out->max_pixels < 0 || out->max_scans < 0)
        return iter__fail(err, ITER_EINVAL, "options: max_pixels or max_scans is below 0");
    return ITER_OK;
}

/* Fails if a user's own format describes other channels than its options make. */
static iter_status check_channels(const image_state *s, const iter_desc *desc, iter_error *err) {
    const int64_t channels = iter__image_channels(&s->options);
    if (desc->n_dims == 3 && desc->dims[2] == channels) return ITER_OK;
    char shape[96];
    return iter__fail(err, ITER_EINVAL,
                      "the field is %s, its image options make images of %d channels",
                      iter_desc_text(desc, shape, sizeof(shape)), (int)channels);
}

static iter_status codec_start(codec *c, const iter_decoder_ops *ops, const void *shared,
                               iter_error *err) {
    c->state = iter__alloc(1, ops->base.state_size ? ops->base.state_size : 1);
    if (!c->state) return iter__fail(err, ITER_ENOMEM, "no memory for an image decoder");
    const iter_status status = ops->start ? ops->start(c->state, shared, err) : ITER_OK;
    if (status < 0) {
        iter__free(c->state);
        c->state = NULL;
        return status;
    }
    c->ops = ops;
    return ITER_OK;
}

static void codec_stop(codec *c) {
    if (c->ops && c->ops->stop) c->ops->stop(c->state);
    iter__free(c->state);
    *c = (codec){0};
}

static void codec_limit(codec *c, size_t bytes) {
    if (c->ops->limit) c->ops->limit(c->state, bytes);
}

static bool starts_with(const uint8_t *bytes, size_t size, const char *magic, size_t length) {
    return size >= length && memcmp(bytes, magic, length) == 0;
}

/* Names the kind of file that begins with these bytes, for the error; NULL = unknown. */
static const char *other_kind(const uint8_t *bytes, size_t size) {
    static const struct {
        size_t at;
        const char *magic;
        size_t length;
        const char *text;
    } kinds[] = {
        {0, "GIF8", 4, "a GIF"},
        {0, "BM", 2, "a BMP"},
        {0, "RIFF", 4, "a RIFF (AVI, WAV?)"},
        {0, "II*\0", 4, "a TIFF"},
        {0, "MM\0*", 4, "a TIFF"},
        {4, "ftyp", 4, "an ISO file (HEIF, AVIF?)"},
        {0, "<", 1, "a text (HTML?)"},
        {0, "{", 1, "a text (JSON?)"},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (size > kinds[i].at &&
            starts_with(bytes + kinds[i].at, size - kinds[i].at, kinds[i].magic, kinds[i].length))
            return kinds[i].text;
    return NULL;
}

/* Finds the codec for the bytes. */
static iter_status sniff(image_state *s, const uint8_t *bytes, size_t size, codec **out,
                         iter_error *err) {
    *out = NULL;
    if (size == 0) return iter__fail(err, ITER_EFORMAT, "the file is empty");
    if (starts_with(bytes, size, "\xff\xd8\xff", 3)) {
        *out = &s->jpeg;
        return ITER_OK;
    }
    if (starts_with(bytes, size, "\x89PNG\r\n\x1a\n", 8)) {
        *out = &s->png;
        return ITER_OK;
    }
    if (size >= 12 && starts_with(bytes, 4, "RIFF", 4) && starts_with(bytes + 8, 4, "WEBP", 4)) {
        *out = &s->webp;
        return ITER_OK;
    }
    const char *kind = other_kind(bytes, size);
    if (kind) return iter__fail(err, ITER_EFORMAT, NO_IMAGE ": it begins as %s", kind);
    char first[3 * SHOWN_BYTES + 1] = "";
    for (size_t i = 0; i < size && i < SHOWN_BYTES; i++)
        snprintf(first + 3 * i, 4, " %02x", bytes[i]);
    return iter__fail(err, ITER_EFORMAT, NO_IMAGE ": its first bytes are%s", first);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void image_stop(void *state) {
    image_state *s = state;
    codec_stop(&s->webp);
    codec_stop(&s->png);
    codec_stop(&s->jpeg);
}

static iter_status image_start(void *state, const void *shared, iter_error *err) {
    image_state *s = state;
    iter_status status = read_options(shared, &s->options, err);
    if (status == ITER_OK) status = codec_start(&s->jpeg, &iter__decoder_jpeg, &s->options, err);
    if (status == ITER_OK) status = codec_start(&s->png, &iter__decoder_png, &s->options, err);
    if (status == ITER_OK) status = codec_start(&s->webp, &iter__decoder_webp, &s->options, err);
    if (status < 0) image_stop(s);
    return status;
}

static iter_status image_header(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                iter_desc *out, iter_error *err) {
    image_state *s = state;
    codec *c;
    (void)shared; /* start() has copied it */
    ITER_TRY(check_channels(s, out, err));
    ITER_TRY(sniff(s, bytes, size, &c, err));
    return c->ops->header(c->state, &s->options, bytes, size, out, err);
}

static iter_status image_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                const iter_image_wish *wish, iter_tensor *out, iter_error *err) {
    image_state *s = state;
    codec *c;
    (void)shared;
    ITER_TRY(check_channels(s, &out->desc, err));
    ITER_TRY(sniff(s, bytes, size, &c, err));
    return c->ops->decode_image(c->state, &s->options, bytes, size, wish, out, err);
}

/* One codec works at a time; each of the others keeps a block. */
static void image_limit(void *state, size_t bytes) {
    image_state *s = state;
    const size_t kept = (N_CODECS - 1) * ITER_CODEC_KEPT;
    const size_t most = bytes > kept ? bytes - kept : 1;
    codec_limit(&s->jpeg, most);
    codec_limit(&s->png, most);
    codec_limit(&s->webp, most);
}

iter_status iter__image_start(const iter_image_options *options, void **out_state,
                              iter_error *err) {
    codec c = {0};
    const iter_status status = codec_start(&c, &iter__decoder_image, options, err);
    *out_state = c.state;
    return status;
}

void iter__image_stop(void *state) {
    codec c = {.ops = &iter__decoder_image, .state = state};
    if (state) codec_stop(&c);
}

iter_status iter__image_check_size(const iter_image_options *options, int64_t height, int64_t width,
                                   bool whole, iter_error *err) {
    const int64_t most = whole ? options->max_pixels / 4 : options->max_pixels;
    if (height <= 0 || width <= 0) return iter__fail(err, ITER_EFORMAT, "it has no pixels");
    if (height <= most / width) return ITER_OK;
    return iter__fail(err, ITER_ENOMEM, "%lld x %lld pixels are more than max-pixels=%lld%s",
                      (long long)height, (long long)width, (long long)options->max_pixels,
                      whole ? " allows a progressive, interlaced or lossless one (a quarter)" : "");
}

iter_status iter__image_check_wish(const iter_image_wish *wish, int64_t height, int64_t width,
                                   iter_error *err) {
    const iter_rect *r = &wish->part;
    if (r->y >= 0 && r->x >= 0 && r->height > 0 && r->width > 0 && r->height <= height &&
        r->width <= width && r->y <= height - r->height && r->x <= width - r->width)
        return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "%lld x %lld pixels from (%lld, %lld) on are not in a picture of %lld x %lld",
                      (long long)r->height, (long long)r->width, (long long)r->y, (long long)r->x,
                      (long long)height, (long long)width);
}

const iter_decoder_ops iter__decoder_image = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "image",
             .help = "JPEG, PNG or WebP to pixels",
             .state_size = sizeof(image_state)},
    .start = image_start,
    .stop = image_stop,
    .header = image_header,
    .decode_image = image_decode,
    .limit = image_limit,
};
