/* sum_memory.c - the host's memory; see sum_memory.h. */
#include "engine/ranks/sum_memory.h"

#include <string.h>

#include "engine/engine_memory.h"
#include "engine/ranks/sum_tree.h"

static void *host_take(void *state, size_t bytes) {
    (void)state;
    return iter__engine_alloc(bytes, 1);
}

static void host_give_back(void *state, void *at) {
    (void)state;
    iter__engine_free(at);
}

static void host_copy(void *state, void *to, const void *from, size_t bytes) {
    (void)state;
    memcpy(to, from, bytes);
}

static void host_zero(void *state, void *to, size_t bytes) {
    (void)state;
    memset(to, 0, bytes);
}

static void host_add(void *state, iter_dtype real, int64_t n, const void *from, void *to) {
    (void)state;
    iter__tree_add(real, n, from, to);
}

static void host_scale(void *state, iter_dtype real, int64_t n, double factor, void *to) {
    (void)state;
    iter__tree_scale(real, n, factor, to);
}

static iter_status host_settle(void *state, iter_error *err) {
    (void)state, (void)err;
    return ITER_OK;
}

engine_sum_memory iter__host_memory(iter_communicator *comm) {
    static const engine_sum_ops ops = {.take = host_take,
                                       .give_back = host_give_back,
                                       .copy = host_copy,
                                       .zero = host_zero,
                                       .add = host_add,
                                       .scale = host_scale,
                                       .settle = host_settle};
    return (engine_sum_memory){.ops = &ops, .comm = comm};
}
