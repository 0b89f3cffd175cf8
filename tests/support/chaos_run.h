/*
 * chaos_run.h - a loader in a chaos run, with a random way of running.
 */
#ifndef TESTS_SUPPORT_CHAOS_RUN_H
#define TESTS_SUPPORT_CHAOS_RUN_H

#include <stdatomic.h>

#include "tests/support/chaos_case.h"

/* A loader; several threads may hold a reference. */
typedef struct chaos_run {
    atomic_int refs;
    iter_loader *loader;
    iter_dataset *data; /* NULL for arrays */
    iter_loader_options opt;
    uint32_t shape;
    bool exact;        /* only its consumer moves it */
    atomic_bool dead;  /* a thread canceled or stopped it */
    atomic_uint n_out; /* batches in use, or in use a moment ago */
} chaos_run;

/* Makes a loader over the case, in a random shape and way of running. Makes the shape's plain run
 * first if there is none. Returns NULL if that fails, which counts as a failed expectation. */
chaos_run *chaos_run_start(chaos_case *c, uint64_t *rng);

/* Drops a reference on the run, not on its loader. */
void chaos_run_drop(chaos_run *run);

/* Whether an expectation failed in this file. */
bool chaos_run_failed(void);

void chaos_run_print(const chaos_run *run);

/* Installs handlers. SIGUSR1 and SIGALRM only interrupt system calls. SIGUSR2 cancels the loader of
 * the thread that it interrupts. */
void chaos_handle_signals(void);

/* Makes the run's loader the calling thread's own; NULL = the thread has none any more. */
void chaos_run_is_mine(chaos_run *run);

#endif
