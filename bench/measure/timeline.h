/*
 * timeline.h - the lives of two batches, out of what the profiler recorded: the median one and the
 * slowest one, from the moment a worker opened the batch until next() gave it away.
 *
 *     iter_profile_start(&nowhere, &err);   ... a slice of the run ...   iter_profile_pause();
 *     timeline t;
 *     if (timeline_collect(0, &t, &err) == ITER_OK) timeline_write_json(w, &t);
 *     timeline_free(&t);
 *
 * Between slices the profiler is to be paused or the loader at rest for no longer than within them:
 * a batch that lay ready while something else was measured would be the slowest one.
 */
#ifndef TIMELINE_H
#define TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include <iter/profile.h>
#include <iter/status.h>

#include "bench/common/bench_json.h"

#define TIMELINE_SPANS_MAX 2000 /* of a batch; of more the longest are kept */

/** What a thread did while the batch was under way. Stages are the profiler's names and
 *     consumer     the consumer's thread, outside next()
 *     other batch  the thread was at work for another batch */
typedef struct timeline_span {
    char track[ITER_PROFILE_NAME_MAX + 1]; /* "consumer", a thread's name, or "reads" */
    const char *stage;
    uint64_t start_ns, ns; /* from the opening of the batch; within its life */
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
    int n_batches; /* 0 where nothing fit was recorded, 1 where it was a single batch */
} timeline;

/**
 * Looks through the profiler's events.
 *
 *   loader  its number there; 0 = the loader whose next() was called most
 *
 * Errors  ESTATE (the profiler never ran), ENOMEM. `out` is to be freed whatever the answer.
 */
iter_status timeline_collect(uint64_t loader, timeline *out, iter_error *err);

/** The same out of events[0..n) in order of start. Errors: ENOMEM. */
iter_status timeline_of_events(const iter_profile_event *events, size_t n, uint64_t loader,
                               timeline *out, iter_error *err);

/** Writes the member "timeline": a list, empty where there is no batch. */
void timeline_write_json(json_writer *w, const timeline *t);

void timeline_free(timeline *t);

#endif
