/* cpu_parallel.c - OpenMP's team, because oneDNN computes in the same one. */
#include "engine/cpu/cpu_parallel.h"

#include <stdbool.h>

#if defined(_OPENMP)
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Parts first, first + step, ..: one each, unless the runtime gave fewer threads than asked for. */
static void parts(void (*work)(void *user, uint32_t t, uint32_t threads), void *user,
                  uint32_t first, uint32_t step, uint32_t threads) {
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u); /* flush to zero, denormals are zeros; of this thread alone */
#endif
    for (uint32_t t = first; t < threads; t += step)
        work(user, t, threads);
#if defined(__x86_64__)
    _mm_setcsr(before);
#endif
}

void iter__cpu_parallel(uint32_t threads, void (*work)(void *user, uint32_t t, uint32_t threads),
                        void *user) {
#if defined(_OPENMP)
    if (threads > 1) {
#pragma omp parallel num_threads((int)threads)
        parts(work, user, (uint32_t)omp_get_thread_num(), (uint32_t)omp_get_num_threads(), threads);
        return;
    }
#endif
    parts(work, user, 0, 1, threads);
}

/* oneDNN's loops run in the same team, so the switch is set in each of its threads. */
static void switch_denormals(uint32_t threads, bool off) {
#if defined(__x86_64__)
#define SWITCHES (_MM_FLUSH_ZERO_ON | 0x40u /* denormals are zeros */)
#if defined(_OPENMP)
#pragma omp parallel num_threads((int)threads)
#endif
    _mm_setcsr(off ? _mm_getcsr() | SWITCHES : _mm_getcsr() & ~SWITCHES);
#undef SWITCHES
#else
    (void)off;
#endif
    (void)threads;
}

cpu_team iter__cpu_team_begin(uint32_t threads) {
    cpu_team team = {.threads = threads};
#if defined(_OPENMP)
    team.n_threads = omp_get_max_threads();
    omp_set_num_threads((int)threads);
#endif
    switch_denormals(threads, true);
    return team;
}

void iter__cpu_team_end(const cpu_team *team) {
    switch_denormals(team->threads, false);
#if defined(_OPENMP)
    omp_set_num_threads(team->n_threads);
#endif
}
