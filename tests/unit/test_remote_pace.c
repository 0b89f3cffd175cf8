/*
 * pace.c against simulated servers, with a clock of its own: what a server grants is asked for,
 * with few refusals, whatever the rate, the latency and the number of requests in flight.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "iter/remote/pace.h"

TestSuite(remote_pace, .timeout = 60);

#define S      ((int64_t)1000000000)
#define FLIGHT 1024

/* A server that answers after `latency_ns`. It grants `most_a_s` requests a second, with a burst
 * of 10 ms, and refuses each `unlucky`-th whatever the rate. */
typedef struct server {
    int64_t latency_ns;
    double most_a_s; /* 0 = all */
    unsigned unlucky;
    uint32_t most_at_once; /* 0 = any number */
    double allowed;
    int64_t since_ns;
} server;

typedef struct sent {
    int64_t at_ns, answer_ns;
    bool refused;
} sent;

typedef struct run {
    iter__pace pace;
    server server;
    sent flight[FLIGHT];
    uint32_t n_active;
    int64_t now_ns;
    uint64_t granted, refused;
} run;

static bool grants(server *s, int64_t now_ns, uint32_t n_active) {
    if (s->unlucky && (unsigned)rand() % s->unlucky == 0) return false;
    if (s->most_at_once && n_active >= s->most_at_once) return false;
    if (s->most_a_s <= 0) return s->most_a_s == 0;
    s->allowed += (double)(now_ns - s->since_ns) * 1e-9 * s->most_a_s;
    s->since_ns = now_ns;
    const double burst = 1 + 0.01 * s->most_a_s;
    if (s->allowed > burst) s->allowed = burst;
    if (s->allowed < 1) return false;
    s->allowed -= 1;
    return true;
}

static void take_answers(run *r) {
    for (uint32_t i = 0; i < r->n_active;) {
        sent one = r->flight[i];
        if (one.answer_ns > r->now_ns) {
            i++;
            continue;
        }
        r->flight[i] = r->flight[--r->n_active];
        r->granted += !one.refused;
        r->refused += one.refused;
        iter__pace_answer(&r->pace, r->now_ns, one.at_ns, one.refused ? 0 : 100000, one.refused, 0);
    }
}

/* There is always more to read. A step is 0.25 ms; a refusal comes after 0.5 ms. */
static void go_on(run *r, int64_t ns) {
    const int64_t end_ns = r->now_ns + ns;
    r->granted = r->refused = 0;
    for (; r->now_ns < end_ns; r->now_ns += S / 4000) {
        int64_t again_ns;
        take_answers(r);
        if (rand() & 1) continue; /* the thread was late */
        while (iter__pace_send(&r->pace, r->now_ns, r->n_active, &again_ns)) {
            sent *one = &r->flight[r->n_active];
            one->at_ns = r->now_ns;
            one->refused = !grants(&r->server, r->now_ns, r->n_active);
            one->answer_ns = r->now_ns + (one->refused ? S / 2000 : r->server.latency_ns);
            r->n_active++;
        }
        cr_assert_gt(again_ns, r->now_ns);
    }
}

static run *begin(server s, uint32_t limit_most) {
    run *r = calloc(1, sizeof(*r));
    cr_assert(r);
    r->server = s;
    r->server.since_ns = r->now_ns = 1000 * S;
    iter__pace_start(&r->pace, limit_most);
    return r;
}

static double share_refused(const run *r) {
    return (double)r->refused / (double)(r->granted + r->refused);
}

Test(remote_pace, reads_what_is_granted) {
    /* At 20 a second the server's burst is one request: that much is lost by each that is early. */
    const double rates[] = {20, 94, 1042, 4167}, least[] = {0.7, 0.85, 0.9, 0.9};
    const int64_t latencies[] = {S / 1000, S / 100, S / 10};
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 3; j++) {
            run *r = begin((server){.most_a_s = rates[i], .latency_ns = latencies[j]}, 1000);
            go_on(r, 10 * S);
            cr_expect_gt((double)r->granted, 0.7 * 10 * rates[i], "%g/s, %ld ns: %lu", rates[i],
                         (long)latencies[j], (unsigned long)r->granted);
            go_on(r, 20 * S);
            cr_expect_gt((double)r->granted, least[i] * 20 * rates[i], "%g/s, %ld ns: %lu",
                         rates[i], (long)latencies[j], (unsigned long)r->granted);
            cr_expect_lt(share_refused(r), 0.2, "%g/s, %ld ns: %g refused", rates[i],
                         (long)latencies[j], share_refused(r));
            free(r);
        }
    }
}

Test(remote_pace, follows_a_limit_that_moves) {
    run *r = begin((server){.most_a_s = 2000, .latency_ns = S / 100}, 256);
    go_on(r, 5 * S);
    r->server.most_a_s = 100;
    go_on(r, 2 * S);
    go_on(r, 5 * S);
    cr_expect_gt((double)r->granted, 0.8 * 5 * 100);
    cr_expect_lt(share_refused(r), 0.25);
    r->server.most_a_s = 4000;
    go_on(r, 10 * S);
    go_on(r, 5 * S);
    cr_expect_gt((double)r->granted, 0.8 * 5 * 4000);
    free(r);
}

/* Refusals that come at random, as of a server with a bad machine, do not slow it down. */
Test(remote_pace, bears_refusals_at_random) {
    const unsigned unlucky[] = {50, 8, 4};
    const double least[] = {0.97, 0.6, 0.6};
    for (size_t i = 0; i < 3; i++) {
        run *r = begin((server){.latency_ns = S / 10, .unlucky = unlucky[i]}, 64);
        go_on(r, 3 * S);
        go_on(r, 60 * S);
        const double bound = 64 * 10 * 60 * (1 - 1.0 / unlucky[i]);
        cr_expect_gt((double)r->granted, least[i] * bound, "each %u-th: %lu of %g", unlucky[i],
                     (unsigned long)r->granted, bound);
        free(r);
    }
}

Test(remote_pace, a_server_that_counts_connections) {
    run *r = begin((server){.latency_ns = S / 50, .most_at_once = 8}, 64);
    go_on(r, 5 * S);
    go_on(r, 10 * S);
    cr_expect_gt((double)r->granted, 0.8 * 8 * 50 * 10);
    cr_expect_lt(share_refused(r), 0.3);
    free(r);
}

/* A server that refuses everything is asked about once a second, and is found again. */
Test(remote_pace, a_server_that_is_away) {
    run *r = begin((server){.most_a_s = -1, .latency_ns = S / 100}, 64);
    go_on(r, 10 * S);
    go_on(r, 10 * S);
    cr_expect_leq(r->refused, 15);
    cr_expect_geq(r->refused, 5);
    r->server.most_a_s = 0;
    go_on(r, 20 * S);
    go_on(r, S);
    cr_expect_gt((double)r->granted, 1000);
    free(r);
}

/* With 16 in flight at first, all 64 are in flight after two seconds at a tenth of a second. */
Test(remote_pace, grows_within_two_seconds) {
    run *r = begin((server){.latency_ns = S / 10}, 64);
    go_on(r, 2 * S);
    cr_expect_eq(r->pace.limit, 64);
    go_on(r, 10 * S);
    cr_expect_eq(r->granted, 64 * 10 * 10);
    free(r);
}

Test(remote_pace, waits_as_the_server_asks) {
    iter__pace pace;
    int64_t again_ns;
    iter__pace_start(&pace, 64);
    cr_assert(iter__pace_send(&pace, 5 * S, 0, &again_ns));
    iter__pace_answer(&pace, 6 * S, 5 * S, 0, true, 3 * S);
    cr_assert_not(iter__pace_send(&pace, 8 * S, 0, &again_ns));
    cr_assert_eq(again_ns, 9 * S);
    cr_assert(iter__pace_send(&pace, 9 * S, 0, &again_ns));
    iter__pace_answer(&pace, 10 * S, 9 * S, 0, true, INT64_MAX);
    cr_assert_not(iter__pace_send(&pace, 69 * S, 0, &again_ns));
    cr_assert_eq(again_ns, 70 * S, "a minute at most");
}

Test(remote_pace, clients_that_share_a_limit) {
    run *r = begin((server){.most_a_s = 1000, .latency_ns = S / 100}, 64);
    run *other = begin((server){0}, 64);
    go_on(r, 5 * S); /* one has it alone, then the other one comes */
    uint64_t n_one = 0, n_other = 0;
    other->now_ns = r->now_ns;
    other->server = r->server;
    for (int i = 0; i < 4000 * 60; i++) { /* both in each quarter of a millisecond */
        run *first = rand() & 1 ? r : other, *second = first == r ? other : r;
        go_on(first, S / 4000);
        second->server = first->server;
        go_on(second, S / 4000);
        first->server = second->server;
        n_one += i > 4000 * 40 ? r->granted : 0;
        n_other += i > 4000 * 40 ? other->granted : 0;
    }
    cr_expect_gt((double)(n_one + n_other), 0.85 * 20 * 1000);
    cr_expect_gt(n_one, n_other / 5, "%lu and %lu", (unsigned long)n_one, (unsigned long)n_other);
    cr_expect_gt(n_other, n_one / 5, "%lu and %lu", (unsigned long)n_one, (unsigned long)n_other);
    free(other);
    free(r);
}
