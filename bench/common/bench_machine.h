/* bench_machine.h - the machine that a result was measured on. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include "bench/common/bench_json.h"

typedef struct bench_machine {
    char cpu[128];    /* model name */
    int cores;        /* available to this process */
    const char *isa;  /* SIMD level of the library */
    char kernel[128]; /* name and release */
    uint64_t memory_bytes;
} bench_machine;

bench_machine bench_machine_here(void);

/** The revision of the source at configure time, or "unknown". */
const char *bench_git(void);

/** Writes version, git and machine{...} into the open object. */
void bench_machine_json(json_writer *w);

#endif
