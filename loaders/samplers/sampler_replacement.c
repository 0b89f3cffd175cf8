/* sampler_replacement.c - independent draws: position p of epoch e is iter_rng_below(n) of the
 * stream of (key, e, p). */
#include "loaders/samplers/samplers.h"

typedef struct state {
    uint64_t n_samples, n_draws, key;
} state;

static const iter_replacement_options defaults = ITER_REPLACEMENT_OPTIONS_INIT;

static const iter_option options_replacement[] = {
    ITER_ROW_INT("samples", "draws an epoch; 0 = as many as there are samples",
                 iter_replacement_options, samples, 0, 9e15, 1),
    ITER_ROW_END,
};

static iter_status replacement_open(void *opaque, const void *options,
                                    const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    const iter_replacement_options *o = options ? options : &defaults;
    ITER_TRY(iter__sampler_needs_count(context, err));
    s->n_samples = context->n_samples;
    s->n_draws = o->samples > 0 ? (uint64_t)o->samples : s->n_samples;
    s->key = iter_rng_key(context->seed, "replacement", 0);
    if (s->n_samples == 0 && s->n_draws > 0)
        return iter__fail(err, ITER_EINVAL, "%llu draws from a dataset without samples",
                          (unsigned long long)s->n_draws);
    return ITER_OK;
}

static uint64_t replacement_length(const void *opaque) {
    return ((const state *)opaque)->n_draws;
}

static void replacement_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                              uint64_t *out) {
    const state *s = opaque;
    for (uint32_t i = 0; i < n; i++) {
        iter_rng rng = iter_rng_at(s->key, epoch, position + i);
        out[i] = iter_rng_below(&rng, s->n_samples);
    }
}

const iter_sampler_ops iter__sampler_replacement = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "replacement",
             .help = "independent draws: a sample may come twice, or not at all",
             .options = options_replacement,
             .defaults = &defaults,
             .options_size = sizeof(iter_replacement_options),
             .state_size = sizeof(state)},
    .open = replacement_open,
    .length = replacement_length,
    .index = replacement_index,
    .epochs = ITER_EPOCHS_LOADER,
};
