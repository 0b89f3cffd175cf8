/*
 * mix_order.h - draws from several sources by weights, as evenly as can be.
 *
 * The weights become whole shares of a period: source s has share[s] of `period` draws. The order
 * inside a period is Tijdeman's: before and after any draw, the number of draws of s is less than 1
 * away from its exact share. After a period all are exact, so draw t is draw t % period of period t
 * / period, and needs no history.
 *
 * The period is the shortest that has the weights exactly, if one of at most 2^20 draws has (0.7
 * and 0.3: 10). Else it has 2^20 draws, and shares are rounded to a multiple of 2^-20; a weight
 * above 0 keeps at least one draw.
 *
 * Since a source's count is its share rounded down or up, a slot of the table holds one bit of it
 * beside the source, and the whole follows from the position.
 *
 * Source: R. Tijdeman, "The chairman assignment problem", Discrete Mathematics 32 (1980).
 */
#ifndef ITER_LOADERS_SAMPLERS_MIX_ORDER_H
#define ITER_LOADERS_SAMPLERS_MIX_ORDER_H

#include <stdint.h>

#include <iter/status.h>

#define ITER_MIX_PERIOD_MAX  (1u << 20)
#define ITER_MIX_SOURCES_MAX 32768u

typedef struct iter__mix_order {
    uint32_t n, period;
    uint32_t *share; /* [n] draws of a period; 0 = the source never comes */
    /* [period]: 2 s + (whether s has had more draws than its share rounded down) */
    uint16_t *slots;
} iter__mix_order;

/* weights[n]: finite, at least 0, and one of them above. Errors: ENOMEM. */
iter_status iter__mix_order_make(const double *weights, uint32_t n, iter__mix_order *out,
                                 iter_error *err);
void iter__mix_order_free(iter__mix_order *order);

/* Draw t (from 0): its source, and in *out_k how many draws of that source come before. */
static inline uint32_t iter__mix_order_draw(const iter__mix_order *order, uint64_t t,
                                            uint64_t *out_k) {
    const uint64_t turn = t / order->period;
    const uint32_t at = (uint32_t)(t % order->period);
    const uint32_t slot = order->slots[at], source = slot >> 1;
    const uint64_t share = order->share[source];
    *out_k = turn * share + share * at / order->period + (slot & 1);
    return source;
}

/* Adds to counts[n] the draws of each source among the first t. It takes a pass over a period. */
void iter__mix_order_count(const iter__mix_order *order, uint64_t t, uint64_t *counts);

#endif
