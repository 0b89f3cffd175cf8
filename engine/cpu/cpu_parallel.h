/* cpu_parallel.h - the same work by every thread of the team. */
#ifndef ENGINE_CPU_PARALLEL_H
#define ENGINE_CPU_PARALLEL_H

#include <signal.h>
#include <stdint.h>

#include "engine/backend.h"

/* Calls work(user, t, parts) for t = 0 .. parts - 1, by the team's threads where OpenMP is there and
 * one after the other where it is not, and returns when all are done. */
void iter__cpu_parallel(uint32_t parts, void (*work)(void *user, uint32_t t, uint32_t parts),
                        void *user);

/* What iter__cpu_team_begin() changed: OpenMP's number of threads, the caller's signal mask, and each
 * thread's MXCSR. */
typedef struct cpu_team {
    int n_threads_before;
    uint32_t n_threads;
    sigset_t signals; /* of the caller, whose mask its team has, too */
    unsigned control[ENGINE_MAX_THREADS];
} cpu_team;

/*
 * Until the end, calls from this thread, ours and oneDNN's, use `threads` threads, and on x86 numbers
 * below the smallest normal one count as zero in all of them, in and out: gradients that die away over
 * many steps and moments that decay for ever get there, and arithmetic on them is a hundred times
 * slower. Signals that are no fault of the thread's own wait: products of matrices in oneDNN 2.6 keep a
 * pointer into the heap where the stack pointer belongs, and the frame of a handler without a stack of
 * its own would be written there. The end leaves every thread as it was, since the caller's own code may
 * run in the same ones.
 */
void iter__cpu_team_begin(cpu_team *team, uint32_t threads);
void iter__cpu_team_end(const cpu_team *team);

/* Where part t of `parts` of n things begins. */
static inline int64_t iter__cpu_part(int64_t n, uint32_t t, uint32_t parts) {
    return n * t / parts;
}

/* Into how many parts n floats are shared, so that one more thread pays. */
#define CPU_WORTH 16384
static inline uint32_t iter__cpu_worth(int64_t n, uint32_t threads) {
    const int64_t worth = n / CPU_WORTH + 1;
    return worth < (int64_t)threads ? (uint32_t)worth : threads;
}

#endif
