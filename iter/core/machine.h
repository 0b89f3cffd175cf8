/* machine.h - memory and cores of the machine that this process may use. */
#ifndef ITER_CORE_MACHINE_H
#define ITER_CORE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that this process may still allocate: MemAvailable, or less if its control groups leave
 * less. `proc` and `groups` are the places where those are mounted: "/proc", "/sys/fs/cgroup".
 * Linux. */
uint64_t iter__memory_free(const char *proc, const char *groups);

/* Cores that this process may use, at least 1: those that its affinity allows, but no more than the
 * CPU time that its control groups grant, rounded up. */
uint32_t iter__cores(const char *proc, const char *groups);

/* The part of `cores` that one of `local_ranks` processes should use: an equal share. All of them
 * if it is bound to fewer cores than the machine has: then they are its share. At least 1. */
uint32_t iter__cores_share(uint32_t cores, uint32_t local_ranks);

/* Number of processes that share this machine's memory: `local_ranks` if that is not 0, else the
 * number in the launcher's environment, else all `ranks`. At most `ranks` if that is known. At
 * least 1. */
uint32_t iter__local_ranks(uint32_t local_ranks, uint32_t ranks);

/* This process's rank in the launcher's environment; -1 if there is none, or one process alone. */
int64_t iter__launcher_rank(void);

#endif
