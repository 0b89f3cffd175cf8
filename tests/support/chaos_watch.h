/*
 * chaos_watch.h - what the threads of a chaos run did, counted by kind, and what they do now. If a
 * call takes too long, the program prints what all threads do, and aborts.
 */
#ifndef TESTS_SUPPORT_CHAOS_WATCH_H
#define TESTS_SUPPORT_CHAOS_WATCH_H

#include <stdatomic.h>
#include <stdint.h>

#define CHAOS_PATIENCE 60.0 /* seconds that a call may take */

#define CHAOS_EVENTS(X)  \
    X(loaders)           \
    X(refused_memory)    \
    X(next)              \
    X(next_within)       \
    X(end)               \
    X(again)             \
    X(timed_out)         \
    X(all_held)          \
    X(failed_batches)    \
    X(reset)             \
    X(seek)              \
    X(seek_refused)      \
    X(save)              \
    X(restore)           \
    X(restore_refused)   \
    X(restore_elastic)   \
    X(cancel)            \
    X(cancel_in_handler) \
    X(stop)              \
    X(canceled)          \
    X(late_release)      \
    X(release)           \
    X(outlived)          \
    X(stats)             \
    X(activity)          \
    X(failures)          \
    X(read_sample)       \
    X(signals)           \
    X(stalls)            \
    X(profile)           \
    X(no_ring)           \
    X(compared)          \
    X(unknown)

enum {
#define X(name) CHAOS_EV_##name,
    CHAOS_EVENTS(X)
#undef X
        CHAOS_N_EVENTS
};

extern atomic_ullong chaos_counts[CHAOS_N_EVENTS];

/* May be called in signal handlers, too. */
#define CHAOS_COUNT(name) \
    atomic_fetch_add_explicit(&chaos_counts[CHAOS_EV_##name], 1, memory_order_relaxed)

/* Prints all counts in one line, without a newline. */
void chaos_print_counts(void);

/* What a thread of the test does now. */
typedef struct chaos_slot {
    char name[24];
    _Atomic(const char *) what; /* NULL = nothing that could hang */
    _Atomic double since;
} chaos_slot;

#define CHAOS_SLOTS 8

extern chaos_slot chaos_slots[CHAOS_SLOTS];

/* Sets this thread's slot, and what it does from now on. */
void chaos_use_slot(chaos_slot *slot);
void chaos_doing(const char *what);

/* Starts the watchdog. If it finds a hang it calls report() in its thread, then prints all threads
 * of the process and aborts. If ITER_CHAOS_STAY is in the environment, the process stays alive
 * instead, for a debugger. */
void chaos_watch_start(void (*report)(void));
void chaos_watch_stop(void);

#endif
