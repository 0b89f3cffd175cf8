/* mix_order.c - see mix_order.h. */
#include "loaders/samplers/mix_order.h"

#include <math.h>
#include <stdbool.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"

/* ---- Shares ---------------------------------------------------------------------------------- */

/* Whether a period of `period` draws has every weight in whole draws. */
static bool is_exact(const double *weights, uint32_t n, double sum, uint32_t period) {
    for (uint32_t i = 0; i < n; i++) {
        const double share = weights[i] / sum * period, whole = round(share);
        if (fabs(share - whole) > 1e-9 * share + 1e-12) return false;
    }
    return true;
}

/* Rounds each share down, but to 1 at least, and deals the rest, one by one, to whichever lacks
 * most; if there are too many, takes them from whichever has most too many. */
static void round_shares(const double *weights, double sum, iter__mix_order *order) {
    int64_t left = order->period;
    for (uint32_t i = 0; i < order->n; i++) {
        const double share = weights[i] / sum * order->period;
        order->share[i] = share < 1 ? weights[i] > 0 : (uint32_t)share;
        left -= order->share[i];
    }
    while (left != 0) {
        uint32_t best = 0;
        double most = -INFINITY;
        for (uint32_t i = 0; i < order->n; i++) {
            const double lacks = weights[i] / sum * order->period - order->share[i];
            const bool may = left > 0 ? weights[i] > 0 : order->share[i] > 1;
            const double need = left > 0 ? lacks : -lacks;
            if (!may || need <= most) continue;
            most = need;
            best = i;
        }
        order->share[best] += left > 0 ? 1 : -1;
        left += left > 0 ? -1 : 1;
    }
}

static void find_shares(const double *weights, iter__mix_order *order) {
    double sum = 0;
    uint32_t n_used = 0;
    for (uint32_t i = 0; i < order->n; i++) {
        sum += weights[i];
        n_used += weights[i] > 0;
    }
    order->period = n_used;
    while (order->period < ITER_MIX_PERIOD_MAX && !is_exact(weights, order->n, sum, order->period))
        order->period++;
    if (order->period == ITER_MIX_PERIOD_MAX) {
        round_shares(weights, sum, order);
        return;
    }
    for (uint32_t i = 0; i < order->n; i++)
        order->share[i] = (uint32_t)round(weights[i] / sum * order->period);
}

/* ---- Tijdeman's order ------------------------------------------------------------------------ */

/* With M = 2 m - 2 for m sources, draw k (from 1) of a source may come in slot t (from 1) once its
 * lag allows it, share t M >= period (1 + (k - 1) M), and must come in the slot after the last t
 * with share t M <= period (k M - 1). Of all that may come, the one that must come first does. Each
 * source waits with one draw: in `waits`, a list for each slot that its draw may come from, or in
 * `heap`, by the slot in which it must come. */
typedef struct planner {
    const iter__mix_order *order;
    uint64_t m;      /* M */
    uint32_t *had;   /* [n] draws so far */
    uint32_t *next;  /* [n] of the same list; n = none */
    uint32_t *first; /* [period + 1] of each list */
    uint64_t *heap;  /* [n]: due slot << 16 | source */
    uint32_t n_heap;
} planner;

static void push(planner *p, uint64_t key) {
    uint32_t at = p->n_heap++;
    for (; at > 0 && p->heap[(at - 1) / 2] > key; at = (at - 1) / 2)
        p->heap[at] = p->heap[(at - 1) / 2];
    p->heap[at] = key;
}

static uint64_t pop(planner *p) {
    const uint64_t top = p->heap[0], last = p->heap[--p->n_heap];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= p->n_heap) break;
        child += child + 1 < p->n_heap && p->heap[child + 1] < p->heap[child];
        if (p->heap[child] >= last) break;
        p->heap[at] = p->heap[child];
        at = child;
    }
    p->heap[at] = last;
    return top;
}

/* Lets a source's next draw wait, if it may not come in slot `now` yet. */
static void add_next(planner *p, uint32_t source, uint32_t now) {
    const uint64_t share = p->order->share[source], period = p->order->period;
    const uint64_t k = (uint64_t)p->had[source] + 1;
    if (k > share) return; /* it is through with this period */
    const uint64_t from = (period * (1 + (k - 1) * p->m) + share * p->m - 1) / (share * p->m);
    const uint64_t due = period * (k * p->m - 1) / (share * p->m) + 1;
    if (from <= now) {
        push(p, due << 16 | source);
    } else {
        p->next[source] = p->first[from];
        p->first[from] = source;
    }
}

static void plan(planner *p) {
    iter__mix_order *order = (iter__mix_order *)p->order;
    const uint32_t n = order->n;
    for (uint32_t t = 0; t <= order->period; t++)
        p->first[t] = n;
    for (uint32_t i = 0; i < n; i++)
        if (order->share[i] > 0) add_next(p, i, 1);
    for (uint32_t t = 1; t <= order->period; t++) {
        for (uint32_t i = p->first[t], next; i < n; i = next) {
            next = p->next[i];
            add_next(p, i, t);
        }
        const uint32_t source = (uint32_t)(pop(p) & 0xffff);
        const uint64_t down = (uint64_t)order->share[source] * (t - 1) / order->period;
        order->slots[t - 1] = (uint16_t)(source << 1 | (p->had[source] != down));
        p->had[source]++;
        add_next(p, source, t + 1);
    }
}

static iter_status make_slots(iter__mix_order *order, iter_error *err) {
    uint64_t n_used = 0;
    for (uint32_t i = 0; i < order->n; i++)
        n_used += order->share[i] > 0;
    if (n_used == 1) { /* all slots are its own */
        uint16_t only = 0;
        while (order->share[only] == 0)
            only++;
        for (uint32_t t = 0; t < order->period; t++)
            order->slots[t] = (uint16_t)(only << 1);
        return ITER_OK;
    }
    planner p = {.order = order, .m = 2 * n_used - 2};
    p.had = iter__alloc(order->n, sizeof(*p.had));
    p.next = iter__alloc(order->n, sizeof(*p.next));
    p.first = iter__alloc((size_t)order->period + 1, sizeof(*p.first));
    p.heap = iter__alloc(order->n, sizeof(*p.heap));
    const bool has_memory = p.had && p.next && p.first && p.heap;
    if (has_memory) plan(&p);
    iter__free(p.had);
    iter__free(p.next);
    iter__free(p.first);
    iter__free(p.heap);
    return has_memory ? ITER_OK : iter__fail(err, ITER_ENOMEM, "out of memory");
}

/* ---- Shared ---------------------------------------------------------------------------------- */

iter_status iter__mix_order_make(const double *weights, uint32_t n, iter__mix_order *out,
                                 iter_error *err) {
    *out = (iter__mix_order){.n = n};
    out->share = iter__alloc(n, sizeof(*out->share));
    if (!out->share) return iter__fail(err, ITER_ENOMEM, "out of memory");
    find_shares(weights, out);
    out->slots = iter__alloc(out->period, sizeof(*out->slots));
    const iter_status status =
        out->slots ? make_slots(out, err) : iter__fail(err, ITER_ENOMEM, "out of memory");
    if (status < 0) iter__mix_order_free(out);
    return status;
}

void iter__mix_order_free(iter__mix_order *order) {
    iter__free(order->share);
    iter__free(order->slots);
    *order = (iter__mix_order){0};
}

void iter__mix_order_count(const iter__mix_order *order, uint64_t t, uint64_t *counts) {
    for (uint32_t i = 0; i < order->n; i++)
        counts[i] += t / order->period * order->share[i];
    for (uint32_t at = 0; at < t % order->period; at++)
        counts[order->slots[at] >> 1]++;
}
