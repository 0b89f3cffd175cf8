/*
 * photo_yard.h - prepares the straight loops of limits_decode.h for the work of a loader over
 * photos: the pictures, their parts, and rows to store.
 */
#ifndef PHOTO_YARD_H
#define PHOTO_YARD_H

#include "bench/common/bench_options.h"
#include "bench/limits/limits.h"
#include "bench/limits/limits_decode.h"

#define PHOTO_YARD_SLOTS 64

/** One batch of the loader; its photos are adjacent. */
typedef struct photo_batch {
    uint64_t first;
    uint32_t n;
    uint32_t epoch; /* where to seek for it */
    uint64_t sample;
} photo_batch;

/** A photo that a loader asked to decode. */
typedef struct photo_note {
    limits_photo photo;
    uint8_t *own;        /* a copy of its bytes; NULL = its batch was taken */
    const uint8_t *from; /* where the loader had them */
    double pixels;       /* of the whole picture */
} photo_note;

typedef struct photo_yard {
    limits_photo *photos; /* [n_photos] in the order of a loader's rows */
    uint64_t n_photos, n_pngs, capacity;
    photo_batch *batches; /* [n_batches], whole ones */
    uint64_t n_batches;
    uint8_t *bytes; /* all files, without gaps */
    size_t n_bytes, bytes_capacity;
    double n_pixels, n_part_pixels; /* of all photos */
    double header_pixels;           /* of the photo that is being noted */
    /* [n_notes] in the order of decoding, while notes are taken */
    photo_note *notes;
    uint64_t n_notes, notes_capacity;
    bool full;          /* there is no room for a whole batch */
    int64_t largest[2]; /* height and width of the picture that needs most memory */
    bool gray;
    char why[256]; /* reason why there are no loops, or "" */

    limits_decoder *decoder;
    uint8_t *pixels;
    size_t pixels_bytes;
    limits_work store; /* one row of u8 HWC in; out come rows as the loader delivers them */
    uint8_t *slots[PHOTO_YARD_SLOTS];
    size_t slot_bytes;
    uint8_t *row; /* the row to store */
    size_t row_bytes;
    iter_convert *convert;
    uint32_t turn;

    uint64_t cursor; /* of the slices */
    uint64_t n_decoded, n_stored;
    double decode_s, store_s;
} photo_yard;

/** Whether a dataset has a field of pictures of any size. */
bool photo_yard_fits(const iter_description *set);

/**
 * Notes what a loader would decode, without decoding: the parts that the chain asks for, drawn as
 * usual, in the loader's order, and the bytes that they come from. Then allocates the memory of the
 * loops.
 *
 *   loader      one with the same options, for its fields
 *   n_slots     number of slots that it uses
 *   max_photos  how many to remember; at most 128 MiB of bytes
 *
 * Errors  those of the loader, ENOMEM. If the work has no straight loop, that is no error: `why`
 *         has the reason.
 */
iter_status photo_yard_open(photo_yard *out, const bench_options *options,
                            const iter_loader *loader, uint32_t n_slots, uint64_t max_photos,
                            iter_error *err);
void photo_yard_close(photo_yard *yard);

/** Runs a loop over photos [first, first + n), skipping those that cannot be decoded; *out_n could
 * be. If none can, fails with EFORMAT and the library's message. */
iter_status photo_yard_decode(photo_yard *yard, uint64_t first, uint64_t n, bool whole,
                              uint64_t *out_n, double *out_seconds, iter_error *err);
/** The libraries that decode them: "libjpeg-turbo", "libpng", or both. */
const char *photo_yard_codecs(const photo_yard *yard);
/** Stores n batches of rows; returns the seconds. */
double photo_yard_store(photo_yard *yard, uint64_t n_batches);

/** One slice each of decoding parts and of storing, of about `seconds`. Rates sum over slices. */
void photo_yard_slice(photo_yard *yard, double seconds);

#endif
