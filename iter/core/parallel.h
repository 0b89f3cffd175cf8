/* parallel.h - a loop whose turns run at once, for work that is done when a dataset is opened. */
#ifndef ITER_CORE_PARALLEL_H
#define ITER_CORE_PARALLEL_H

#include <stdint.h>

#define ITER_PARALLEL_MAX 8

/* Calls run(arg, i) for each i < n <= ITER_PARALLEL_MAX, turn 0 in this thread and the others each
 * in a thread of its own, and returns when all are done. If a thread cannot be started, its turn
 * runs in this one. Memory that another thread takes is not in this thread's account (alloc.h). */
void iter__parallel(uint32_t n, void (*run)(void *arg, uint32_t i), void *arg);

#endif
