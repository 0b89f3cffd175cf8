/*
 * observer.h - reads, many times a second, the stage of each worker of a loader, and counts how
 * long threads were ready to run but had no core.
 */
#ifndef OBSERVER_H
#define OBSERVER_H

#include <iter/loader.h>

#include "diagnose/evidence.h"

typedef struct observer observer;

typedef struct observer_options {
    double look_s; /* mean time between looks; 0 = 0.002 */
    /* runs in the observer's thread after each nap; NULL = nothing */
    void (*tick)(void *user);
    void *user;
} observer_options;

/** Sums over looks; divided by `n` they are shares of the time. */
typedef struct observer_load {
    uint64_t n;
    double busy; /* the part of the loader that was at work, or could do no more: 0 to 1 a look */
    /* parts of `busy`: reading, with the part of it that waits for bytes; decoding and get(); the
     * chain; what is none of these (opening, handing over) */
    double read, wait_bytes, decode, chain, other;
} observer_load;

/** What one stretch saw; see observer_cut(). */
typedef struct observer_stretch {
    observer_load load;
    double worker_delay_s, worker_cpu_s; /* summed over workers */
    /* of the consumer's most delayed thread, and of the thread that called next() last */
    double delay_s, own_delay_s;
} observer_stretch;

/** Starts the thread that looks; it rests until observer_on(). The loader must outlive it.
 * options: NULL = defaults. Errors: ENOMEM. */
iter_status observer_start(iter_loader *loader, const observer_options *options, observer **out,
                           iter_error *err);

/** Begin and end a stretch of time that counts. Only one thread may call them. */
void observer_on(observer *o);
void observer_off(observer *o);

/** Ends a stretch and begins the next. now: the loader's counters, just read. *out must be zero. */
void observer_cut(observer *o, const iter_loader_stats *now, observer_stretch *out);

/** Writes stages, workers and the consumer's part of `out` as shares of the time that counted. Not
 * together with on, off and cut. */
void observer_read(observer *o, evidence *out);

/** Stops the thread. NULL is ignored. */
void observer_stop(observer *o);

#endif
