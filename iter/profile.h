/*
 * profile.h - the profiler: records what every thread of every loader did and when, together with
 * the program's own scopes and counters.
 *
 *     iter_profile_start(NULL, &err);           writes profile.json, every second
 *     while (...) {
 *         iter_profile_scope_begin("forward");
 *         ...
 *         iter_profile_scope_end();
 *     }
 *     iter_profile_stop(&err);
 *
 * Or without changing the program: ITER_PROFILE=profile.json ./program. It then begins with the
 * first loader and ends with the program. The file opens in Perfetto and chrome://tracing. It is
 * complete JSON at any time, however the program ends.
 *
 * Each process of a run has its own file. In a name %p is the process's number, %r its rank, and %%
 * is %. If a name has neither, and the rank is known, ".rankN" is put before its ending:
 * profile.rank3.json. The rank comes from the launcher's environment (RANK with WORLD_SIZE, and the
 * pairs of Open MPI, MPICH, MVAPICH and Slurm). If that has none, ITER_PROFILE takes the first
 * loader's rank. An unknown rank is 0 for %r. If ITER_PROFILE's file cannot be made, or another
 * process writes it, the first loader's statistics have a fallback with the reason.
 *
 * A process has one profiler. All calls may come from any thread. While it is off it costs a load
 * and a branch per chunk of a batch; while it is on, about 50 ns per event, and about five events
 * per batch.
 *
 * These events of a loader are recorded, by category:
 *     loader  open (rows chosen and located), batch (batch stages and publishing), next (the
 *             consumer's wait), held (from next to the last unref)
 *     stage   one span for a chunk of rows, from bytes to the batch, named after its first stage:
 *             "get", "decode", the chain's first, or "copy". Later stages run row by row within it
 *     read    issue (the reads of a chunk given to the system), read (from then until its last byte
 *             came, whichever thread waited)
 *     wait    wait-bytes, wait-slot: a worker had nothing to do; wait-device: a GPU read all slots
 *     memory  host, pinned, device: bytes that the library holds; the trainer's are its own
 * Scopes and instants of the program have category user, its counters category counter.
 */
#ifndef ITER_PROFILE_H
#define ITER_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

ITER_BEGIN_DECLS

/** Names are told apart by so many of their first bytes. */
#define ITER_PROFILE_NAME_MAX 47

/** How to profile. Zero in any field means its default. New fields go at the end. */
typedef struct iter_profile_options {
    size_t struct_size; /* sizeof(iter_profile_options); ITER_PROFILE_OPTIONS_INIT sets it */
    /* where the trace goes, %p and %r as above; NULL = "profile.json", "" = no file: for
     * iter_profile_each() and the table alone */
    const char *filename;
    /* events a thread's ring holds, 56 bytes each; rounded up to a power of two; 0 = 65,536 */
    uint32_t events_per_thread;
    int32_t no_aggregate; /* 1 = no sums for iter_profile_table() */
    int32_t no_memory;    /* 1 = no counters of memory */
    /* how often the file is updated; 0 = 1000; -1 = only by iter_profile_dump() and
     * iter_profile_stop() */
    int64_t dump_period_ms;
} iter_profile_options;

#define ITER_PROFILE_OPTIONS_INIT \
    { sizeof(iter_profile_options), 0, 0, 0, 0, 0 }

/* ---- Control --------------------------------------------------------------------------------- */

/**
 * Starts to record, into a new file. The table of an earlier, stopped run is dropped.
 *
 *   options  NULL = all defaults
 *
 * Errors     ESTATE (it is running: call iter_profile_stop() first), EINVAL, EIO (the file cannot
 *            be made, or another process writes it; with ITER_PROFILE the process's number is then
 *            put into the name, and the loader notes a fallback), ENOMEM.
 * Cost       56 bytes x events_per_thread for each thread, from its first event on, and 10 KiB for
 *            each name that it uses.
 */
ITER_API ITER_NODISCARD iter_status iter_profile_start(const iter_profile_options *options,
                                                       iter_error *err);

/** Pauses recording, and goes on with it. Open scopes stay open. If no profiler is running, both do
 * nothing. */
ITER_API void iter_profile_pause(void);
ITER_API void iter_profile_resume(void);

/** 1 while events are recorded. */
ITER_API int32_t iter_profile_is_on(void);

/**
 * Updates the file; recording goes on. After iter_profile_stop(), or without a file, it does
 * nothing.
 *
 * Errors     ESTATE (never started), EIO (the file could not be written: it stays as it was).
 */
ITER_API ITER_NODISCARD iter_status iter_profile_dump(iter_error *err);

/**
 * Ends recording and updates the file for the last time. Table and events stay until
 * iter_profile_start() or iter_profile_clear(). If the program returns from main() or exits without
 * this call, the profiler is stopped then. A child of fork() has no profiler; the file stays its
 * parent's.
 *
 * Errors     as iter_profile_dump(); the profiler is stopped even so.
 */
ITER_API ITER_NODISCARD iter_status iter_profile_stop(iter_error *err);

/** Stops the profiler if it is running, ignores errors, and frees all its memory. */
ITER_API void iter_profile_clear(void);

/** Events that are in neither the file nor the rings: they were overwritten before they reached the
 * file, or there was no memory for them. The table counts the former, but not the latter. */
ITER_API uint64_t iter_profile_dropped(void);

/* ---- The program's own events ---------------------------------------------------------------- */

/**
 * Begins a span of the calling thread, and ends the innermost open one. Spans nest; beyond 32
 * levels the inner ones are left out.
 *
 *   name     copied, at most ITER_PROFILE_NAME_MAX bytes of it. A process has 512 different names;
 *            later ones become "(other)"
 */
ITER_API void iter_profile_scope_begin(const char *name);
ITER_API void iter_profile_scope_end(void);

/** Sets a counter of that name, or adds to it, and records its new value. Counters start at 0 and
 * belong to the process. While nothing is recorded, these calls do nothing. */
ITER_API void iter_profile_counter_set(const char *name, int64_t value);
ITER_API void iter_profile_counter_add(const char *name, int64_t delta);

/** Records a moment of the calling thread. */
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
    ITER_PROFILE_TABLE = 0, /* for people: one block per category */
    ITER_PROFILE_JSON = 1   /* docs/json.md */
} iter_profile_format;

/**
 * Count, total, minimum, mean, median, 99th percentile and maximum of every name, over all events
 * since start or the last reset, including those that the rings no longer hold. Percentiles are
 * within 1.6 %, the rest is exact. For counters and memory the numbers are over the values they
 * took; they have no total.
 *
 *   sort_by    iter_profile_sort, within a category
 *   ascending  1 = smallest first
 *   reset      1 = the next table counts from now on; ignored if `out` was too small
 *   format     iter_profile_format
 *   out        [capacity] text with a final NUL; NULL, 0 = only out_size is wanted
 *   out_size   bytes of the text, with the NUL
 *
 * Errors     ESTATE (never started, or no_aggregate), EINVAL (an unknown choice; capacity too
 *            small), ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_profile_table(int32_t sort_by, int32_t ascending,
                                                       int32_t reset, int32_t format, char *out,
                                                       size_t capacity, size_t *out_size,
                                                       iter_error *err);

/* ---- For tools ------------------------------------------------------------------------------- */

typedef enum iter_profile_type {
    ITER_PROFILE_SPAN = 0,    /* of one thread; its spans nest or follow one another */
    ITER_PROFILE_ASYNC = 1,   /* a read, or a batch that is held: may overlap anything */
    ITER_PROFILE_COUNTER = 2, /* value; memory: duration_ns holds the peak in bytes */
    ITER_PROFILE_INSTANT = 3
} iter_profile_type;

/** One event. */
typedef struct iter_profile_event {
    const char *name, *category; /* valid until the process ends */
    int32_t type;                /* iter_profile_type */
    int32_t track;               /* the thread that recorded it, from 1 */
    const char *track_name;      /* valid for the call */
    uint64_t start_ns;           /* of CLOCK_MONOTONIC */
    uint64_t duration_ns;
    uint64_t loader; /* loaders are numbered from 1 in the order of creation; 0 = no loader */
    /* for a loader's events except waits: number of the batch in its epoch, and of the chunk in its
     * batch */
    uint64_t batch;
    uint32_t epoch, chunk;
    uint64_t serial; /* number of the batch among all that were opened; a seek opens one again */
    /* open, batch, next, held, stages: rows; issue, read: bytes; counters: value */
    int64_t value;
} iter_profile_event;

/**
 * Calls `callback` for every event that the rings still hold, in order of start.
 *
 *   callback  its event is valid for the call. It must not start, stop or clear the profiler, nor
 *             call this function
 *
 * Errors     ESTATE (never started; called from `callback`), ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_profile_each(
    void (*callback)(void *user, const iter_profile_event *event), void *user, iter_error *err);

ITER_END_DECLS

#endif
