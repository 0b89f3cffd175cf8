/*
 * decode_limit.h - a loader over photos on one core, beside the least that its work can take.
 */
#ifndef DECODE_LIMIT_H
#define DECODE_LIMIT_H

#include "bench/common/bench_json.h"
#include "bench/limits/photo_yard.h"
#include "bench/measure/arm.h"

/** Time a sample for all else: to find it, to resize it, to hand it over. */
#define DECODE_REST_MS 0.06

typedef struct decode_limit {
    bool measured;
    uint64_t n_photos, n_pngs;
    const char *codecs;             /* photo_yard_codecs() */
    double mean_bytes, part_share;  /* of a file; of its pixels */
    measure_interval part, whole;   /* photos a second by these libraries alone */
    measure_interval store;         /* rows a second that are normalised and stored */
    measure_interval limit;         /* 1 / (part + store + DECODE_REST_MS), as rates */
    measure_interval loader, ratio; /* loader / limit */
    uint32_t n_rounds, n_dropped;
    const iter_failure *failures; /* [n_failures] the loader's, each photo once; set by who asks */
    size_t n_failures;
    int32_t source; /* iter_source, the loader's; set by who asks */
    bool steady;    /* false: rounds in which the machine's speed moved count, too */
} decode_limit;

/**
 * Lets the loader and the three loops take turns. All four work on the same photos and parts in each
 * round.
 *
 *   arm  one rank, without workers, with the options that the yard was opened with
 *
 * Photos that a library cannot decode are passed over; what the loader does at them is its on_error.
 *
 * Errors  what the loader answers, EFORMAT (a library can decode none of a round), ENOMEM.
 */
iter_status decode_limit_measure(photo_yard *yard, bench_arm *arm, const bench_options *options,
                                 decode_limit *out, iter_error *err);

void decode_limit_table(const decode_limit *limit, FILE *out);
/** "decode": an object, or null where nothing was measured. */
void decode_limit_json(json_writer *w, const decode_limit *limit);

#endif
