/* memory.h - how much memory there is to be had. */
#ifndef ITER_RUNTIME_MEMORY_H
#define ITER_RUNTIME_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that this process may still take: MemAvailable, and what the control groups that it is in
 * leave. `proc` and `groups` are where those are mounted: "/proc", "/sys/fs/cgroup". Linux. */
uint64_t iter__memory_free(const char *proc, const char *groups);

#endif
