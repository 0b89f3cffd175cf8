/*
 * pace.c - see pace.h.
 *
 * Requests are judged in groups, by when they were sent: a refusal comes sooner than an answer, so
 * a count of what arrives would be wrong after each change. If more than a tenth of a group was
 * refused, the rate becomes that of the others: it shrinks by the share that was refused, at most
 * to a quarter. Each group with fewer refusals adds a step, and each further one a longer step. A
 * step is a part of the rate's square root. So two clients that share a server's limit draw near
 * each other, as with additive steps, and a rate of thousands recovers within seconds.
 *
 * A server may refuse at random, however slowly it is asked. Then the share of refusals is the same
 * after the rate shrank. The rate goes back to what it was, and that share is tolerated for some
 * time.
 *
 * Source: Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance
 * in Computer Networks", 1989.
 */
#include "iter/remote/pace.h"

#ifdef ITER_HAVE_REMOTE

#include <math.h>

#include "iter/core/arith.h"

#define LIMIT_FIRST   16u
#define GAIN          1.05 /* more bytes a second, for which more requests in flight are worth it */
#define FLAT_MOST     8u   /* after so many looks at one number, it tries more again */
#define LOOK_LEAST    32u  /* answers */
#define LOOK_NS       100000000
#define GROUP_LEAST   32u /* requests */
#define GROUP_NS      100000000
#define GROUP_NS_MAX  1000000000
#define ALARM_NS      20000000 /* a group ends sooner if most of it is refused */
#define ALARM_REFUSED 16u
#define TOLERATED     0.1
#define TOLERATED_MAX 0.5
#define FORGETS       0.98 /* what remains of `tolerated` after a group */
#define STEP          0.25 /* of the rate's square root */
#define RATE_LEAST    1.0
#define BURST_NS      5000000 /* what a late caller may catch up */
#define WAIT_NS_MAX   ((int64_t)60 * 1000000000)

void iter__pace_start(iter__pace *pace, uint32_t limit_most) {
    *pace = (iter__pace){.limit = iter__min_u32(LIMIT_FIRST, limit_most),
                         .limit_most = limit_most,
                         .tolerated = TOLERATED};
}

/* ---- The rate -------------------------------------------------------------------------------- */

static void slow_down(iter__pace *pace, double share, double sent_s) {
    const bool again = pace->n_clean == 0 && pace->share_before > 0;
    pace->n_clean = 0;
    if (again && share < TOLERATED_MAX && share > 0.75 * pace->share_before) {
        pace->rate = pace->rate_before;
        pace->tolerated = fmin(TOLERATED_MAX, 1.25 * share);
        pace->share_before = 0;
        return;
    }
    pace->rate_before = pace->rate > 0 ? pace->rate : sent_s;
    pace->share_before = share;
    pace->rate = fmax(RATE_LEAST, sent_s * fmax(1 - share, 0.25));
}

/* A rate that held nothing back is not too low. */
static void speed_up(iter__pace *pace, bool is_held) {
    pace->n_clean++;
    pace->tolerated = fmax(TOLERATED, FORGETS * pace->tolerated);
    if (pace->rate > 0 && is_held) pace->rate += pace->n_clean * STEP * sqrt(pace->rate);
}

/* One refusal of few requests tells nothing. */
static bool is_slowed(const iter__pace *pace, double share, uint32_t n_refused) {
    return share > pace->tolerated && (n_refused > 1 || share > 0.5);
}

/* Judges the group that was sent. What has no answer yet counts as granted: a refusal would be here
 * by now. What is being sent began at the rate of before, so it is forgotten after a change. */
static void judge(iter__pace *pace, int64_t now_ns) {
    const iter__pace_group *g = &pace->sent;
    const double share = (double)g->n_refused / g->n_sent;
    const double seconds = (double)iter__max_i64(g->end_ns - g->begin_ns, 1) * 1e-9;
    const bool slower = is_slowed(pace, share, g->n_refused);
    if (slower)
        slow_down(pace, share, (double)g->n_sent / seconds);
    else
        speed_up(pace, g->is_held);
    pace->sent = (iter__pace_group){0};
    if (!slower) return;
    pace->sending = (iter__pace_group){0};
    pace->next_ns = now_ns;
}

/* Ends the group that is being sent, if it is large enough to be judged. */
static void end_group(iter__pace *pace, int64_t now_ns) {
    const iter__pace_group *g = &pace->sending;
    const int64_t ns = now_ns - g->begin_ns;
    const bool alarm =
        ns >= ALARM_NS && g->n_refused >= ALARM_REFUSED && 2 * g->n_refused > g->n_sent;
    const bool full = ns >= GROUP_NS && g->n_sent >= GROUP_LEAST;
    if (g->n_sent == 0 || (!alarm && !full && ns < GROUP_NS_MAX)) return;
    if (pace->sent.n_sent > 0) judge(pace, now_ns);
    if (pace->sending.n_sent == 0) return;
    pace->sent = pace->sending;
    pace->sent.end_ns = now_ns;
    pace->sending = (iter__pace_group){0};
    if (alarm) judge(pace, now_ns);
}

static void take_answer(iter__pace *pace, int64_t now_ns, int64_t sent_ns, bool refused) {
    iter__pace_group *g = &pace->sent;
    if (pace->sending.n_sent > 0 && sent_ns >= pace->sending.begin_ns) g = &pace->sending;
    if (g->n_sent == 0 || sent_ns < g->begin_ns) return;
    g->n_answered++;
    g->n_refused += refused;
    if (g == &pace->sent && g->n_answered >= g->n_sent) judge(pace, now_ns);
    end_group(pace, now_ns);
}

bool iter__pace_send(iter__pace *pace, int64_t now_ns, uint32_t n_active, int64_t *out_ns) {
    *out_ns = INT64_MAX;
    end_group(pace, now_ns);
    if (n_active >= pace->limit) {
        pace->is_full = true;
        return false;
    }
    int64_t at = pace->not_before_ns;
    if (pace->rate > 0) at = iter__max_i64(at, pace->next_ns);
    if (at > now_ns) {
        pace->sending.is_held = true;
        *out_ns = at;
        return false;
    }
    if (pace->rate > 0)
        pace->next_ns =
            iter__max_i64(pace->next_ns, now_ns - BURST_NS) + (int64_t)(1e9 / pace->rate);
    if (pace->sending.n_sent++ == 0) pace->sending.begin_ns = now_ns;
    return true;
}

/* ---- The number in flight -------------------------------------------------------------------- */

/* Only a number that was reached can be too low. */
static void look(iter__pace *pace, int64_t now_ns) {
    const int64_t ns = now_ns - pace->looked_ns;
    if (ns < LOOK_NS || pace->n_answers < iter__max_u32(LOOK_LEAST, 2 * pace->limit)) return;
    const double bytes_s = (double)pace->bytes / ((double)ns * 1e-9);
    if (pace->is_full && (bytes_s > pace->best_bytes * GAIN || ++pace->n_flat >= FLAT_MOST)) {
        pace->best_bytes = bytes_s;
        pace->limit = iter__min_u32(pace->limit_most, pace->limit + pace->limit / 2 + 1);
        pace->n_flat = 0;
    }
    pace->looked_ns = now_ns;
    pace->n_answers = 0;
    pace->bytes = 0;
    pace->is_full = false;
}

void iter__pace_answer(iter__pace *pace, int64_t now_ns, int64_t sent_ns, uint64_t bytes,
                       bool refused, int64_t wait_ns) {
    if (refused && wait_ns > 0)
        pace->not_before_ns =
            iter__max_i64(pace->not_before_ns, now_ns + iter__min_i64(wait_ns, WAIT_NS_MAX));
    take_answer(pace, now_ns, sent_ns, refused);
    if (refused) return;
    if (pace->looked_ns == 0) pace->looked_ns = sent_ns;
    pace->n_answers++;
    pace->bytes += bytes;
    look(pace, now_ns);
}

#endif
