/*
 * pace.h - how fast requests are sent: how many are in flight, and how many a second.
 *
 * The number in flight grows by half while that brings more bytes a second. The rate is free until
 * a server refuses requests (429, 503). From then on it follows what the server grants: it shrinks
 * to the rate of what was granted, and grows step by step while few are refused.
 *
 * A state without locks, clocks or memory of its own: the caller passes the time.
 */
#ifndef ITER_REMOTE_PACE_H
#define ITER_REMOTE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Requests that were sent one after the other, and what became of them. */
typedef struct iter__pace_group {
    int64_t begin_ns, end_ns; /* end_ns 0 = more are sent */
    uint32_t n_sent, n_refused, n_answered;
    bool is_held; /* the rate held one back */
} iter__pace_group;

typedef struct iter__pace {
    uint32_t limit, limit_most; /* requests in flight, now and ever */
    double rate;                /* requests a second; 0 = free */
    int64_t next_ns;            /* when the next one may be sent, by the rate */
    int64_t not_before_ns;      /* as a server asked for (Retry-After) */

    iter__pace_group sending, sent; /* sent.n_sent 0 = none */
    uint32_t n_clean;               /* groups since the rate shrank */
    double tolerated;               /* the share of refusals that does not shrink the rate */
    double rate_before;             /* it shrank from here, ... */
    double share_before;            /* ... because of this share of refusals; 0 = it did not */

    /* Since the number in flight was looked at: */
    int64_t looked_ns; /* 0 = never */
    uint32_t n_answers;
    uint64_t bytes;
    bool is_full;      /* `limit` requests were in flight */
    double best_bytes; /* a second, before that number grew last */
    uint32_t n_flat;   /* looks since then */
} iter__pace;

void iter__pace_start(iter__pace *pace, uint32_t limit_most);

/* Whether a request may be sent while n_active are in flight. If true, it counts as sent. Else
 * *out_ns is when to ask again; INT64_MAX = after an answer. */
bool iter__pace_send(iter__pace *pace, int64_t now_ns, uint32_t n_active, int64_t *out_ns);

/* Takes the end of a request that was sent at sent_ns, after `bytes`. refused: 429 or 503. wait_ns:
 * how long the server then asked to wait, or 0. */
void iter__pace_answer(iter__pace *pace, int64_t now_ns, int64_t sent_ns, uint64_t bytes,
                       bool refused, int64_t wait_ns);

#endif
