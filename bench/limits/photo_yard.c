/*
 * photo_yard.c - prepares the straight loops of limits_decode.c for the work of a loader over
 * photos.
 *
 * The first stage draws which part of a photo is decoded, from the counter-based random numbers of
 * (seed, stage, epoch, position). None of that is repeated here. Instead, a loader runs over the
 * same dataset with a decoder in front that notes each request and decodes nothing. So the loops
 * get exactly the loader's windows, for every chain, container and sampler.
 *
 * Rows are decoded in the order in which their bytes arrive, several batches at a time. So each row
 * carries the number of its note in a field of its own, and notes are put in order when their batch
 * is taken.
 */
#include "bench/limits/photo_yard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_util.h"
#include "bench/common/wrapped.h"
#include "bench/measure/arm.h"

#define BYTES_MAX ((size_t)128 << 20)
/* the field with a row's number among the notes, from 1; 0 = no note: it failed */
#define NOTE "iterbench-note"

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

/* Finds the picture after a container's own bytes. */
static const uint8_t *picture_in(const uint8_t *bytes, size_t size) {
    static const uint8_t jpeg[3] = {0xff, 0xd8, 0xff};
    for (size_t i = 0; i + sizeof(jpeg) <= size; i++)
        if (memcmp(bytes + i, jpeg, sizeof(jpeg)) == 0 || limits_is_png(bytes + i, size - i))
            return bytes + i;
    return NULL;
}

/* False if there is no memory. */
static bool more_notes(photo_yard *y) {
    if (y->n_notes < y->notes_capacity) return true;
    const uint64_t capacity = y->notes_capacity > 0 ? 2 * y->notes_capacity : 64;
    photo_note *notes = realloc(y->notes, capacity * sizeof(*notes));
    if (notes == NULL) return false;
    y->notes = notes;
    y->notes_capacity = capacity;
    return true;
}

static void note_photo(photo_yard *y, const uint8_t *bytes, size_t size,
                       const iter_image_wish *wish) {
    const uint8_t *picture = picture_in(bytes, size);
    if (picture == NULL) snprintf(y->why, sizeof(y->why), "a picture is neither JPEG nor PNG");
    if (y->why[0] != '\0') return;
    size -= (size_t)(picture - bytes);
    uint8_t *own = malloc(size);
    if (own == NULL || !more_notes(y)) {
        snprintf(y->why, sizeof(y->why), "no memory for a photo of %zu bytes", size);
        free(own);
        return;
    }
    memcpy(own, picture, size);
    y->notes[y->n_notes++] = (photo_note){.from = bytes,
                                          .own = own,
                                          .pixels = y->header_pixels,
                                          .photo = {.bytes = own,
                                                    .size = size,
                                                    .y = wish->part.y,
                                                    .x = wish->part.x,
                                                    .height = wish->part.height,
                                                    .width = wish->part.width,
                                                    .min_height = wish->min_height,
                                                    .min_width = wish->min_width}};
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
    /* it takes the name of the wrapped decoder */
    .base = {.struct_size = sizeof(iter_decoder_ops)},
    .header = note_header,
    .decode_image = note_wish,
};

/* Rows of a chunk get their image first, then this field. So the row's note is the last one with
 * the same bytes. */
static iter_status tell_note(void *state, const void *shared, const uint8_t *bytes, size_t size,
                             iter_tensor *out, iter_error *err) {
    const wrapped_decoder *d = shared;
    const photo_yard *y = d->user;
    int32_t number = 0;
    (void)state, (void)size, (void)err;
    for (uint64_t i = y->n_notes; number == 0 && i > 0; i--)
        if (y->notes[i - 1].from == bytes) number = (int32_t)i;
    memcpy(out->data, &number, sizeof(number));
    return ITER_OK;
}

static const iter_decoder_ops telling_decoder = {
    .base = {.struct_size = sizeof(iter_decoder_ops), .name = NOTE, .help = ""},
    .decode = tell_note,
};

static const iter_field note_field = {
    .name = NOTE, .role = ITER_LABEL, .desc = {.dtype = ITER_I32}, .decoder = &telling_decoder};

/* ---- Which photos ---------------------------------------------------------------------------- */

/* Appends a note's photo to those that are kept. */
static void keep(photo_yard *y, photo_note *note) {
    limits_photo *photo = &y->photos[y->n_photos++];
    *photo = note->photo;
    photo->bytes = memcpy(y->bytes + y->n_bytes, note->own, photo->size);
    y->n_bytes += photo->size;
    y->n_pngs += limits_is_png(photo->bytes, photo->size);
    y->n_pixels += note->pixels;
    y->n_part_pixels += (double)photo->height * (double)photo->width;
    free(note->own);
    note->own = NULL;
}

/* Whether there is room for all photos of a batch. */
static bool fits(const photo_yard *y, const int32_t *notes, uint32_t n) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += notes[i] > 0 ? y->notes[notes[i] - 1].photo.size : 0;
    return n <= y->capacity - y->n_photos && bytes <= y->bytes_capacity - y->n_bytes;
}

static iter_status keep_batch(void *user, iter_batch *batch, iter_error *err) {
    photo_yard *y = user;
    (void)err;
    const iter_batch_info info = iter_batch_describe(batch);
    const int32_t *notes = iter_batch_find(batch, NOTE)->data;
    const uint64_t first = y->n_photos;
    if (!fits(y, notes, info.n_rows)) y->full = true;
    if (y->why[0] != '\0' || y->full) return ITER_OK;
    for (uint32_t i = 0; i < info.n_rows; i++)
        if (notes[i] > 0) keep(y, &y->notes[notes[i] - 1]);
    if (y->n_photos > first)
        y->batches[y->n_batches++] = (photo_batch){first, (uint32_t)(y->n_photos - first),
                                                   info.epoch, iter_batch_position(batch)[0]};
    return ITER_OK;
}

/* Takes batches until there is no room for a whole one. */
static iter_status take_notes(photo_yard *y, const bench_options *options, iter_error *err) {
    bench_arm arm;
    iter_status s = arm_open(options, NULL, &arm, err);
    if (s < 0) return s;
    arm.take = keep_batch;
    arm.take_user = y;
    while (s == ITER_OK && y->why[0] == '\0' && !y->full) {
        uint64_t samples;
        double seconds;
        const uint64_t before = y->n_photos;
        s = arm_run(&arm, 1, false, &samples, &seconds, err);
        if (y->n_photos == before) break;
    }
    arm_close(&arm);
    for (uint64_t i = 0; i < y->n_notes; i++)
        free(y->notes[i].own);
    free(y->notes);
    y->notes = NULL;
    y->n_notes = y->notes_capacity = 0;
    return s;
}

static iter_status note(photo_yard *y, const bench_options *options, uint64_t max_photos,
                        iter_error *err) {
    bench_options quiet = bench_options_on_host(options);
    iter_registry *registry;
    wrapped front;
    quiet.workers = 0;
    quiet.prefetch = 1;
    quiet.ranks = 1;
    quiet.epochs = 0;
    quiet.has_start = quiet.hash = quiet.o_direct = false;
    quiet.last_batch = ITER_LAST_KEEP;
    if (quiet.on_error == ITER_ON_ERROR_FAIL) quiet.on_error = ITER_ON_ERROR_REPLACE;
    quiet.max_failures = 0; /* the run reports if a failure ends it */
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
    front.added = &note_field;
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

/* With `orient`, parts are those of upright pictures, but the loops know only stored ones. */
static bool is_turned(const char *data) {
    const char *spec = strchr(data, '?');
    return spec != NULL && strstr(spec, "orient") != NULL;
}

/* ---- Rows to store --------------------------------------------------------------------------- */

/* The batch's data field without its first dimension, and the same as u8 HWC. False if it is not a
 * picture of one size. */
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
        snprintf(y->why, sizeof(y->why), "the batches are not pictures of one size");
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
    for (uint64_t at = 0, done; at < n; at += done + 1) { /* a run of photos ends at a broken one */
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
    uint64_t n_broken = 0; /* since the last one that could be decoded */
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
        /* A broken one does not count: the loader replaces it by another. */
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
