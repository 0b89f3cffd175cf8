/*
 * cpu.c - which SIMD level to use.
 *
 * Every call asks what the processor has (a few cached loads). ITER_CPU can only lower the level:
 * so a test can force every level that the machine has, and no value leads to an illegal
 * instruction.
 */
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <iter/convert.h>

#include "iter/core/cpu.h"

/* Names in the order of iter__cpu. */
static const char *const cpu_names[] = {"generic", "avx2", "avx512", "neon"};

#if defined(__x86_64__)

/* F16C has no name in every compiler's __builtin_cpu_supports. AVX2 there means that the system
 * saves the wide registers. */
static int has_f16c(void) {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx >> 29 & 1u);
}

static iter__cpu highest_level(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !has_f16c()) return ITER_CPU_GENERIC;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return ITER_CPU_AVX512;
    return ITER_CPU_AVX2;
}

#elif defined(__aarch64__)

static iter__cpu highest_level(void) {
    return ITER_CPU_NEON;
}

#else

static iter__cpu highest_level(void) {
    return ITER_CPU_GENERIC;
}

#endif

/* True if a machine whose best level is `best` can run `level`. */
static int has_level(iter__cpu best, iter__cpu level) {
    if (level == ITER_CPU_GENERIC || level == best) return 1;
    return best == ITER_CPU_AVX512 && level == ITER_CPU_AVX2;
}

iter__cpu iter__cpu_level(void) {
    const iter__cpu best = highest_level();
    const char *wish = getenv("ITER_CPU"); /* NOLINT(concurrency-mt-unsafe): read only */
    if (!wish) return best;
    for (int i = 0; i < (int)(sizeof(cpu_names) / sizeof(cpu_names[0])); i++)
        if (strcmp(wish, cpu_names[i]) == 0 && has_level(best, (iter__cpu)i)) return (iter__cpu)i;
    return best;
}

const char *iter__cpu_text(iter__cpu level) {
    return (unsigned)level < sizeof(cpu_names) / sizeof(cpu_names[0]) ? cpu_names[level] : "?";
}

const char *iter_cpu_level(void) {
    return iter__cpu_text(iter__cpu_level());
}
