/*
 * timeline.h - the lives of two batches, from the profiler's events: the median one and the slowest
 * one, from the moment a worker opened the batch until next() returned it.
 *
 *     iter_profile_start(&nowhere, &err);   ... a slice of the run ...   iter_profile_pause();
 *     timeline t;
 *     if (timeline_collect(0, &t, &err) == ITER_OK) timeline_write_json(w, &t);
 *     timeline_free(&t);
 *
 * Between slices the profiler must be paused, or the loader must rest no longer than within them.
 * Otherwise a batch that was ready while something else was measured would be the slowest one.
 */
#ifndef TIMELINE_H
#define TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include <iter/profile.h>
#include <iter/status.h>

#include "bench/common/bench_json.h"

#define TIMELINE_SPANS_MAX 2000 /* of a batch; the longest are kept */

/**
 * What a thread did during the batch's life. A stage has the profiler's name, or
 *
 *   consumer     the consumer's thread, outside next()
 *   other batch  the thread worked on another batch
 */
typedef struct timeline_span {
    char track[ITER_PROFILE_NAME_MAX + 1]; /* "consumer", a thread's name, or "reads" */
    const char *stage;
    uint64_t start_ns, ns; /* since the batch was opened; within its life */
} timeline_span;

typedef struct timeline_batch {
    const char *kind; /* "median", "slowest" */
    uint32_t epoch;
    uint64_t batch; /* within its epoch */
    uint64_t ns;    /* from open to the return of next() */
    timeline_span *spans;
    size_t n_spans;
} timeline_batch;

typedef struct timeline {
    timeline_batch batches[2];
    int n_batches; /* 0 if nothing suitable was recorded, 1 if it was a single batch */
} timeline;

/**
 * Looks through the profiler's events.
 *
 *   loader  its number there; 0 = the loader whose next() was called most
 *
 * Errors  ESTATE (the profiler never ran), ENOMEM. `out` must be freed even after an error.
 */
iter_status timeline_collect(uint64_t loader, timeline *out, iter_error *err);

/** The same for events[0..n) in order of start. Errors: ENOMEM. */
iter_status timeline_of_events(const iter_profile_event *events, size_t n, uint64_t loader,
                               timeline *out, iter_error *err);

/** Writes the member "timeline": a list, empty if there is no batch. */
void timeline_write_json(json_writer *w, const timeline *t);

void timeline_free(timeline *t);

#endif
