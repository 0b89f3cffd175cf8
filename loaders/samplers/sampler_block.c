/*
 * sampler_block.c - blocks of neighbours in random order, for sets that are read from disks.
 *
 * The outer permutation orders the blocks; `buffer` slots of that order are a group; the rows of a
 * group are ordered by an inner permutation keyed by (epoch, group). The state keeps two groups,
 * each with its block numbers, its permutation and its epoch's order: one to draw rows from, and
 * one for looking ahead. A position in neither replaces the group that was not used last.
 *
 *     position -> group, row j of the group -> inner permutation -> slot, row inside -> block =
 *     outer permutation of the slot
 */
#include <assert.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "loaders/samplers/samplers.h"

/* A group, and the order of its epoch. */
typedef struct view {
    iter__units blocks;
    uint32_t epoch; /* of order and blocks, when has_epoch */
    bool has_epoch, has_group;
    iter__permutation order;
    uint16_t *order_table; /* when there are few blocks */
    uint64_t group;        /* of the members below, when has_group */
    uint64_t group_start, group_rows;
    iter__permutation rows;
    uint16_t *row_table;    /* when a group has few rows */
    uint64_t *group_blocks; /* [buffer] */
} view;

#define VIEWS 2

typedef struct state {
    uint64_t n_rows, buffer; /* blocks a group */
    uint64_t block_key, row_key;
    view views[VIEWS];
    int last; /* the one that was used last */
} state;

static const iter_block_options defaults = ITER_BLOCK_OPTIONS_INIT;

static const iter_option options_block[] = {
    ITER_ROW_INT("block", "samples a block; 0 = 256", iter_block_options, block, 0, 2147483647, 1),
    ITER_ROW_INT("buffer", "blocks mixed with one another; 0 = 16", iter_block_options, buffer, 0,
                 1048576, 2),
    ITER_ROW_END,
};

static void block_close(void *opaque) {
    state *s = opaque;
    for (int i = 0; i < VIEWS; i++) {
        iter__free(s->views[i].order_table);
        iter__free(s->views[i].row_table);
        iter__free(s->views[i].group_blocks);
        s->views[i] = (view){.has_epoch = false};
    }
}

static bool make_view(view *v, const iter__units *blocks, uint64_t buffer) {
    const uint64_t n_blocks = blocks->n_units,
                   n_rows = iter__min_u64(blocks->n_rows, blocks->unit * buffer);
    v->blocks = *blocks;
    v->order_table =
        iter__alloc(iter__min_u64(n_blocks, ITER_PERMUTATION_TABLE), sizeof(*v->order_table));
    v->row_table =
        iter__alloc(iter__min_u64(n_rows, ITER_PERMUTATION_TABLE), sizeof(*v->row_table));
    v->group_blocks = iter__alloc(iter__min_u64(buffer, n_blocks), sizeof(*v->group_blocks));
    return v->order_table && v->row_table && v->group_blocks;
}

static void block_resolve(void *options, const iter_sampler_context *context) {
    iter_block_options *o = options;
    (void)context;
    if (o->block <= 0) o->block = defaults.block;
    if (o->buffer <= 0) o->buffer = defaults.buffer;
}

static iter_status block_open(void *opaque, const void *options,
                              const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    const iter_block_options *o = options ? options : &defaults;
    ITER_TRY(iter__sampler_needs_count(context, err));
    const uint64_t block = (uint64_t)(o->block > 0 ? o->block : defaults.block);
    s->buffer = (uint64_t)(o->buffer > 0 ? o->buffer : defaults.buffer);
    if (block > UINT32_MAX / s->buffer)
        return iter__fail(err, ITER_EINVAL,
                          "%llu blocks of %llu samples are too many to mix: block * "
                          "buffer must be below 2^32",
                          (unsigned long long)s->buffer, (unsigned long long)block);
    const iter__units blocks = iter__units_cut(context->n_samples, block);
    s->n_rows = context->n_samples;
    s->block_key = iter_rng_key(context->seed, "block", 0);
    s->row_key = iter_rng_key(context->seed, "block", 1);
    bool made = true;
    for (int i = 0; i < VIEWS; i++)
        made = make_view(&s->views[i], &blocks, s->buffer) && made;
    if (made) return ITER_OK;
    block_close(s);
    return iter__fail(err, ITER_ENOMEM, "out of memory");
}

static uint64_t block_length(const void *opaque) {
    return ((const state *)opaque)->n_rows;
}

static void start_epoch(const state *s, view *v, uint32_t epoch) {
    if (v->has_epoch && v->epoch == epoch) return;
    iter__permutation_init(&v->order, s->block_key, epoch, v->blocks.n_units, v->order_table);
    iter__units_order(&v->blocks, &v->order);
    v->epoch = epoch;
    v->has_epoch = true;
    v->has_group = false;
}

static bool holds(const view *v, uint32_t epoch, uint64_t position) {
    return v->has_group && v->epoch == epoch && position - v->group_start < v->group_rows;
}

/* The view of the group that holds `position`. */
static const view *enter_group(state *s, uint32_t epoch, uint64_t position) {
    for (int i = 0; i < VIEWS; i++) {
        if (!holds(&s->views[i], epoch, position)) continue;
        s->last = i;
        return &s->views[i];
    }
    s->last = (s->last + 1) % VIEWS;
    view *v = &s->views[s->last];
    start_epoch(s, v, epoch);
    const uint64_t slot = iter__units_grid(&v->blocks, position) / v->blocks.unit;
    v->group = slot / s->buffer;
    const uint64_t first = v->group * s->buffer;
    const uint64_t n_blocks = iter__min_u64(s->buffer, v->blocks.n_units - first);
    v->group_start = iter__units_before(&v->blocks, first);
    v->group_rows = iter__units_before(&v->blocks, first + n_blocks) - v->group_start;
    iter__permutation_run(&v->order, first, (uint32_t)n_blocks, v->group_blocks);
    iter_rng rng = iter_rng_at(s->row_key, epoch, v->group);
    iter__permutation_init(&v->rows, iter_rng_u64(&rng), epoch, v->group_rows, v->row_table);
    v->has_group = true;
    return v;
}

/* Turns rows of a group, in served order, into samples. A group has less than 2^32 rows, and narrow
 * divisions are cheap. */
static void rows_to_samples(const view *v, uint64_t buffer, uint32_t n, uint64_t *rows) {
    const uint32_t unit = (uint32_t)v->blocks.unit;
    const uint64_t first = v->group * buffer;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t served = v->group_start + rows[i];
        const uint32_t on_grid =
            (uint32_t)(iter__units_grid(&v->blocks, served) - first * v->blocks.unit);
        rows[i] = v->group_blocks[on_grid / unit] * unit + on_grid % unit;
        assert(rows[i] < v->blocks.n_rows);
    }
}

static void block_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                        uint64_t *out) {
    state *s = opaque;
    while (n > 0) {
        const view *v = enter_group(s, epoch, position);
        const uint64_t row = position - v->group_start;
        const uint32_t n_here = (uint32_t)iter__min_u64(n, v->group_rows - row);
        iter__permutation_run(&v->rows, row, n_here, out);
        rows_to_samples(v, s->buffer, n_here, out);
        position += n_here;
        out += n_here;
        n -= n_here;
    }
}

static void block_locality(const void *opaque, iter_locality *out) {
    const state *s = opaque;
    out->block = s->views[0].blocks.unit;
    out->group = s->buffer;
}

const iter_sampler_ops iter__sampler_block = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "block",
             .help = "blocks of neighbours in random order, rows of some blocks mixed: for disks",
             .options = options_block,
             .defaults = &defaults,
             .options_size = sizeof(iter_block_options),
             .state_size = sizeof(state)},
    .open = block_open,
    .close = block_close,
    .length = block_length,
    .index = block_index,
    .resolve = block_resolve,
    .locality = block_locality,
    .epochs = ITER_EPOCHS_LOADER,
};
