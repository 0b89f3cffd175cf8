/* machine.h - what this process may take of the machine that it runs on. */
#ifndef ITER_CORE_MACHINE_H
#define ITER_CORE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that this process may still take: MemAvailable, and what the control groups that it is in
 * leave. `proc` and `groups` are where those are mounted: "/proc", "/sys/fs/cgroup". Linux. */
uint64_t iter__memory_free(const char *proc, const char *groups);

/* Cores that this process may use, at least 1: those that its affinity allows, and no more than the CPU
 * time that its control groups grant, rounded up. */
uint32_t iter__cores(const char *proc, const char *groups);

/* How many processes share this machine's memory: `local_ranks` if that is not 0, else as the launcher's
 * environment says, else all `ranks`. At most `ranks` if those are known. At least 1. */
uint32_t iter__local_ranks(uint32_t local_ranks, uint32_t ranks);

/* This process's rank as the launcher's environment says; -1 if there is one process, or none says. */
int64_t iter__launcher_rank(void);

#endif
