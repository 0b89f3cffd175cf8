/*
 * thread_ranks.h - ranks that are threads of one process: a communicator without MPI for tests. All
 * must make the same calls in the same order, as with MPI.
 */
#ifndef TESTS_SUPPORT_THREAD_RANKS_H
#define TESTS_SUPPORT_THREAD_RANKS_H

#include "engine/ranks/communicator.h"

/* Lanes of the communicators that are made from now on: 1 or 2, which is the default. */
extern uint32_t thread_ranks_lanes;
/* Their time limit: 60 s. Threads themselves wait for ever. */
extern uint32_t thread_ranks_timeout_s;

/* Runs one(user, comm) in a thread for each rank, and waits for all of them. */
void thread_ranks_run(uint32_t ranks, void (*one)(void *user, iter_communicator *comm), void *user);

#endif
