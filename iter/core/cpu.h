/* cpu.h - which SIMD level to use: what the processor has, lowered by the environment variable
 * ITER_CPU. */
#ifndef ITER_CORE_CPU_H
#define ITER_CORE_CPU_H

typedef enum iter__cpu {
    ITER_CPU_GENERIC = 0,
    ITER_CPU_AVX2 = 1,
    ITER_CPU_AVX512 = 2,
    ITER_CPU_NEON = 3
} iter__cpu;

/* ITER_CPU is read on each call. It is "generic", "avx2", "avx512" or "neon"; an unknown or
 * unavailable level is ignored. AVX512 means F, BW, DQ and VL. */
iter__cpu iter__cpu_level(void);
const char *iter__cpu_text(iter__cpu level);

#endif
