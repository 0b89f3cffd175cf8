/*
 * sum_memory.h - the memory of the sums of gradients, and its operations: the host's or a device's.
 *
 * A device only queues what it is told, in order, so the operations return no status: settle()
 * waits for them and returns the first error. After an error they do nothing.
 */
#ifndef ENGINE_RANKS_SUM_MEMORY_H
#define ENGINE_RANKS_SUM_MEMORY_H

#include "engine/ranks/communicator.h"

typedef struct engine_sum_ops {
    void *(*take)(void *state, size_t bytes); /* zeros; NULL = no memory */
    void (*give_back)(void *state, void *at);
    void (*copy)(void *state, void *to, const void *from, size_t bytes);
    void (*zero)(void *state, void *to, size_t bytes);
    /* As iter__tree_add() and iter__tree_scale(). */
    void (*add)(void *state, iter_dtype real, int64_t n, const void *from, void *to);
    void (*scale)(void *state, iter_dtype real, int64_t n, double factor, void *to);
    iter_status (*settle)(void *state, iter_error *err);
} engine_sum_ops;

typedef struct engine_sum_memory {
    const engine_sum_ops *ops;
    void *state;
    iter_communicator *comm; /* its blocks lie in this memory */
    char text[160];          /* for the plan: "by NCCL 2.28"; "" = nothing to say */
} engine_sum_memory;

engine_sum_memory iter__host_memory(iter_communicator *comm);

#endif
