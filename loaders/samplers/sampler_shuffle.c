/*
 * sampler_shuffle.c - all samples in random order: `shuffle` in a new one every epoch, `once`
 * always in that of epoch 0; and `stride`, which takes every step-th sample, from one that each
 * epoch draws anew.
 *
 * Position p of epoch e is the image of p under the keyed permutation of (key, e), so there is no
 * table to fill when an epoch begins and none to save. The permutation is cheaper by the hundreds
 * than by the batch. So if positions are requested in sequence, the next AHEAD of them are
 * evaluated together and kept in the state.
 */
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "loaders/samplers/samplers.h"

#define AHEAD 512

static const iter_stride_options stride_defaults = ITER_STRIDE_OPTIONS_INIT;

static const iter_option options_stride[] = {
    ITER_ROW_INT("step", "samples from one to the next", iter_stride_options, step, 1, INT32_MAX,
                 1),
    ITER_ROW_END,
};

typedef struct state {
    uint64_t n_samples, key;
    bool is_once, is_ready;
    uint64_t step, shift, shift_key; /* of `stride`; shift: of the epoch */
    uint32_t epoch;                  /* of the permutation, when is_ready */
    iter__permutation permutation;
    uint16_t *table;            /* [n_samples] when they are few */
    uint64_t ahead[AHEAD];      /* images of ahead_start, ahead_start + 1, ... */
    uint64_t ahead_start, next; /* next: the position after the last request */
    uint32_t n_ahead;
} state;

static iter_status open_with(state *s, const iter_sampler_context *context, iter_error *err) {
    s->key = iter_rng_key(context->seed, "shuffle", 0);
    if (s->n_samples > ITER_PERMUTATION_TABLE) return ITER_OK;
    s->table = iter__alloc(s->n_samples, sizeof(*s->table));
    return s->table ? ITER_OK : iter__fail(err, ITER_ENOMEM, "out of memory");
}

static iter_status shuffle_open(void *opaque, const void *options,
                                const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    (void)options;
    ITER_TRY(iter__sampler_needs_count(context, err));
    s->n_samples = context->n_samples;
    return open_with(s, context, err);
}

static iter_status once_open(void *opaque, const void *options, const iter_sampler_context *context,
                             iter_error *err) {
    state *s = opaque;
    s->is_once = true;
    return shuffle_open(s, options, context, err);
}

/* Whatever the shift, n / step samples of n fit: the last one is at most at
 * step - 1 + step * (n / step - 1), which is below n. */
static iter_status stride_open(void *opaque, const void *options,
                               const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    const iter_stride_options *o = options ? options : &stride_defaults;
    ITER_TRY(iter__sampler_needs_count(context, err));
    s->step = (uint64_t)o->step;
    s->n_samples = context->n_samples / s->step;
    s->shift_key = iter_rng_key(context->seed, "stride", 0);
    if (s->n_samples == 0)
        return iter__fail(err, ITER_EINVAL, "step is %llu, there are %llu samples",
                          (unsigned long long)s->step, (unsigned long long)context->n_samples);
    return open_with(s, context, err);
}

static void shuffle_close(void *opaque) {
    state *s = opaque;
    iter__free(s->table);
    s->table = 0;
}

static uint64_t shuffle_length(const void *opaque) {
    return ((const state *)opaque)->n_samples;
}

static void start_epoch(state *s, uint32_t epoch) {
    if (s->is_ready && s->epoch == epoch) return;
    iter__permutation_init(&s->permutation, s->key, epoch, s->n_samples, s->table);
    s->epoch = epoch;
    s->is_ready = true;
    s->n_ahead = 0;
}

/* Copies the images that are ready at `position`; returns how many, at most n. */
static uint32_t serve_ahead(const state *s, uint64_t position, uint32_t n, uint64_t *out) {
    if (position < s->ahead_start || position - s->ahead_start >= s->n_ahead) return 0;
    const uint32_t from = (uint32_t)(position - s->ahead_start);
    const uint32_t n_ready = iter__min_u32(s->n_ahead - from, n);
    memcpy(out, s->ahead + from, n_ready * sizeof(*out));
    return n_ready;
}

static void shuffle_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                          uint64_t *out) {
    state *s = opaque;
    start_epoch(s, s->is_once ? 0 : epoch);
    const bool in_sequence = position == s->next;
    s->next = position + n;
    const uint32_t n_served = serve_ahead(s, position, n, out);
    position += n_served;
    n -= n_served;
    out += n_served;
    if (n == 0) return;
    if (!in_sequence || n >= AHEAD) {
        iter__permutation_run(&s->permutation, position, n, out);
        return;
    }
    const uint64_t left = s->n_samples - position;
    s->ahead_start = position;
    s->n_ahead = (uint32_t)iter__min_u64(left, AHEAD);
    iter__permutation_run(&s->permutation, position, s->n_ahead, s->ahead);
    serve_ahead(s, position, n, out);
}

static void stride_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                         uint64_t *out) {
    state *s = opaque;
    if (!s->is_ready || s->epoch != epoch) {
        iter_rng rng = iter_rng_at(s->shift_key, epoch, 0);
        s->shift = iter_rng_below(&rng, s->step);
    }
    shuffle_index(s, epoch, position, n, out);
    for (uint32_t i = 0; i < n; i++)
        out[i] = s->shift + s->step * out[i];
}

const iter_sampler_ops iter__sampler_shuffle = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "shuffle",
             .help = "a new random order of all samples every epoch",
             .state_size = sizeof(state)},
    .open = shuffle_open,
    .close = shuffle_close,
    .length = shuffle_length,
    .index = shuffle_index,
    .epochs = ITER_EPOCHS_LOADER,
};

const iter_sampler_ops iter__sampler_once = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "once",
             .help = "one random order of all samples, the same every epoch",
             .state_size = sizeof(state)},
    .open = once_open,
    .close = shuffle_close,
    .length = shuffle_length,
    .index = shuffle_index,
};

const iter_sampler_ops iter__sampler_stride = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "stride",
             .help = "every step-th sample in random order, from one that each epoch draws",
             .options = options_stride,
             .defaults = &stride_defaults,
             .options_size = sizeof(iter_stride_options),
             .state_size = sizeof(state)},
    .open = stride_open,
    .close = shuffle_close,
    .length = shuffle_length,
    .index = stride_index,
    .epochs = ITER_EPOCHS_LOADER,
};
