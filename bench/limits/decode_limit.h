/*
 * decode_limit.h - a loader over photos on one core, compared with the minimum of its work.
 */
#ifndef DECODE_LIMIT_H
#define DECODE_LIMIT_H

#include "bench/common/bench_json.h"
#include "bench/limits/photo_yard.h"
#include "bench/measure/arm.h"

/** Time per sample for everything else: to find it, to resize it, to hand it over. */
#define DECODE_REST_MS 0.06

typedef struct decode_limit {
    bool measured;
    uint64_t n_photos, n_pngs;
    const char *codecs;             /* photo_yard_codecs() */
    double mean_bytes, part_share;  /* of a file; of its pixels */
    measure_interval part, whole;   /* photos a second by these libraries alone */
    measure_interval store;         /* rows a second, normalised and stored */
    measure_interval limit;         /* 1 / (part + store + DECODE_REST_MS), as rates */
    measure_interval loader, ratio; /* loader / limit */
    uint32_t n_rounds, n_dropped;
    /* [n_failures] of the loader, each photo once; set by the caller */
    const iter_failure *failures;
    size_t n_failures;
    int32_t source; /* iter_source of the loader; set by the caller */
    bool steady;    /* false: rounds in which the machine's speed moved count, too */
} decode_limit;

/**
 * Lets the loader and the three loops take turns. In each round all four work on the same photos
 * and parts.
 *
 *   arm  one rank, without workers, with the options that the yard was opened with
 *
 * Photos that a library cannot decode are skipped; the loader treats them by its on_error.
 *
 * Errors  those of the loader, EFORMAT (a library can decode none of a round), ENOMEM.
 */
iter_status decode_limit_measure(photo_yard *yard, bench_arm *arm, const bench_options *options,
                                 decode_limit *out, iter_error *err);

void decode_limit_table(const decode_limit *limit, FILE *out);
/** Writes "decode": an object, or null if nothing was measured. */
void decode_limit_json(json_writer *w, const decode_limit *limit);

#endif
