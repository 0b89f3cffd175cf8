/* engine_memory.h - every allocation of the engine. Tests can make each one fail, and can count
 * what is live and what a step allocates. */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Returns zeroed memory, aligned to 64 bytes, or NULL if there is none. n * size is checked for
 * overflow. From 4 MiB on, a block is a mapping of its own in huge pages, whose pages are touched
 * at once so that no step faults. */
void *iter__engine_alloc(size_t n, size_t size);
void iter__engine_free(void *block);

/* For tests: the n-th allocation from now fails (0 = the next); -1 = none fails. Counters are
 * atomic. */
extern long iter__engine_fail_after;
long iter__engine_live(void);       /* live blocks */
long iter__engine_live_bytes(void); /* live bytes, as requested */
long iter__engine_count(void);      /* allocations so far */

#endif
