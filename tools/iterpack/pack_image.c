/*
 * pack_image.c - see pack_image.h.
 *
 * The library decodes and resizes, by its decoder "image" and its stage "resize-short". Both are
 * called through their tables, one image at a time, because images of different sizes do not fit
 * into a batch. Pictures are turned as their EXIF says, which is not written again; im2rec's
 * cv2.imread() does the same. As in im2rec, a centre crop to a square comes before the resize; only
 * that part is decoded.
 */
#include "tools/iterpack/pack_image.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <iter/image.h>
#include <iter/registry.h>
#include <iter/transforms.h>

#include "loaders/files/jpeg_copies.h"
#include "tools/iterpack/pack_encode.h"
#include "tools/iterpack/pack_seekable.h"

#define QUALITY 95 /* im2rec's default */
#define ALIGN   64
#define SLACK   64 /* stages may load, never store, past an image */

enum { AS_JPEG, AS_PNG, AS_RAW };

struct pack_images {
    const iter_decoder_ops *decoder;
    iter_image_options shared;
    const iter_transform_ops *resizer; /* NULL = not resized */
    iter_resize_short_options resize;
    bool square, is_check; /* is_check: pixels are decoded and dropped */
    bool as_they_are;      /* images are not decoded */
    bool seekable;
    pack_seekable_options seek;
    int encoding, quality, channels;
};

/* Memory that grows without keeping its content. */
typedef struct room {
    void *data;
    size_t bytes;
} room;

struct pack_image {
    const pack_images *all;
    void *decoder, *resizer; /* their states */
    room decoded, resized, scratch;
    uint8_t *encoded, *seekable; /* from malloc() */
    size_t encoded_capacity, seekable_capacity;
};

/* ---- options --------------------------------------------------------------------------------- */

bool pack_image_is_made(const pack_image_options *o) {
    return o->resize || o->quality || o->center_crop || o->gray || o->encoding;
}

bool pack_image_wanted(const pack_image_options *o) {
    return pack_image_is_made(o) || o->seekable || o->progressive || o->scales;
}

char *pack_image_text(const pack_image_options *o) {
    const char *seekable = !o->seekable ? "" : o->progressive ? ", seekable, all" : ", seekable";
    const char *before = o->scales ? ", scales " : "", *scales = o->scales ? o->scales : "";
    if (!pack_image_is_made(o)) return pack_text("as they are%s%s%s", seekable, before, scales);
    return pack_text("resize %" PRId64 " quality %" PRId64 " crop %d gray %d as %s%s%s%s",
                     o->resize, o->quality ? o->quality : QUALITY, o->center_crop, o->gray,
                     o->encoding ? o->encoding : "jpg", seekable, before, scales);
}

static int read_encoding(const pack_image_options *o, int *out) {
    const char *name = o->encoding ? o->encoding : "jpg";
    name += *name == '.'; /* im2rec writes .jpg */
    *out = AS_JPEG;
    if (strcmp(name, "png") == 0) {
        *out = AS_PNG;
    } else if (strcmp(name, "raw") == 0) {
        *out = AS_RAW;
    } else if (strcmp(name, "jpg") != 0) {
        return pack_usage("--encoding %s: jpg, png or raw is needed", o->encoding);
    }
    if (o->seekable && !pack_encode_has_jpeg())
        return pack_usage("--seekable: this build has no libjpeg-turbo");
    if (*out == AS_JPEG && !pack_encode_has_jpeg())
        return pack_usage("--encoding jpg: this build has no libjpeg-turbo");
    if (*out == AS_PNG && !pack_encode_has_png())
        return pack_usage("--encoding png: this build has no libpng");
    if (o->progressive && !o->seekable) return pack_usage("--progressive is for --seekable");
    if (o->scales && !o->seekable) return pack_usage("--scales is for --seekable");
    if (*out != AS_JPEG && o->seekable) return pack_usage("--seekable is for --encoding jpg");
    if (*out != AS_JPEG && o->quality) return pack_usage("--quality is for --encoding jpg");
    if (*out == AS_RAW && !(o->resize && o->center_crop))
        return pack_usage("--encoding raw: bare pixels do not tell their size: --resize and "
                          "--center-crop are needed");
    return PACK_DONE;
}

static int read_seekable(const pack_image_options *o, pack_seekable_options *out) {
    const char *scales = o->scales ? o->scales : "";
    const bool both = strcmp(scales, "4,8") == 0;
    *out = (pack_seekable_options){.progressive = o->progressive,
                                   .for_4 = both || strcmp(scales, "4") == 0,
                                   .for_8 = both || strcmp(scales, "8") == 0};
    if (!o->scales || out->for_4 || out->for_8) return PACK_DONE;
    return pack_usage("--scales %s: 4, 8 or 4,8 is needed", scales);
}

/* ---- shared state ---------------------------------------------------------------------------- */

static pack_images *new_images(int channels) {
    pack_images *images = pack_memory(NULL, 1, sizeof(*images));
    *images = (pack_images){.decoder = iter_builtin_decoder("image"),
                            .shared = ITER_IMAGE_OPTIONS_INIT,
                            .resize = ITER_RESIZE_SHORT_OPTIONS_INIT,
                            .channels = channels};
    images->shared.channels = channels == 1 ? ITER_IMAGE_GRAY : ITER_IMAGE_RGB;
    return images;
}

int pack_images_open(const pack_image_options *o, pack_images **out) {
    int encoding;
    pack_seekable_options seek;
    *out = NULL;
    if (!pack_image_wanted(o)) return PACK_DONE;
    int status = read_encoding(o, &encoding);
    if (status == PACK_DONE) status = read_seekable(o, &seek);
    if (status != PACK_DONE) return status;
    pack_images *images = new_images(o->gray ? 1 : 3);
    images->shared.orient = true;
    images->square = o->center_crop;
    images->encoding = encoding;
    images->quality = o->quality ? (int)o->quality : QUALITY;
    images->resize.size = o->resize;
    images->as_they_are = !pack_image_is_made(o);
    images->seekable = o->seekable;
    images->seek = seek;
    if (o->resize) images->resizer = iter_registry_transform(NULL, "resize-short");
    *out = images;
    return PACK_DONE;
}

pack_images *pack_images_to_check(void) {
    pack_images *images = new_images(3);
    images->shared.on_warning = ITER_WARNING_REJECT;
    images->is_check = true;
    return images;
}

void pack_images_close(pack_images *images) {
    free(images);
}

/* ---- per thread ------------------------------------------------------------------------------ */

static void *new_state(const iter_ops *ops) {
    const size_t bytes = (ops->state_size + ALIGN) / ALIGN * ALIGN;
    void *state = aligned_alloc(ALIGN, bytes);
    if (state) memset(state, 0, bytes);
    return state;
}

pack_image *pack_image_start(const pack_images *all, char *reason, size_t capacity) {
    iter_error err = {.message = "no memory"};
    pack_image *image = pack_memory(NULL, 1, sizeof(*image));
    *image = (pack_image){.all = all, .decoder = new_state(&all->decoder->base)};
    bool good = image->decoder != NULL;
    if (good && all->decoder->start &&
        all->decoder->start(image->decoder, &all->shared, &err) < 0) {
        good = false;
        free(image->decoder); /* it has stopped already */
        image->decoder = NULL;
    }
    if (good && all->resizer) {
        image->resizer = new_state(&all->resizer->base);
        good = image->resizer != NULL;
        if (good && all->resizer->start &&
            all->resizer->start(image->resizer, &all->resize, &err) < 0) {
            good = false;
            free(image->resizer);
            image->resizer = NULL;
        }
    }
    if (good) return image;
    snprintf(reason, capacity, "%s", err.message);
    pack_image_stop(image);
    return NULL;
}

void pack_image_stop(pack_image *image) {
    if (!image) return;
    const pack_images *all = image->all;
    if (image->decoder && all->decoder->stop) all->decoder->stop(image->decoder);
    if (image->resizer && all->resizer->stop) all->resizer->stop(image->resizer);
    free(image->decoder);
    free(image->resizer);
    free(image->decoded.data);
    free(image->resized.data);
    free(image->scratch.data);
    free(image->encoded);
    free(image->seekable);
    free(image);
}

static bool grow(room *r, size_t bytes, char *reason, size_t capacity) {
    if (bytes + SLACK <= r->bytes) return true;
    const size_t wanted = (bytes + bytes / 4 + SLACK + ALIGN) / ALIGN * ALIGN;
    free(r->data);
    r->bytes = 0;
    r->data = aligned_alloc(ALIGN, wanted);
    if (!r->data) {
        snprintf(reason, capacity, "no memory for %zu bytes", wanted);
        return false;
    }
    r->bytes = wanted;
    return true;
}

/* The part of the picture to pack. */
static iter_rect part_of(const pack_images *all, int64_t height, int64_t width) {
    const int64_t side = height < width ? height : width;
    if (!all->square) return (iter_rect){0, 0, height, width};
    return (iter_rect){(height - side) / 2, (width - side) / 2, side, side};
}

/* `scale` = as many times smaller, if the decoder can. */
static bool decode(pack_image *image, const uint8_t *bytes, size_t n, int64_t scale,
                   iter_tensor *out, bool *out_warned, char *reason, size_t capacity) {
    const iter_decoder_ops *ops = image->all->decoder;
    iter_error err = {.message = ""};
    iter_desc desc = {.dtype = ITER_U8, .n_dims = 3, .layout = "HWC"};
    desc.dims[2] = image->all->channels;
    iter_status status = ops->header(image->decoder, &image->all->shared, bytes, n, &desc, &err);
    if (status == ITER_OK) {
        iter_image_wish wish = {.part = part_of(image->all, desc.dims[0], desc.dims[1])};
        if (scale > 1) {
            wish.min_height = wish.part.height / scale;
            wish.min_width = wish.part.width / scale;
        }
        desc.dims[0] = wish.part.height;
        desc.dims[1] = wish.part.width;
        if (!grow(&image->decoded, iter_desc_bytes(&desc), reason, capacity)) return false;
        *out = iter_tensor_dense(&desc, image->decoded.data);
        err.message[0] = '\0';
        status = ops->decode_image(image->decoder, &image->all->shared, bytes, n, &wish, out, &err);
    }
    *out_warned = status == ITER_OK && err.message[0] != '\0';
    if (status < 0) snprintf(reason, capacity, "%s", err.message);
    return status == ITER_OK;
}

static bool resize(pack_image *image, iter_tensor *pixels, char *reason, size_t capacity) {
    const iter_transform_ops *ops = image->all->resizer;
    const void *options = &image->all->resize;
    iter_error err = {.message = ""};
    iter_desc desc;
    size_t scratch = 0;
    iter_rng rng = iter_rng_at(0, 0, 0); /* the stage draws no numbers */
    iter_status status = ops->plan(options, &pixels->desc, &desc, &scratch, &err);
    if (status == ITER_OK) {
        if (!grow(&image->resized, iter_desc_bytes(&desc), reason, capacity) ||
            !grow(&image->scratch, scratch, reason, capacity))
            return false;
        iter_tensor out = iter_tensor_dense(&desc, image->resized.data);
        status = ops->apply(image->resizer, options, pixels, &out, &rng, image->scratch.data, &err);
        *pixels = out;
    }
    if (status < 0) snprintf(reason, capacity, "%s", err.message);
    return status == ITER_OK;
}

/* Decodes the copies that a JPEG may have for smaller sizes. */
static bool check_copies(pack_image *image, const uint8_t *bytes, size_t n, char *reason,
                         size_t capacity) {
    for (int64_t scale = 4; scale <= 8; scale *= 2) {
        size_t copy_n;
        iter_tensor tensor;
        bool warned;
        if (iter__jpeg_copy_find(bytes, n, scale, &copy_n) &&
            !decode(image, bytes, n, scale, &tensor, &warned, reason, capacity))
            return false;
    }
    return true;
}

/* Decodes and encodes. */
static bool make_anew(pack_image *image, const uint8_t *bytes, size_t n, const uint8_t **out,
                      size_t *out_n, bool *out_warned, char *reason, size_t capacity) {
    const pack_images *all = image->all;
    iter_tensor tensor;
    if (!decode(image, bytes, n, 1, &tensor, out_warned, reason, capacity) ||
        (all->resizer && !resize(image, &tensor, reason, capacity)))
        return false;
    if (all->is_check) return check_copies(image, bytes, n, reason, capacity);
    const int64_t *dims = tensor.desc.dims;
    const pack_pixels pixels = {tensor.data, (uint32_t)dims[0], (uint32_t)dims[1], (int)dims[2]};
    bool good = true;
    *out_n = iter_desc_bytes(&tensor.desc);
    *out = tensor.data;
    if (all->encoding == AS_RAW) return true;
    good = all->encoding == AS_PNG
               ? pack_encode_png(&pixels, &image->encoded, &image->encoded_capacity, out_n, reason,
                                 capacity)
               : pack_encode_jpeg(&pixels, all->quality, &image->encoded, &image->encoded_capacity,
                                  out_n, reason, capacity);
    *out = image->encoded;
    return good;
}

bool pack_image_make(pack_image *image, const uint8_t *bytes, size_t n, const uint8_t **out,
                     size_t *out_n, bool *out_warned, char *reason, size_t capacity) {
    const pack_images *all = image->all;
    *out = NULL;
    *out_n = 0;
    *out_warned = false;
    if (all->as_they_are) {
        *out = bytes;
        *out_n = n;
    } else if (!make_anew(image, bytes, n, out, out_n, out_warned, reason, capacity)) {
        return false;
    }
    size_t seekable_n;
    if (all->seekable && pack_seekable_write(&all->seek, *out, *out_n, &image->seekable,
                                             &image->seekable_capacity, &seekable_n)) {
        *out = image->seekable;
        *out_n = seekable_n;
    }
    return true;
}
