/*
 * yardstick.h - prepares the straight loops of limits.h for the work of a loader, and times them.
 */
#ifndef YARDSTICK_H
#define YARDSTICK_H

#include "bench/limits/limits.h"
#include "bench/limits/photo_yard.h"
#include "bench/measure/arm.h"

/* Photos whose parts are decoded: more where the limit of decoding itself is asked for, as many as a run
 * of the usual length meets, and no more than a short one does. */
#define YARDSTICK_PHOTOS        512
#define YARDSTICK_PHOTOS_DECODE 4096
#define YARDSTICK_PHOTOS_A_S    350

/** What the limits come to; NaN = cannot be said for this work. */
typedef struct yardstick_rates {
    double copy_bytes_per_s;
    double convert_samples_per_s, ordered_samples_per_s;
    double read_bytes_per_s;
    double decode_samples_per_s; /* photos: the bare decode of the parts that are wished */
    const char *decode_codecs;   /* by which libraries; NULL = no photos */
    double in_bytes, out_bytes;  /* of a sample */
    double array_bytes, cache_bytes;
} yardstick_rates;

typedef struct yardstick {
    bench_arrays own;           /* where no arrays were given */
    const bench_arrays *arrays; /* own or the given ones */
    limits_work work;
    bool works; /* false: `why` says why convert and ordered cannot be said */
    char why[256];
    iter_convert *converts[LIMITS_FIELDS_MAX];
    uint8_t *slots[64];
    size_t slot_bytes;
    uint64_t cursor;
    uint32_t turn;
    bool has_photos; /* of any size: `photos` instead of the work above */
    photo_yard photos;
    uint64_t ordered_samples, convert_samples;
    double ordered_s, convert_s; /* added up by the slices */
} yardstick;

/**
 * Prepares the loops for what `loader` delivers, into n_slots slots.
 *
 *   arrays  the set, or NULL: at most 256 MiB of it are loaded here, or of photos so many as
 *           YARDSTICK_PHOTOS, more where options->decode
 *
 * Errors  ENOMEM, EIO and the like. Work that has no straight loop is no error: `works` is false
 *         then.
 */
iter_status yardstick_open(yardstick *out, const bench_options *options, const bench_arrays *arrays,
                           const iter_loader *loader, uint32_t n_slots, iter_error *err);
void yardstick_close(yardstick *yardstick);

/** One slice each of ordered (of photos: decoding) and convert, of about `seconds`; rates are sums over slices. */
void yardstick_slice(yardstick *yardstick, double seconds);

/** ordered or convert as a side of a comparison. */
measure_side yardstick_side(yardstick *yardstick, bench_limit limit);

/** Measures copy and read, and takes the slices' rates (runs some, where there were none). */
iter_status yardstick_rates_of(yardstick *yardstick, const bench_options *options,
                               yardstick_rates *out, iter_error *err);

/** Size of the last-level cache in bytes, by the system's word; 0 = not known. */
double yardstick_cache_bytes(void);

#endif
