/*
 * samplers.h - shared by the built-in samplers: n rows cut into units, of which the last may be
 * short.
 *
 * Units are served in a permuted order. The short one has some place in it, and all rows after that
 * place come `missing` rows earlier than if it were whole. So adding `missing` after the short unit
 * puts a position on the grid of whole units; this needs no table and no search.
 */
#ifndef ITER_LOADERS_SAMPLERS_SAMPLERS_H
#define ITER_LOADERS_SAMPLERS_SAMPLERS_H

#include <stdbool.h>
#include <stddef.h>

#include <iter/option_rows.h>
#include <iter/sampler.h>

#include "iter/core/error.h"
#include "iter/core/permutation.h"

/* Fails if the number of samples is unknown; only the sequential sampler can do without it. */
static inline iter_status iter__sampler_needs_count(const iter_sampler_context *context,
                                                    iter_error *err) {
    if (context->n_samples == ITER_UNKNOWN)
        return iter__fail(err, ITER_EINVAL,
                          "needs the number of samples, which this dataset does not know "
                          "(a stream has sequential order alone)");
    if (context->n_samples >> 63)
        return iter__fail(err, ITER_EINVAL, "%llu samples are more than 2^63 - 1",
                          (unsigned long long)context->n_samples);
    return ITER_OK;
}

typedef struct iter__units {
    uint64_t n_rows, n_units;
    uint64_t unit;       /* rows of a whole unit */
    uint64_t missing;    /* rows that the last unit lacks */
    uint64_t short_slot; /* its place in the served order, set once an epoch */
} iter__units;

static inline iter__units iter__units_cut(uint64_t n_rows, uint64_t unit) {
    iter__units units = {.n_rows = n_rows, .unit = unit};
    units.n_units = n_rows / unit + (n_rows % unit != 0);
    units.missing = units.n_units * unit - n_rows;
    return units;
}

/* Sets the order of an epoch; must be called before the next two. */
static inline void iter__units_order(iter__units *units, const iter__permutation *order) {
    units->short_slot = units->n_units ? iter__permutation_find(order, units->n_units - 1) : 0;
}

/* A served position on the grid of whole units: / unit = slot, % unit = row inside. */
static inline uint64_t iter__units_grid(const iter__units *units, uint64_t position) {
    const uint64_t short_end = (units->short_slot + 1) * units->unit - units->missing;
    return position >= short_end ? position + units->missing : position;
}

/* Rows served in the slots before `slot`. */
static inline uint64_t iter__units_before(const iter__units *units, uint64_t slot) {
    return slot * units->unit - (slot > units->short_slot ? units->missing : 0);
}

#endif
