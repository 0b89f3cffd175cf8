/* engine_memory.h - every allocation of the engine, so that tests can fail each one and count what
 * is live and what a step allocates. */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed, aligned to 64 bytes, n * size checked for overflow; from 4 MiB on a mapping of its own in
 * huge pages, touched, so that no step faults. NULL when there is no memory. */
void *iter__engine_alloc(size_t n, size_t size);
void iter__engine_free(void *block);

/* For tests: the n-th allocation from now (0 = the next) fails; -1 = none. Counters are atomic. */
extern long iter__engine_fail_after;
long iter__engine_live(void);       /* blocks */
long iter__engine_live_bytes(void); /* as they were asked for */
long iter__engine_count(void);      /* of allocations up to now */

#endif
