/* cpu_parallel.h - the same work by every thread of the team. */
#ifndef ENGINE_CPU_PARALLEL_H
#define ENGINE_CPU_PARALLEL_H

#include <stdint.h>

/*
 * Calls work(user, t, threads) for t = 0 .. threads - 1, at the same time where OpenMP is there and
 * one after the other where it is not, and returns when all are done. Meanwhile numbers below the
 * smallest normal one count as zero, in and out: gradients that die away over many steps and moments
 * that decay for ever get there, and arithmetic on them is a hundred times slower.
 */
void iter__cpu_parallel(uint32_t threads, void (*work)(void *user, uint32_t t, uint32_t threads),
                        void *user);

/* What iter__cpu_team_begin() changed. */
typedef struct cpu_team {
    int n_threads;
    uint32_t threads;
} cpu_team;

/* Until the end, oneDNN's calls from this thread use `threads` threads, and numbers below the smallest
 * normal one count as zero in all of them. */
cpu_team iter__cpu_team_begin(uint32_t threads);
void iter__cpu_team_end(const cpu_team *team);

/* Where part t of `parts` of n things begins. */
static inline int64_t iter__cpu_part(int64_t n, uint32_t t, uint32_t parts) {
    return n * t / parts;
}

#endif
