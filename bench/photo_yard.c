/*
 * photo_yard.c - prepares the straight loops of limits_decode.c for the work of a loader over photos.
 *
 * Which part of a photo is decoded is drawn by the first stage from the counter-based random numbers
 * of (seed, stage, epoch, position). Nothing of that is done a second time here: a loader runs over
 * the same dataset with a decoder in front that notes what it is asked for, and decodes nothing. So
 * the loops get the very windows that the loader gets, whatever the chain, container and sampler.
 */
#include "photo_yard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arm.h"
#include "bench_util.h"
#include "wrapped.h"

#define BYTES_MAX ((size_t)128 << 20)

/* ---- A decoder that takes notes -------------------------------------------------------------- */

static iter_status note_header(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_desc *out, iter_error *err) {
    const wrapped_decoder *d = shared;
    photo_yard *y = d->user;
    iter_status s = d->inner->header(state, d->shared, bytes, size, out, err);
    if (s < 0) return s;
    y->gray = out->dims[2] == 1;
    y->header_pixels = (double)out->dims[0] * (double)out->dims[1];
    if (limits_decode_bytes(out->dims[0], out->dims[1]) >
        limits_decode_bytes(y->largest[0], y->largest[1])) {
        y->largest[0] = out->dims[0];
        y->largest[1] = out->dims[1];
    }
    return s;
}

/* A container's own bytes stand before the picture's. */
static const uint8_t *picture_in(const uint8_t *bytes, size_t size) {
    static const uint8_t jpeg[3] = {0xff, 0xd8, 0xff};
    for (size_t i = 0; i + sizeof(jpeg) <= size; i++)
        if (memcmp(bytes + i, jpeg, sizeof(jpeg)) == 0 || limits_is_png(bytes + i, size - i))
            return bytes + i;
    return NULL;
}

static void note_photo(photo_yard *y, const uint8_t *bytes, size_t size,
                       const iter_image_wish *wish) {
    const uint8_t *picture = picture_in(bytes, size);
    if (picture == NULL) snprintf(y->why, sizeof(y->why), "a picture is no JPEG and no PNG");
    if (y->why[0] != '\0') return;
    size -= (size_t)(picture - bytes);
    if (y->n_photos == y->capacity || size > y->bytes_capacity - y->n_bytes) {
        y->capacity = y->n_photos; /* full */
        return;
    }
    y->photos[y->n_photos++] = (limits_photo){.bytes = y->bytes + y->n_bytes,
                                              .size = size,
                                              .y = wish->part.y,
                                              .x = wish->part.x,
                                              .height = wish->part.height,
                                              .width = wish->part.width,
                                              .min_height = wish->min_height,
                                              .min_width = wish->min_width};
    memcpy(y->bytes + y->n_bytes, picture, size);
    y->n_bytes += size;
    y->n_pngs += limits_is_png(picture, size);
    y->n_pixels += y->header_pixels;
    y->n_part_pixels += (double)wish->part.height * (double)wish->part.width;
}

static iter_status note_wish(void *state, const void *shared, const uint8_t *bytes, size_t size,
                             const iter_image_wish *wish, iter_tensor *out, iter_error *err) {
    const wrapped_decoder *d = shared;
    (void)state, (void)err;
    note_photo(d->user, bytes, size, wish);
    memset(out->data, 128, iter_desc_bytes(&out->desc));
    return ITER_OK;
}

static const iter_decoder_ops noting_decoder = {
    .base = {.struct_size = sizeof(iter_decoder_ops)}, /* its name is that of the one behind it */
    .header = note_header,
    .decode_image = note_wish,
};

/* ---- Which photos ---------------------------------------------------------------------------- */

static iter_status note_batch(void *user, iter_batch *batch, iter_error *err) {
    photo_yard *y = user;
    (void)err;
    if (y->why[0] != '\0' || y->n_photos == 0) return ITER_OK;
    iter_batch_info info = iter_batch_describe(batch);
    const photo_batch *last = y->n_batches > 0 ? &y->batches[y->n_batches - 1] : NULL;
    const uint64_t first = last != NULL ? last->first + last->n : 0;
    if (y->n_photos == first) return ITER_OK; /* none of it could be read */
    y->batches[y->n_batches++] = (photo_batch){first, (uint32_t)(y->n_photos - first), info.epoch,
                                               iter_batch_position(batch)[0]};
    return ITER_OK;
}

/* Takes batches until there is no room for a whole one. */
static iter_status take_notes(photo_yard *y, const bench_options *options, iter_error *err) {
    bench_arm arm;
    iter_status s = arm_open(options, NULL, &arm, err);
    if (s < 0) return s;
    arm.take = note_batch;
    arm.take_user = y;
    while (s == ITER_OK && y->why[0] == '\0') {
        uint64_t samples;
        double seconds;
        const uint64_t before = y->n_photos;
        s = arm_run(&arm, 1, false, &samples, &seconds, err);
        if (y->n_photos + options->batch > y->capacity || y->n_photos == before) break;
    }
    /* The last batch may have found no room for all of its photos. */
    if (y->n_batches > 1 && y->n_photos == y->capacity) y->n_batches--;
    arm_close(&arm);
    return s;
}

static iter_status note(photo_yard *y, const bench_options *options, uint64_t max_photos,
                        iter_error *err) {
    bench_options quiet = bench_options_on_host(options);
    iter_registry *registry;
    wrapped front;
    quiet.workers = 0;
    quiet.ranks = 1;
    quiet.epochs = 0;
    quiet.has_start = quiet.hash = quiet.o_direct = false;
    quiet.last_batch = ITER_LAST_KEEP;
    if (quiet.on_error == ITER_ON_ERROR_FAIL) quiet.on_error = ITER_ON_ERROR_REPLACE;
    quiet.max_failures = 0; /* whether one ends the run is said by the run */
    quiet.source = ITER_SOURCE_PREAD;
    quiet.dataset = NULL;
    y->capacity = max_photos;
    y->bytes_capacity = BYTES_MAX;
    y->photos = calloc(max_photos, sizeof(*y->photos));
    y->batches = calloc(max_photos + 1, sizeof(*y->batches));
    y->bytes = bench_map(BYTES_MAX);
    if (y->photos == NULL || y->batches == NULL || y->bytes == NULL)
        return bench_fail(err, ITER_ENOMEM, "no memory for %zu bytes of photos", BYTES_MAX);
    iter_status s = bench_registry_create(options, &registry, err);
    if (s < 0) return s;
    s = wrapped_make("noted", options->data, &noting_decoder, y, registry, &front, err);
    quiet.registry = registry;
    quiet.data = front.data;
    if (s == ITER_OK) s = take_notes(y, &quiet, err);
    wrapped_free(&front);
    iter_registry_destroy(registry);
    return s;
}

bool photo_yard_fits(const iter_description *set) {
    for (int32_t i = 0; i < set->n_fields; i++) {
        const iter_desc *desc = &set->fields[i].desc;
        if (desc->n_dims == 3 && desc->dims[0] == ITER_VARIABLE && desc->dims[1] == ITER_VARIABLE)
            return true;
    }
    return false;
}

/* The parts are of upright pictures then, and the loops know stored ones alone. */
static bool is_turned(const char *data) {
    const char *spec = strchr(data, '?');
    return spec != NULL && strstr(spec, "orient") != NULL;
}

/* ---- Rows to store --------------------------------------------------------------------------- */

/* The batch's data field without its first dimension, and the same as u8 HWC. False: it is no picture
 * of one size. */
static bool stored_rows(const iter_loader *loader, iter_desc *in, iter_desc *out) {
    for (int32_t i = 0; i < iter_loader_n_fields(loader); i++) {
        const iter_desc *batch = &iter_loader_field(loader, i)->desc;
        if (batch->n_dims != 4 || batch->layout[0] != 'N') continue;
        *out = *batch;
        out->n_dims = 3;
        for (int d = 0; d < 3; d++)
            out->dims[d] = batch->dims[d + 1];
        snprintf(out->layout, sizeof(out->layout), "%.3s", batch->layout + 1);
        *in = *out;
        in->dtype = ITER_U8;
        snprintf(in->layout, sizeof(in->layout), "HWC");
        for (int d = 0; d < 3; d++) {
            const char *at = strchr(out->layout, in->layout[d]);
            if (at == NULL || out->dims[0] == ITER_VARIABLE) return false;
            in->dims[d] = out->dims[at - out->layout];
        }
        return true;
    }
    return false;
}

static iter_status prepare_store(photo_yard *y, const bench_options *options,
                                 const iter_loader *loader, uint32_t n_slots, iter_error *err) {
    static const double scale[4] = {1 / 58.0, 1 / 57.0, 1 / 57.5, 1}, bias[4] = {-2, -2, -1.75, 0};
    iter_desc in, out;
    iter_convert_options opt = ITER_CONVERT_OPTIONS_INIT;
    if (!stored_rows(loader, &in, &out) || in.dims[2] > 4) {
        snprintf(y->why, sizeof(y->why), "the batches are no pictures of one size");
        return ITER_OK;
    }
    if (out.dtype != ITER_U8) {
        opt.scale = scale;
        opt.bias = bias;
        opt.n_channels = (int32_t)in.dims[2];
    }
    iter_status s = iter_convert_prepare(&in, &out, &opt, &y->convert, err);
    if (s < 0) return s;
    y->row_bytes = iter_desc_bytes(&in);
    y->row = bench_map(y->row_bytes);
    y->slot_bytes = iter_desc_bytes(&out) * options->batch;
    y->store = (limits_work){.n_fields = 1, .n_rows = 1, .batch = (uint32_t)options->batch};
    y->store.fields[0] = (limits_field){.source = y->row,
                                        .in_bytes = y->row_bytes,
                                        .out_bytes = iter_desc_bytes(&out),
                                        .convert = y->convert};
    y->store.slots = y->slots;
    y->store.n_slots = n_slots < PHOTO_YARD_SLOTS ? n_slots : PHOTO_YARD_SLOTS;
    for (uint32_t i = 0; i < y->store.n_slots; i++) {
        y->slots[i] = bench_map(y->slot_bytes);
        if (y->slots[i] == NULL || y->row == NULL)
            return bench_fail(err, ITER_ENOMEM, "no memory for %u slots of %zu bytes",
                              y->store.n_slots, y->slot_bytes);
        memset(y->slots[i], 0, y->slot_bytes);
    }
    memset(y->row, 128, y->row_bytes);
    return ITER_OK;
}

/* ---- Public ---------------------------------------------------------------------------------- */

iter_status photo_yard_open(photo_yard *out, const bench_options *options,
                            const iter_loader *loader, uint32_t n_slots, uint64_t max_photos,
                            iter_error *err) {
    memset(out, 0, sizeof(*out));
    if (is_turned(options->data)) {
        snprintf(out->why, sizeof(out->why), "the pictures are turned as EXIF says (orient)");
        return ITER_OK;
    }
    if (max_photos < options->batch) max_photos = options->batch;
    iter_status s = note(out, options, max_photos, err);
    if (s < 0) return s;
    if (out->why[0] == '\0' && out->n_batches == 0)
        snprintf(out->why, sizeof(out->why), "no batch of photos fits into %zu bytes", BYTES_MAX);
    if (out->why[0] != '\0') return ITER_OK;
    s = prepare_store(out, options, loader, n_slots, err);
    if (s < 0 || out->why[0] != '\0') return s;
    out->pixels_bytes = limits_decode_bytes(out->largest[0], out->largest[1]);
    out->pixels = bench_map(out->pixels_bytes);
    out->decoder = limits_decoder_create(out->gray);
    if (out->decoder == NULL || out->pixels == NULL)
        return bench_fail(err, ITER_ENOMEM, "no memory for a picture of %zu bytes",
                          out->pixels_bytes);
    return ITER_OK;
}

void photo_yard_close(photo_yard *yard) {
    limits_decoder_destroy(yard->decoder);
    iter_convert_destroy(yard->convert);
    for (int i = 0; i < PHOTO_YARD_SLOTS; i++)
        bench_unmap(yard->slots[i], yard->slot_bytes);
    bench_unmap(yard->row, yard->row_bytes);
    bench_unmap(yard->pixels, yard->pixels_bytes);
    bench_unmap(yard->bytes, yard->bytes_capacity);
    free(yard->photos);
    free(yard->batches);
    memset(yard, 0, sizeof(*yard));
}

iter_status photo_yard_decode(photo_yard *yard, uint64_t first, uint64_t n, bool whole,
                              uint64_t *out_n, double *out_seconds, iter_error *err) {
    const double start = bench_now();
    *out_n = 0;
    for (uint64_t at = 0, done; at < n; at += done + 1) { /* what ends a run of photos is broken */
        done = limits_decode(yard->decoder, yard->photos + first + at, n - at, whole, yard->pixels);
        *out_n += done;
    }
    *out_seconds = bench_now() - start;
    if (*out_n > 0) return ITER_OK;
    return bench_fail(err, ITER_EFORMAT, "photos %llu to %llu of the order: %s",
                      (unsigned long long)first, (unsigned long long)(first + n - 1),
                      limits_decoder_text(yard->decoder));
}

const char *photo_yard_codecs(const photo_yard *yard) {
    return yard->n_pngs == 0                ? "libjpeg-turbo"
           : yard->n_pngs == yard->n_photos ? "libpng"
                                            : "libjpeg-turbo, libpng";
}

double photo_yard_store(photo_yard *yard, uint64_t n_batches) {
    const double start = bench_now();
    limits_convert(&yard->store, n_batches, &yard->turn);
    return bench_now() - start;
}

void photo_yard_slice(photo_yard *yard, double seconds) {
    if (yard->why[0] != '\0') return;
    double took = 0;
    uint64_t n_broken = 0; /* since one could be decoded */
    for (double spent = 0; spent < seconds; spent += took) {
        const uint64_t left = yard->n_photos - yard->cursor, n = left < 16 ? left : 16;
        const double start = bench_now();
        const uint64_t done =
            limits_decode(yard->decoder, yard->photos + yard->cursor, n, false, yard->pixels);
        took = bench_now() - start;
        n_broken = done > 0 ? 0 : n_broken + 1;
        if (n_broken == yard->n_photos) {
            snprintf(yard->why, sizeof(yard->why), "no photo can be decoded: %.200s",
                     limits_decoder_text(yard->decoder));
            return;
        }
        /* A broken one counts for nothing: the loader takes another in its place. */
        yard->cursor += done + (done < n);
        if (yard->cursor == yard->n_photos) yard->cursor = 0;
        yard->n_decoded += done;
        yard->decode_s += took;
    }
    for (double spent = 0; spent < seconds; spent += took) {
        took = photo_yard_store(yard, 1);
        yard->n_stored += yard->store.batch;
        yard->store_s += took;
    }
}
