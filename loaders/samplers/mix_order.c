/*
 * mix_order.c - see mix_order.h.
 *
 * Which sources are rounded up at slot T. A source with share w has had k = floor(w T) draws for
 * sure; b is 1 if it has had one more. The b of all sources add up to R = T - sum of k. An order
 * exists on both sides of T if no stretch of slots next to T has to hold more draws than slots:
 *
 *     after T    for any L, the sources whose next draw need not come within L slots have at most
 *                R(T + L) of the b, where R(t) is the sum of all fractions of w t
 *     before T   for any L, of the sources whose draw k + 1 could come more than L slots ago, all
 *                but at most R'(T - L) have b = 1, where R'(t) is the sum of 1 - fraction
 *
 * R and R' are whole numbers, and at least the sum over those sources alone, which grows with L; so
 * they are bounded from below without looking at each L. Sources in the order of their limits, and
 * in the order of their ages, form two chains of sets, each of which needs a number of b. b =
 * fraction fulfills all of it, and since chains are unimodular, so do whole numbers. A greedy
 * choice finds them: go through the sources from the oldest, and whenever a set lacks one, take the
 * one of it with the nearest limit; then the same along the limits.
 */
#include "loaders/samplers/mix_order.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/slot_set.h"

#define PERIOD_MAX  (1u << 20)
#define TOTAL       ((uint64_t)1 << 48)
#define BLOCK_LEAST 8192u
#define BLOCK_MOST  (1u << 20)
#define NONE        UINT32_MAX

__extension__ typedef unsigned __int128 uint128;

/* A source that may be rounded up at a boundary. */
typedef struct edge {
    uint64_t fraction; /* of w T, times total */
    uint64_t limit;    /* slots after the boundary in which its next draw must come */
    uint64_t age;      /* slots before the boundary in which it could have come; 0 = none */
    uint32_t source;
    uint32_t by_limit; /* its place in that order */
    bool is_up;
} edge;

/* Where a source is in its block: draw k must come by slot (k total - fraction) / share, rounded
 * up, and may come after the slot where draw k - 1 must; both go on by additions. */
typedef struct track {
    uint64_t whole, rest;     /* of the limit: its whole part, and the rest, of `share` */
    uint64_t step, step_rest; /* from one limit to the next */
    uint64_t from;            /* slot from which the draw may come */
    uint32_t left;            /* draws in this block */
} track;

/* Memory to plan a block with. */
struct iter__mix_plan {
    edge *edges;      /* [n] by limit */
    uint32_t *by_age; /* [n] places in edges */
    uint64_t *heap;   /* [n] the key that comes first on top */
    uint32_t n_heap;
    uint8_t *up[2];  /* [n] rounded up at the block's ends */
    uint64_t up_end; /* slot of up[1] */
    bool has_end;    /* up[1] is made */
    track *tracks;   /* [n] */
    uint32_t *had;   /* [n] draws in the block so far */
    uint32_t *next;  /* [n] in the same list */
    /* lists of sources: [length + 2] whose draw may come from a slot on; [length + 1] whose draw
     * may come, by the slot in which it must */
    uint32_t *waiting, *listed;
    iter__slot_set due; /* slots whose `listed` is not empty */
};

/* ---- Heap ------------------------------------------------------------------------------------ */

static void push(iter__mix_plan *p, uint64_t key) {
    uint32_t at = p->n_heap++;
    for (; at > 0 && p->heap[(at - 1) / 2] > key; at = (at - 1) / 2)
        p->heap[at] = p->heap[(at - 1) / 2];
    p->heap[at] = key;
}

static uint64_t pop(iter__mix_plan *p) {
    assert(p->n_heap > 0);
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

/* ---- Boundaries ------------------------------------------------------------------------------ */

static uint64_t whole_of(const iter__mix_order *order, uint32_t s, uint64_t t,
                         uint64_t *out_fraction) {
    const uint128 product = (uint128)order->share[s] * t;
    if (out_fraction) *out_fraction = (uint64_t)(product % order->total);
    return (uint64_t)(product / order->total);
}

static uint64_t divide_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

static int compare_limits(const void *a, const void *b) {
    const edge *x = a, *y = b;
    if (x->limit != y->limit) return x->limit < y->limit ? -1 : 1;
    return x->source < y->source ? -1 : 1;
}

/* Sorts places by age, the oldest first; equal ages in any order: they are looked at together. */
static void sort_by_age(iter__mix_plan *p, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        p->by_age[i] = i;
    for (uint32_t root = n / 2; root-- > 0;) /* a heap whose top is the youngest */
        for (uint32_t at = root, child; (child = 2 * at + 1) < n; at = child) {
            uint32_t *a = p->by_age;
            child += child + 1 < n && p->edges[a[child + 1]].age < p->edges[a[child]].age;
            if (p->edges[a[at]].age <= p->edges[a[child]].age) break;
            const uint32_t swap = a[at];
            a[at] = a[child];
            a[child] = swap;
        }
    for (uint32_t left = n; left-- > 1;) {
        uint32_t *a = p->by_age, swap = a[0];
        a[0] = a[left];
        a[left] = swap;
        for (uint32_t at = 0, child; (child = 2 * at + 1) < left; at = child) {
            child += child + 1 < left && p->edges[a[child + 1]].age < p->edges[a[child]].age;
            if (p->edges[a[at]].age <= p->edges[a[child]].age) break;
            swap = a[at];
            a[at] = a[child];
            a[child] = swap;
        }
    }
}

/* What the slots before the boundary need: along ages, sets of the oldest. Returns how many are
 * up. */
static uint32_t round_up_old(const iter__mix_order *order, uint32_t n) {
    iter__mix_plan *p = order->plan;
    uint64_t sum = 0, shares = 0; /* of 1 - fraction, and of shares, over the set */
    uint32_t n_up = 0;
    p->n_heap = 0;
    for (uint32_t i = 0; i < n && p->edges[p->by_age[i]].age > 0;) {
        const uint64_t age = p->edges[p->by_age[i]].age;
        for (; i < n && p->edges[p->by_age[i]].age == age; i++) {
            const edge *e = &p->edges[p->by_age[i]];
            sum += order->total - e->fraction;
            shares += order->share[e->source];
            push(p, e->by_limit);
        }
        const uint64_t since = i < n ? p->edges[p->by_age[i]].age + 1 : 1;
        const uint64_t may_lack =
            (uint64_t)(((uint128)shares * since + sum + order->total - 1) / order->total);
        while (n_up + may_lack < i && p->n_heap > 0) {
            p->edges[pop(p)].is_up = true;
            n_up++;
        }
    }
    return n_up;
}

/* What the slots after it need: along limits, sets of those that must come first. Then as many more
 * as there must be. */
static void round_up_due(const iter__mix_order *order, uint32_t n, uint32_t n_up, uint64_t due) {
    iter__mix_plan *p = order->plan;
    uint64_t sum = 0, shares = 0; /* over the sources that are not in the set */
    uint32_t n_set = 0, down = 0; /* up in the set; the first place that may be down */
    for (uint32_t i = 0; i < n; i++) {
        sum += p->edges[i].fraction;
        shares += order->share[p->edges[i].source];
    }
    for (uint32_t i = 0; i < n;) {
        const uint64_t limit = p->edges[i].limit;
        for (; i < n && p->edges[i].limit == limit; i++) {
            sum -= p->edges[i].fraction;
            shares -= order->share[p->edges[i].source];
            n_set += p->edges[i].is_up;
        }
        const uint64_t may_be_up =
            (uint64_t)(((uint128)shares * limit + sum + order->total - 1) / order->total);
        for (; n_set + may_be_up < due && down < i; down++) {
            if (p->edges[down].is_up) continue;
            p->edges[down].is_up = true;
            n_set++;
            n_up++;
        }
    }
    for (down = 0; n_up < due && down < n; down++) {
        n_up += !p->edges[down].is_up;
        p->edges[down].is_up = true;
    }
}

/* Sets up[n]: which sources are rounded up at slot t. */
static void round_at(const iter__mix_order *order, uint64_t t, uint8_t *up) {
    iter__mix_plan *p = order->plan;
    uint64_t left = t;
    uint32_t n = 0;
    memset(up, 0, order->n);
    for (uint32_t s = 0; s < order->n; s++) {
        edge e = {.source = s};
        left -= whole_of(order, s, t, &e.fraction);
        if (e.fraction == 0) continue;
        e.limit = divide_up(order->total - e.fraction, order->share[s]);
        e.age = divide_up(e.fraction, order->share[s]) - 1;
        p->edges[n++] = e;
    }
    if (left == 0) return;
    qsort(p->edges, n, sizeof(p->edges[0]), compare_limits);
    for (uint32_t i = 0; i < n; i++)
        p->edges[i].by_limit = i;
    sort_by_age(p, n);
    round_up_due(order, n, round_up_old(order, n), left);
    for (uint32_t i = 0; i < n; i++)
        up[p->edges[i].source] = p->edges[i].is_up;
}

/* ---- One block ------------------------------------------------------------------------------- */

/* Lets a source's next draw wait until it may come, from slot `now` on, or lists it by its limit.
 * Slots count from 1. */
static void add_next(iter__mix_plan *p, uint32_t length, uint32_t s, uint32_t now) {
    track *at = &p->tracks[s];
    if (at->left == 0) return;
    if (at->from > now) {
        p->next[s] = p->waiting[at->from];
        p->waiting[at->from] = s;
        return;
    }
    const uint64_t limit = at->whole + (at->rest > 0);
    const uint32_t by = limit < length ? (uint32_t)limit : length;
    if (p->listed[by] == NONE) iter__slot_set_add(&p->due, by);
    p->next[s] = p->listed[by];
    p->listed[by] = s;
}

/* Goes on to the draw after this one. */
static void step(track *at, uint64_t share) {
    at->left--;
    at->from = at->whole + 1;
    at->whole += at->step;
    at->rest += at->step_rest;
    if (at->rest < share) return;
    at->rest -= share;
    at->whole++;
}

static void begin_track(const iter__mix_order *order, uint32_t s, uint64_t start, track *out) {
    const iter__mix_plan *p = order->plan;
    const uint64_t share = order->share[s];
    uint64_t fraction;
    const uint64_t low = whole_of(order, s, start, &fraction);
    const uint64_t high = whole_of(order, s, start + order->length, NULL);
    order->before[s] = low + p->up[0][s];
    *out = (track){.left = (uint32_t)(high + p->up[1][s] - order->before[s]), .from = 1};
    if (share == 0) return;
    /* draw k counted from floor(w T), k = 1 or 2, must come by (k total - fraction) / share */
    const uint64_t to_go = (1 + (uint64_t)p->up[0][s]) * order->total - fraction;
    out->whole = to_go / share;
    out->rest = to_go % share;
    out->step = order->total / share;
    out->step_rest = order->total % share;
    if (p->up[0][s]) out->from = (order->total - fraction) / share + 1;
}

static void plan_block(iter__mix_order *order, uint64_t start) {
    iter__mix_plan *p = order->plan;
    const uint32_t length = order->length;
    memset(p->waiting, 0xff, (length + 2) * sizeof(*p->waiting));
    memset(p->listed, 0xff, (length + 1) * sizeof(*p->listed));
    for (uint32_t s = 0; s < order->n; s++) {
        begin_track(order, s, start, &p->tracks[s]);
        p->had[s] = 0;
        add_next(p, length, s, 1);
    }
    for (uint32_t t = 1; t <= length; t++) {
        for (uint32_t s = p->waiting[t], next; s != NONE; s = next) {
            next = p->next[s];
            add_next(p, length, s, t);
        }
        const uint32_t by = iter__slot_set_next(&p->due, t), s = p->listed[by];
        assert(by != ITER_SLOT_NONE);
        p->listed[by] = p->next[s];
        if (p->listed[by] == NONE) iter__slot_set_remove(&p->due, by);
        order->source[t - 1] = (uint16_t)s;
        order->rank[t - 1] = p->had[s]++;
        step(&p->tracks[s], order->share[s]);
        add_next(p, length, s, t + 1);
    }
}

void iter__mix_order_go(iter__mix_order *order, uint64_t t) {
    iter__mix_plan *p = order->plan;
    const uint64_t block = t / order->length;
    if (order->is_planned && order->block == block) return;
    if (order->is_planned && order->repeats) {
        for (uint32_t s = 0; s < order->n; s++)
            order->before[s] = block * order->share[s];
        order->block = block;
        return;
    }
    const uint64_t start = block * order->length, end = start + order->length;
    if (p->has_end && p->up_end == start) {
        uint8_t *swap = p->up[0];
        p->up[0] = p->up[1];
        p->up[1] = swap;
    } else {
        round_at(order, start, p->up[0]);
    }
    round_at(order, end, p->up[1]);
    p->up_end = end;
    p->has_end = true;
    plan_block(order, start);
    order->block = block;
    order->is_planned = true;
}

void iter__mix_order_count(iter__mix_order *order, uint64_t t, uint64_t *counts) {
    iter__mix_order_go(order, t);
    for (uint32_t s = 0; s < order->n; s++)
        counts[s] += order->before[s];
    for (uint64_t at = 0; at < t - order->block * order->length; at++)
        counts[order->source[at]]++;
}

/* ---- Shares ---------------------------------------------------------------------------------- */

/* Whether a period of `period` draws has every weight in whole draws. */
static bool is_exact(const double *weights, uint32_t n, double sum, uint32_t period) {
    for (uint32_t i = 0; i < n; i++) {
        const double share = weights[i] / sum * period, whole = round(share);
        if (fabs(share - whole) > 1e-12 * period) return false;
    }
    return true;
}

static void find_shares(const double *weights, iter__mix_order *order) {
    double sum = 0;
    uint32_t n_used = 0, largest = 0, period;
    for (uint32_t i = 0; i < order->n; i++) {
        sum += weights[i];
        n_used += weights[i] > 0;
        if (weights[i] > weights[largest]) largest = i;
    }
    for (period = n_used; period <= PERIOD_MAX; period++)
        if (is_exact(weights, order->n, sum, period)) break;
    order->repeats = period <= PERIOD_MAX;
    order->total = order->repeats ? period : TOTAL;
    const uint64_t least = order->repeats ? 1 : order->total / BLOCK_MOST;
    uint64_t left = order->total, smallest = order->total;
    for (uint32_t i = 0; i < order->n; i++) {
        const uint64_t share = (uint64_t)round(weights[i] / sum * (double)order->total);
        order->share[i] = share < least && weights[i] > 0 ? least : share;
        left -= order->share[i];
        if (weights[i] > 0 && order->share[i] < smallest) smallest = order->share[i];
    }
    order->share[largest] += left; /* what rounding left or took */
    /* A block must have a whole draw of each source, else its ends could contradict each other. */
    uint32_t length = BLOCK_LEAST;
    while (length < 4 * order->n || length < divide_up(order->total, smallest))
        length *= 2;
    order->length = order->repeats ? period : length;
}

/* ---- Make and free --------------------------------------------------------------------------- */

static bool make_plan(iter__mix_order *order) {
    const size_t n = order->n, length = order->length;
    iter__mix_plan *p = order->plan = iter__alloc(1, sizeof(*p));
    if (!p) return false;
    p->edges = iter__alloc(n, sizeof(*p->edges));
    p->by_age = iter__alloc(n, sizeof(*p->by_age));
    p->heap = iter__alloc(n, sizeof(*p->heap));
    p->up[0] = iter__alloc(n, 1);
    p->up[1] = iter__alloc(n, 1);
    p->tracks = iter__alloc(n, sizeof(*p->tracks));
    p->had = iter__alloc(n, sizeof(*p->had));
    p->next = iter__alloc(n, sizeof(*p->next));
    p->waiting = iter__alloc(length + 2, sizeof(*p->waiting));
    p->listed = iter__alloc(length + 1, sizeof(*p->listed));
    const bool has_set = iter__slot_set_make(&p->due, (uint32_t)length + 1);
    return p->edges && p->by_age && p->heap && p->up[0] && p->up[1] && p->tracks && p->had &&
           p->next && p->waiting && p->listed && has_set;
}

iter_status iter__mix_order_make(const double *weights, uint32_t n, iter__mix_order *out,
                                 iter_error *err) {
    *out = (iter__mix_order){.n = n};
    out->share = iter__alloc(n, sizeof(*out->share));
    if (out->share) {
        find_shares(weights, out);
        out->source = iter__alloc(out->length, sizeof(*out->source));
        out->rank = iter__alloc(out->length, sizeof(*out->rank));
        out->before = iter__alloc(n, sizeof(*out->before));
        if (out->source && out->rank && out->before && make_plan(out)) return ITER_OK;
    }
    iter__mix_order_free(out);
    return iter__fail(err, ITER_ENOMEM, "out of memory");
}

void iter__mix_order_free(iter__mix_order *order) {
    iter__mix_plan *p = order->plan;
    if (p) {
        iter__free(p->edges);
        iter__free(p->by_age);
        iter__free(p->heap);
        iter__free(p->up[0]);
        iter__free(p->up[1]);
        iter__free(p->tracks);
        iter__free(p->had);
        iter__free(p->next);
        iter__free(p->waiting);
        iter__free(p->listed);
        iter__slot_set_free(&p->due);
        iter__free(p);
    }
    iter__free(order->share);
    iter__free(order->source);
    iter__free(order->rank);
    iter__free(order->before);
    *order = (iter__mix_order){0};
}
