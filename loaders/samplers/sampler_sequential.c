/* sampler_sequential.c - samples as they are stored. The only order for streams, whose count is
 * unknown. */
#include "loaders/samplers/samplers.h"

typedef struct state {
    uint64_t n_samples;
} state;

static iter_status sequential_open(void *opaque, const void *options,
                                   const iter_sampler_context *context, iter_error *err) {
    (void)options;
    (void)err;
    state *s = opaque;
    s->n_samples = context->n_samples;
    return ITER_OK;
}

static uint64_t sequential_length(const void *opaque) {
    return ((const state *)opaque)->n_samples;
}

static void sequential_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                             uint64_t *out) {
    (void)opaque;
    (void)epoch;
    for (uint32_t i = 0; i < n; i++)
        out[i] = position + i;
}

static void sequential_locality(const void *opaque, iter_locality *out) {
    (void)opaque;
    out->in_order = 1;
}

const iter_sampler_ops iter__sampler_sequential = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "sequential",
             .help = "samples in the order they are stored",
             .state_size = sizeof(state)},
    .open = sequential_open,
    .length = sequential_length,
    .index = sequential_index,
    .locality = sequential_locality,
};
