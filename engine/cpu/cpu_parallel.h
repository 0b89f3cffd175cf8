/* cpu_parallel.h - runs the same work on every thread of the team. */
#ifndef ENGINE_CPU_PARALLEL_H
#define ENGINE_CPU_PARALLEL_H

#include <signal.h>
#include <stdint.h>

#include "engine/backend.h"

/* Calls work(user, t, parts) for t = 0 .. parts - 1 and returns when all calls are done. With
 * OpenMP the team's threads make the calls; without it, they are made one after the other. */
void iter__cpu_parallel(uint32_t parts, void (*work)(void *user, uint32_t t, uint32_t parts),
                        void *user);

/* What iter__cpu_team_begin() changed: OpenMP's number of threads, the caller's signal mask, and
 * each thread's MXCSR. */
typedef struct cpu_team {
    int n_threads_before;
    uint32_t n_threads;
    sigset_t signals; /* the caller's mask, which its team inherits */
    unsigned control[ENGINE_MAX_THREADS];
} cpu_team;

/*
 * Between begin and end, calls from this thread, ours and oneDNN's, use `threads` threads.
 *
 * On x86, numbers below the smallest normal one then count as zero in all of these threads, both as
 * input and as result. Gradients that fade over many steps and moments that keep decaying get that
 * small, and arithmetic on them is a hundred times slower.
 *
 * Signals are blocked, except those that a thread's own fault raises: on x86 in all of these
 * threads, elsewhere in the calling thread. In oneDNN 2.6, products of matrices keep a pointer into
 * the heap in the stack pointer. A handler without a stack of its own would write its frame there.
 *
 * end() restores every thread, since the caller's own code may run in the same ones.
 */
void iter__cpu_team_begin(cpu_team *team, uint32_t threads);
void iter__cpu_team_end(const cpu_team *team);

/* First of the n things in part t of `parts`. */
static inline int64_t iter__cpu_part(int64_t n, uint32_t t, uint32_t parts) {
    return n * t / parts;
}

/* Number of floats per part from which another thread pays. */
#define CPU_WORTH 16384
static inline uint32_t iter__cpu_worth(int64_t n, uint32_t threads) {
    const int64_t worth = n / CPU_WORTH + 1;
    return worth < (int64_t)threads ? (uint32_t)worth : threads;
}

#endif
