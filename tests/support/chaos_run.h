/*
 * chaos_run.h - a loader in a chaos run, with a way of running that was drawn for it.
 */
#ifndef TESTS_SUPPORT_CHAOS_RUN_H
#define TESTS_SUPPORT_CHAOS_RUN_H

#include <stdatomic.h>

#include "tests/support/chaos_case.h"

/* A loader and those who know of it. */
typedef struct chaos_run {
    atomic_int refs;
    iter_loader *loader;
    iter_dataset *data; /* NULL for arrays */
    iter_loader_options opt;
    uint32_t shape;
    bool exact;        /* nobody but its consumer moves it */
    atomic_bool dead;  /* canceled or stopped by somebody */
    atomic_uint n_out; /* batches that are out, or were a moment ago */
} chaos_run;

/* A loader over the case in one of its shapes, run in a way that is drawn; what can be expected of it is known. NULL = it failed, and that
 * was told. */
chaos_run *chaos_run_start(chaos_case *c, uint64_t *rng);

/* Drops a reference on the run, not on its loader. */
void chaos_run_drop(chaos_run *run);

/* Whether an expectation failed in here. */
bool chaos_run_failed(void);

void chaos_run_print(const chaos_run *run);

/* Handlers: SIGUSR1 and SIGALRM only interrupt what is interruptible; SIGUSR2 cancels the loader of the thread that it comes to, if that
 * thread said which one is its own. NULL = none any more. */
void chaos_handle_signals(void);
void chaos_run_is_mine(chaos_run *run);

#endif
