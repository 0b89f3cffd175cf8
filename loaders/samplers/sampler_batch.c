/*
 * sampler_batch.c - units of consecutive rows in random order, with the rows of a unit as they are
 * stored. If a unit is a batch, this is as cheap to read as sequential order.
 */
#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "loaders/samplers/samplers.h"

typedef struct state {
    iter__units units;
    uint64_t key;
    uint32_t epoch; /* of order, when is_ready */
    bool is_ready;
    iter__permutation order;
    uint16_t *table; /* when there are few units */
} state;

static const iter_batch_order_options defaults = ITER_BATCH_ORDER_OPTIONS_INIT;

static const iter_option options_batch[] = {
    ITER_ROW_INT("unit", "samples a unit; 0 = batch_size", iter_batch_order_options, unit, 0,
                 2147483647, 1),
    ITER_ROW_END,
};

static void batch_resolve(void *options, const iter_sampler_context *context) {
    iter_batch_order_options *o = options;
    if (o->unit <= 0) o->unit = context->batch_size;
}

static iter_status batch_open(void *opaque, const void *options,
                              const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    const iter_batch_order_options *o = options ? options : &defaults;
    ITER_TRY(iter__sampler_needs_count(context, err));
    const uint64_t unit = o->unit > 0 ? (uint64_t)o->unit : context->batch_size;
    if (unit == 0) return iter__fail(err, ITER_EINVAL, "units of no samples");
    s->units = iter__units_cut(context->n_samples, unit);
    s->key = iter_rng_key(context->seed, "batch", 0);
    if (s->units.n_units > ITER_PERMUTATION_TABLE) return ITER_OK;
    s->table = iter__alloc(s->units.n_units, sizeof(*s->table));
    return s->table ? ITER_OK : iter__fail(err, ITER_ENOMEM, "out of memory");
}

static void batch_close(void *opaque) {
    state *s = opaque;
    iter__free(s->table);
    s->table = 0;
}

static uint64_t batch_length(const void *opaque) {
    return ((const state *)opaque)->units.n_rows;
}

static void batch_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                        uint64_t *out) {
    state *s = opaque;
    if (!s->is_ready || s->epoch != epoch) {
        iter__permutation_init(&s->order, s->key, epoch, s->units.n_units, s->table);
        iter__units_order(&s->units, &s->order);
        s->epoch = epoch;
        s->is_ready = true;
    }
    while (n > 0) {
        const uint64_t slot = iter__units_grid(&s->units, position) / s->units.unit;
        const uint64_t row = position - iter__units_before(&s->units, slot);
        const uint64_t left = iter__units_before(&s->units, slot + 1) - position;
        const uint32_t n_here = (uint32_t)iter__min_u64(left, n);
        uint64_t unit;
        iter__permutation_run(&s->order, slot, 1, &unit);
        for (uint32_t i = 0; i < n_here; i++)
            out[i] = unit * s->units.unit + row + i;
        position += n_here;
        out += n_here;
        n -= n_here;
    }
}

const iter_sampler_ops iter__sampler_batch = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "batch",
             .help = "units of consecutive samples in random order, samples inside as stored",
             .options = options_batch,
             .defaults = &defaults,
             .options_size = sizeof(iter_batch_order_options),
             .state_size = sizeof(state)},
    .open = batch_open,
    .close = batch_close,
    .length = batch_length,
    .index = batch_index,
    .resolve = batch_resolve,
    .epochs = ITER_EPOCHS_LOADER,
};
