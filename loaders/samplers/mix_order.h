/*
 * mix_order.h - draws from several sources by weights, as evenly as can be: after any number of
 * draws, each source has had its exact share of them, rounded down or up (its quota).
 *
 * So the k-th draw of a source may come in the first slot after which its share is above k - 1, and
 * must come by the slot after which it is k. Of all draws that may come, the one that must come
 * first does; with unit slots that keeps every limit that any order keeps.
 *
 * That order has a history. To find a draw anywhere, it is cut into blocks, and which sources are
 * rounded up at a block's end is computed from the weights alone, so that an order exists on either
 * side of it (mix_order.c says how). A block is then planned from one end to the other.
 *
 * Shares are whole numbers of `total`. If weights are ratios of whole numbers whose sum is at most
 * 2^20, `total` is that sum, and so is the block: it is planned once, and repeats. Else `total` is
 * 2^48, and a block has 8,192 draws, or as many as the smallest share needs for one; a share below
 * 2^-20 is raised to that.
 *
 * Source: R. Tijdeman, "The chairman assignment problem", Discrete Mathematics 32 (1980), for
 * orders that keep quotas; A. Horn, "Some simple scheduling algorithms", Naval Research Logistics
 * Quarterly 21 (1974), for the earliest limit first.
 */
#ifndef ITER_LOADERS_SAMPLERS_MIX_ORDER_H
#define ITER_LOADERS_SAMPLERS_MIX_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include <iter/status.h>

#define ITER_MIX_SOURCES_MAX 32768u

typedef struct iter__mix_plan iter__mix_plan;

typedef struct iter__mix_order {
    uint32_t n;
    uint64_t total;
    uint64_t *share; /* [n], of `total`; 0 = the source never comes */
    uint32_t length; /* draws of a block */
    bool repeats;
    /* the block that was planned last: */
    uint64_t block; /* its number */
    bool is_planned;
    uint16_t *source; /* [length] of each draw */
    uint32_t *rank;   /* [length] draws of the same source before it in the block */
    uint64_t *before; /* [n] draws of each source before the block */
    iter__mix_plan *plan;
} iter__mix_order;

/* weights[n]: finite, at least 0, and one of them above. Errors: ENOMEM. */
iter_status iter__mix_order_make(const double *weights, uint32_t n, iter__mix_order *out,
                                 iter_error *err);
void iter__mix_order_free(iter__mix_order *order);

/* Plans the block that has draw t (from 0), unless it is planned. */
void iter__mix_order_go(iter__mix_order *order, uint64_t t);

/* Draw t of the planned block: its source, and in *out_k how many draws of that source come
 * before. */
static inline uint32_t iter__mix_order_draw(const iter__mix_order *order, uint64_t t,
                                            uint64_t *out_k) {
    const uint64_t at = t - order->block * order->length;
    const uint32_t source = order->source[at];
    *out_k = order->before[source] + order->rank[at];
    return source;
}

/* Adds to counts[n] the draws of each source among the first t. */
void iter__mix_order_count(iter__mix_order *order, uint64_t t, uint64_t *counts);

#endif
