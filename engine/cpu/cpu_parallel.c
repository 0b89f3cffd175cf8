/*
 * cpu_parallel.c - OpenMP's team, which oneDNN uses too.
 *
 * A region always uses the whole team, even if there are fewer parts. After a smaller region, gcc's
 * runtime ends the threads that had nothing to do, and starts new ones for the next region.
 */
#include "engine/cpu/cpu_parallel.h"

#include <assert.h>
#include <pthread.h>
#include <stddef.h>

#if defined(_OPENMP)
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

void iter__cpu_parallel(uint32_t parts, void (*work)(void *user, uint32_t t, uint32_t parts),
                        void *user) {
#if defined(_OPENMP)
    if (parts > 1) {
#pragma omp parallel
        /* One part per thread, unless there are fewer threads than parts. */
        for (uint32_t t = (uint32_t)omp_get_thread_num(); t < parts;
             t += (uint32_t)omp_get_num_threads())
            work(user, t, parts);
        return;
    }
#endif
    for (uint32_t t = 0; t < parts; t++)
        work(user, t, parts);
}

#if defined(__x86_64__)

#define NO_DENORMALS 0x8040u /* of MXCSR: flush to zero, denormals are zeros */

/* This thread's number in the team, and the size of the team. */
static uint32_t place(uint32_t *n_threads) {
#if defined(_OPENMP)
    *n_threads = (uint32_t)omp_get_num_threads();
    return (uint32_t)omp_get_thread_num();
#else
    *n_threads = 1;
    return 0;
#endif
}

#endif

/* Blocks all signals except those that a fault of this thread raises; stores the old mask in
 * `before`. */
static void hold_signals(sigset_t *before) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t held;
    sigfillset(&held);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&held, faults[i]);
    pthread_sigmask(SIG_BLOCK, &held, before);
}

void iter__cpu_team_begin(cpu_team *team, uint32_t threads) {
    assert(threads >= 1 && threads <= ENGINE_MAX_THREADS);
#if defined(_OPENMP)
    team->n_threads_before = omp_get_max_threads();
    omp_set_num_threads((int)threads);
#endif
    (void)threads;
    hold_signals(&team->signals);
#if defined(__x86_64__)
    /* Set outside of the region for the caller's thread: at its end, clang's runtime restores what
     * was set inside. */
    team->control[0] = _mm_getcsr();
    _mm_setcsr(team->control[0] | NO_DENORMALS);
#if defined(_OPENMP)
#pragma omp parallel
#endif
    {
        uint32_t n_threads;
        const uint32_t t = place(&n_threads);
        if (t == 0) {
            team->n_threads = n_threads;
        } else {
            team->control[t] = _mm_getcsr();
            _mm_setcsr(team->control[t] | NO_DENORMALS);
            hold_signals(NULL);
        }
    }
#endif
}

void iter__cpu_team_end(const cpu_team *team) {
#if defined(__x86_64__)
#if defined(_OPENMP)
#pragma omp parallel
#endif
    {
        uint32_t n_threads;
        const uint32_t t = place(&n_threads);
        /* A thread that joined later started with the caller's settings. */
        if (t > 0) {
            _mm_setcsr(team->control[t < team->n_threads ? t : 0]);
            pthread_sigmask(SIG_SETMASK, &team->signals, NULL);
        }
    }
    _mm_setcsr(team->control[0]);
#endif
    pthread_sigmask(SIG_SETMASK, &team->signals, NULL);
#if defined(_OPENMP)
    omp_set_num_threads(team->n_threads_before);
#endif
}
