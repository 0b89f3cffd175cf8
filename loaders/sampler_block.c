/*
 * sampler_block.c - blocks of neighbours in random order, for sets that are read from disks.
 *
 * The outer permutation orders the blocks; `buffer` slots of that order are a group; the rows of a
 * group are ordered by an inner permutation keyed by (epoch, group). What is kept is one group: its
 * block numbers and its permutation, made anew where a position enters another group.
 *
 *     position -> group, row j of the group -> inner permutation -> slot, row inside -> block =
 *     outer permutation of the slot
 */
#include <assert.h>

#include "iter/core/alloc.h"
#include "loaders/samplers.h"
#include <iter/sampler.h>

typedef struct state {
    iter_units blocks;
    uint64_t buffer; /* blocks a group */
    uint64_t block_key, row_key;
    uint32_t epoch; /* of order and short_slot, where has_epoch */
    bool has_epoch, has_group;
    iter_permutation order;
    uint16_t *order_table; /* where there are few blocks */
    uint64_t group;        /* of what follows, where has_group */
    uint64_t group_start, group_rows;
    iter_permutation rows;
    uint16_t *row_table;    /* where a group has few rows */
    uint64_t *group_blocks; /* [buffer] */
} state;

static const iter_block_options defaults = ITER_BLOCK_OPTIONS_INIT;

static const iter_option options_block[] = {
    {"block", "samples a block; 0 = 256", ITER_OPTION_INT, offsetof(iter_block_options, block), 0,
     2147483647, 0, 1},
    {"buffer", "blocks mixed with one another; 0 = 16", ITER_OPTION_INT,
     offsetof(iter_block_options, buffer), 0, 1048576, 0, 2},
    {0},
};

static uint64_t at_most(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void close_block(void *opaque) {
    state *s = opaque;
    iter__free(s->order_table);
    iter__free(s->row_table);
    iter__free(s->group_blocks);
    s->order_table = s->row_table = 0;
    s->group_blocks = 0;
}

static void resolve(void *options, const iter_sampler_context *context) {
    iter_block_options *o = options;
    (void)context;
    if (o->block <= 0) o->block = defaults.block;
    if (o->buffer <= 0) o->buffer = defaults.buffer;
}

static iter_status open_block(void *opaque, const void *options,
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
    const uint64_t n = context->n_samples;
    s->blocks = iter__units_cut(n, block);
    s->block_key = iter_rng_key(context->seed, "block", 0);
    s->row_key = iter_rng_key(context->seed, "block", 1);
    const uint64_t n_blocks = s->blocks.n_units, n_rows = at_most(n, block * s->buffer);
    s->order_table =
        iter__alloc(at_most(n_blocks, ITER_PERMUTATION_TABLE), sizeof(*s->order_table));
    s->row_table = iter__alloc(at_most(n_rows, ITER_PERMUTATION_TABLE), sizeof(*s->row_table));
    s->group_blocks = iter__alloc(at_most(s->buffer, n_blocks), sizeof(*s->group_blocks));
    if (s->order_table && s->row_table && s->group_blocks) return ITER_OK;
    close_block(s);
    return iter__fail(err, ITER_ENOMEM, "out of memory");
}

static uint64_t length(const void *opaque) {
    return ((const state *)opaque)->blocks.n_rows;
}

static void start_epoch(state *s, uint32_t epoch) {
    if (s->has_epoch && s->epoch == epoch) return;
    iter__permutation_init(&s->order, s->block_key, epoch, s->blocks.n_units, s->order_table);
    iter__units_order(&s->blocks, &s->order);
    s->epoch = epoch;
    s->has_epoch = true;
    s->has_group = false;
}

/* Makes the group that holds `position` the current one. */
static void enter_group(state *s, uint64_t position) {
    if (s->has_group && position - s->group_start < s->group_rows) return;
    const uint64_t slot = iter__units_grid(&s->blocks, position) / s->blocks.unit;
    s->group = slot / s->buffer;
    const uint64_t first = s->group * s->buffer;
    const uint64_t n_blocks = at_most(s->buffer, s->blocks.n_units - first);
    s->group_start = iter__units_before(&s->blocks, first);
    s->group_rows = iter__units_before(&s->blocks, first + n_blocks) - s->group_start;
    iter__permutation_run(&s->order, first, (uint32_t)n_blocks, s->group_blocks);
    iter_rng rng = iter_rng_at(s->row_key, s->epoch, s->group);
    iter__permutation_init(&s->rows, iter_rng_u64(&rng), s->epoch, s->group_rows, s->row_table);
    s->has_group = true;
}

/* Rows of the current group, in served order, to samples. A group has less than 2^32 rows, and
 * narrow divisions are cheap. */
static void rows_to_samples(const state *s, uint32_t n, uint64_t *rows) {
    const uint32_t unit = (uint32_t)s->blocks.unit;
    const uint64_t first = s->group * s->buffer;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t served = s->group_start + rows[i];
        const uint32_t on_grid =
            (uint32_t)(iter__units_grid(&s->blocks, served) - first * s->blocks.unit);
        rows[i] = s->group_blocks[on_grid / unit] * unit + on_grid % unit;
        assert(rows[i] < s->blocks.n_rows);
    }
}

static void index_rows(void *opaque, uint32_t epoch, uint64_t position, uint32_t n, uint64_t *out) {
    state *s = opaque;
    start_epoch(s, epoch);
    while (n > 0) {
        enter_group(s, position);
        const uint64_t row = position - s->group_start;
        const uint32_t n_here = (uint32_t)at_most(n, s->group_rows - row);
        iter__permutation_run(&s->rows, row, n_here, out);
        rows_to_samples(s, n_here, out);
        position += n_here;
        out += n_here;
        n -= n_here;
    }
}

const iter_sampler_ops iter__sampler_block = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "block",
             .help = "blocks of neighbours in random order, rows of some blocks mixed: for disks",
             .options = options_block,
             .defaults = &defaults,
             .options_size = sizeof(iter_block_options),
             .state_size = sizeof(state)},
    .open = open_block,
    .close = close_block,
    .length = length,
    .index = index_rows,
    .resolve = resolve,
};
