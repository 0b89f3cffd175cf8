/*
 * profile.h - the profiler: what every thread of every loader did and when, with the program's own
 * scopes and counters beside it.
 *
 *     iter_profile_start(NULL, &err);           writes profile.json, every second
 *     while (...) {
 *         iter_profile_scope_begin("forward");
 *         ...
 *         iter_profile_scope_end();
 *     }
 *     iter_profile_stop(&err);
 *
 * or without touching the program: ITER_PROFILE=profile.json ./program, which begins with the first
 * loader and ends with the program. The file opens in Perfetto and chrome://tracing; it is complete
 * JSON at any time, whichever way the program ends.
 *
 * Each process of a run has a file of its own. In a name %p is the process's number, %r its rank, and
 * %% is %. If a name has neither, and the rank is known, ".rankN" comes before its ending:
 * profile.rank3.json. The rank is what the launcher's environment says (RANK with WORLD_SIZE, and the
 * pairs of Open MPI, MPICH, MVAPICH and Slurm), else that of the first loader under ITER_PROFILE; an
 * unknown one is 0 for %r. If ITER_PROFILE's file cannot be made, or another process writes it, the
 * first loader has a fallback in its statistics that says so.
 *
 * There is one profiler in a process. All calls may come from any thread. What costs: nothing but a
 * load and a branch per chunk of a batch while it is off; some 50 ns an event while it is on, at
 * some five events a batch.
 *
 * What is recorded of a loader, by category:
 *     loader  open (rows chosen and found), batch (batch stages and publishing), next (the
 *             consumer's wait), held (from next to the last unref)
 *     stage   one span for a chunk of rows from bytes to the batch, by the name of the stage that
 *             leads: "get", "decode", the chain's first, or "copy". Later stages take their turn row
 *             by row within it
 *     read    issue (reads of a chunk handed to the system), read (from then until its last byte
 *             was there, whoever waited)
 *     wait    wait-bytes, wait-slot: a worker had nothing to do; wait-device: a GPU read all slots
 *     memory  host, pinned, device: bytes that the library holds; the trainer's are its own
 * Scopes and instants of the program are of category user, its counters of category counter.
 */
#ifndef ITER_PROFILE_H
#define ITER_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

ITER_BEGIN_DECLS

/** Names that differ in their first so many bytes are different names. */
#define ITER_PROFILE_NAME_MAX 47

/** How to profile. Zero in any field means its default. New fields go at the end. */
typedef struct iter_profile_options {
    size_t struct_size; /* sizeof(iter_profile_options); ITER_PROFILE_OPTIONS_INIT sets it */
    /* where the trace goes, %p and %r as above; NULL = "profile.json", "" = nowhere: for
     * iter_profile_each() and the table alone */
    const char *filename;
    /* events a thread's ring holds, 56 bytes each; rounded up to a power of two; 0 = 65,536 */
    uint32_t events_per_thread;
    int32_t no_aggregate;   /* 1 = nothing is summed up for iter_profile_table() */
    int32_t no_memory;      /* 1 = no counters of memory */
    int64_t dump_period_ms; /* how often the file is brought up to date; 0 = 1000; -1 = only by
                             * iter_profile_dump() and iter_profile_stop() */
} iter_profile_options;

#define ITER_PROFILE_OPTIONS_INIT \
    { sizeof(iter_profile_options), 0, 0, 0, 0, 0 }

/* ---- Control --------------------------------------------------------------------------------- */

/**
 * Begins to record, and a new file. What an earlier, stopped run left for the table is dropped.
 *
 *   options  NULL = all defaults
 *
 * Errors     ESTATE (it runs already: iter_profile_stop() first), EINVAL, EIO (the file cannot be
 *            made, or another process writes it; with ITER_PROFILE the process's number is then put
 *            into the name, and the loader notes a fallback), ENOMEM.
 * Cost       56 bytes x events_per_thread for each thread, from its first event on, and 10 KiB for
 *            each name that it uses.
 */
ITER_API ITER_NODISCARD iter_status iter_profile_start(const iter_profile_options *options,
                                                       iter_error *err);

/** Stops recording for a while, and goes on. Scopes that are open stay open. Without a running
 * profiler they do nothing. */
ITER_API void iter_profile_pause(void);
ITER_API void iter_profile_resume(void);

/** 1 while events are recorded. */
ITER_API int32_t iter_profile_is_on(void);

/**
 * Brings the file up to date; recording goes on. Also after iter_profile_stop(), where there is
 * nothing left to write, and without a file: then it does nothing.
 *
 * Errors     ESTATE (never started), EIO (the file could not be written: it stays as it was).
 */
ITER_API ITER_NODISCARD iter_status iter_profile_dump(iter_error *err);

/**
 * Ends recording and brings the file up to date for the last time. Table and events stay until
 * iter_profile_start() or iter_profile_clear(). A profiler that is not stopped by the time the
 * program returns from main(), or exits, is stopped then. A child of fork() has no profiler;
 * the file stays its parent's.
 *
 * Errors     as iter_profile_dump(); it is stopped all the same.
 */
ITER_API ITER_NODISCARD iter_status iter_profile_stop(iter_error *err);

/** Stops, if need be without telling errors, and gives all memory back. */
ITER_API void iter_profile_clear(void);

/** Events that are in neither file nor rings: overwritten before they were written, or there was no
 * memory for them. The table counts those that were overwritten, and not those without memory. */
ITER_API uint64_t iter_profile_dropped(void);

/* ---- The program's own events ---------------------------------------------------------------- */

/**
 * Begins and ends a span of the calling thread, for the innermost open one. They nest; beyond 32
 * levels the inner ones are left out.
 *
 *   name     copied; at most ITER_PROFILE_NAME_MAX bytes of it, and 512 different names a process:
 *            what comes later is "(other)"
 */
ITER_API void iter_profile_scope_begin(const char *name);
ITER_API void iter_profile_scope_end(void);

/** Sets a counter of that name, or adds to it, and records its new value. Counters begin at 0 and
 * belong to the process. Nothing happens while nothing is recorded. */
ITER_API void iter_profile_counter_set(const char *name, int64_t value);
ITER_API void iter_profile_counter_add(const char *name, int64_t delta);

/** A moment of the calling thread. */
ITER_API void iter_profile_instant(const char *name);

/* ---- Numbers --------------------------------------------------------------------------------- */

typedef enum iter_profile_sort {
    ITER_PROFILE_BY_TOTAL = 0,
    ITER_PROFILE_BY_MEAN = 1,
    ITER_PROFILE_BY_MIN = 2,
    ITER_PROFILE_BY_MAX = 3,
    ITER_PROFILE_BY_COUNT = 4,
    ITER_PROFILE_BY_P50 = 5,
    ITER_PROFILE_BY_P99 = 6,
    ITER_PROFILE_BY_NAME = 7
} iter_profile_sort;

typedef enum iter_profile_format {
    ITER_PROFILE_TABLE = 0, /* for people: a block a category */
    ITER_PROFILE_JSON = 1   /* docs/json.md */
} iter_profile_format;

/**
 * Count, total, minimum, mean, median, 99th percentile and maximum of every name, of all events
 * since start or the last reset, also those that the rings no longer hold. Percentiles are within
 * 1.6 %, the rest is exact. Counters and memory are summed up over the values they took; their
 * total is none.
 *
 *   sort_by    iter_profile_sort, within a category
 *   ascending  1 = smallest first
 *   reset      1 = the next table begins with what happens from now on; not if `out` was too small
 *   format     iter_profile_format
 *   out        [capacity] text, ended by NUL; NULL, 0 asks for the size alone
 *   out_size   bytes it takes, with the NUL
 *
 * Errors     ESTATE (never started, or without aggregate), EINVAL (a choice; capacity too small),
 *            ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_profile_table(int32_t sort_by, int32_t ascending,
                                                       int32_t reset, int32_t format, char *out,
                                                       size_t capacity, size_t *out_size,
                                                       iter_error *err);

/* ---- For tools ------------------------------------------------------------------------------- */

typedef enum iter_profile_type {
    ITER_PROFILE_SPAN = 0,    /* of one thread; spans of a thread nest or lie side by side */
    ITER_PROFILE_ASYNC = 1,   /* a read, or a batch that is held: may overlap anything */
    ITER_PROFILE_COUNTER = 2, /* value; memory: duration_ns holds the peak in bytes */
    ITER_PROFILE_INSTANT = 3
} iter_profile_type;

/** One event. */
typedef struct iter_profile_event {
    const char *name, *category; /* live for ever */
    int32_t type;                /* iter_profile_type */
    int32_t track;               /* the thread that recorded it, from 1 */
    const char *track_name;      /* lives for the call */
    uint64_t start_ns;           /* of CLOCK_MONOTONIC */
    uint64_t duration_ns;
    uint64_t loader; /* loaders are numbered from 1 as they are made; 0 = of none */
    /* of the loader's events but waits: number of the batch in its epoch, and of the chunk in its
     * batch */
    uint64_t batch;
    uint32_t epoch, chunk;
    uint64_t serial; /* batches that this loader opened so far: a seek makes a batch once more */
    int64_t value; /* open, batch, next, held, stages: rows; issue, read: bytes; counters: value */
} iter_profile_event;

/**
 * Calls back for every event that the rings still hold, in order of start.
 *
 *   callback  its events live for the call; it may not start, stop or clear the profiler, nor call
 *             this
 *
 * Errors     ESTATE (never started; called from such a callback), ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_profile_each(
    void (*callback)(void *user, const iter_profile_event *event), void *user, iter_error *err);

ITER_END_DECLS

#endif
