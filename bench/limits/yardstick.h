/*
 * yardstick.h - prepares the straight loops of limits.h for the work of a loader, and times them.
 */
#ifndef YARDSTICK_H
#define YARDSTICK_H

#include "bench/limits/limits.h"
#include "bench/limits/photo_yard.h"
#include "bench/measure/arm.h"

/* Photos whose parts are decoded. More are needed if the limit of decoding itself is measured: as
 * many as a run of the usual length meets. */
#define YARDSTICK_PHOTOS        512
#define YARDSTICK_PHOTOS_DECODE 4096
#define YARDSTICK_PHOTOS_A_S    350

/** The limits; NaN = unknown for this work. */
typedef struct yardstick_rates {
    double copy_bytes_per_s;
    double convert_samples_per_s, ordered_samples_per_s;
    double read_bytes_per_s;
    double decode_samples_per_s; /* photos: bare decoding of the parts that the chain asks for */
    const char *decode_codecs;   /* libraries that decode; NULL = no photos */
    double in_bytes, out_bytes;  /* of a sample */
    double array_bytes, cache_bytes;
} yardstick_rates;

typedef struct yardstick {
    bench_arrays own;           /* if no arrays were given */
    const bench_arrays *arrays; /* own or the given ones */
    limits_work work;
    uint32_t *order;    /* [work.n_rows] for `shuffled` */
    bench_limit served; /* what yardstick_side() is asked for */
    bool works;         /* false: `why` has the reason why convert and ordered are unknown */
    char why[256];
    iter_convert *converts[LIMITS_FIELDS_MAX];
    uint8_t *slots[64];
    size_t slot_bytes;
    uint64_t cursor;
    uint32_t turn;
    bool has_photos; /* of any size: `photos` replaces the work above */
    photo_yard photos;
    uint64_t ordered_samples, convert_samples;
    double ordered_s, convert_s; /* sums of the slices */
} yardstick;

/**
 * Prepares the loops for the rows of `loader`, into n_slots slots.
 *
 *   arrays  the set, or NULL. If NULL, at most 256 MiB of it are loaded here; of photos,
 *           YARDSTICK_PHOTOS, or more with options->decode
 *
 * Errors  ENOMEM, EIO and the like. If the work has no straight loop, that is no error: `works` is
 *         false.
 */
iter_status yardstick_open(yardstick *out, const bench_options *options, const bench_arrays *arrays,
                           const iter_loader *loader, uint32_t n_slots, iter_error *err);
void yardstick_close(yardstick *yardstick);

/** One slice each of ordered (of photos: decoding) and convert, of about `seconds`; rates are sums
 * over slices. */
void yardstick_slice(yardstick *yardstick, double seconds);

/** A limit, the one of the options that the yardstick was opened with, as a side of a
 * comparison. */
measure_side yardstick_side(yardstick *yardstick, bench_limit limit);

/** Measures copy and read, and takes the rates of the slices; if there were none, runs some. */
iter_status yardstick_rates_of(yardstick *yardstick, const bench_options *options,
                               yardstick_rates *out, iter_error *err);

/** Size of the last-level cache in bytes, as the system reports it; 0 = unknown. */
double yardstick_cache_bytes(void);
/** The same from a folder like the kernel's "cpu0/cache". */
double yardstick_cache_in(const char *folder);

#endif
