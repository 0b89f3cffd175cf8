/*
 * ranks_verdict.h - what limits a job of several ranks that take each step together: a slow rank,
 * the sums, or what all of them do.
 *
 * Times are seconds a step, means over the steps that were measured. A rank's own time is loading
 * and computing; then it waits for the slowest rank of that step, and all of them sum.
 */
#ifndef RANKS_VERDICT_H
#define RANKS_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#define RANKS_STAGE 48

/** One rank. */
typedef struct ranks_part {
    double load, compute, wait;
    double no_core; /* share of the time in which its threads were ready, but had no core */
    char stage[RANKS_STAGE]; /* where its loader's threads spend most; "" = unknown */
    double stage_share;      /* of one thread's time */
    char host[64];
    uint64_t n_slowest; /* steps in which the others waited for it */
} ranks_part;

typedef struct ranks_evidence {
    uint32_t n;
    bool trains;             /* false: each rank only loads */
    const ranks_part *parts; /* [n] */
    double slowest;          /* own time of each step's slowest rank */
    double sums, step;
} ranks_evidence;

typedef enum ranks_limit {
    RANKS_STRAGGLER,     /* one rank is slower than the others */
    RANKS_COMMUNICATION, /* the sums */
    RANKS_UNEVEN,        /* steps take unequal times, now on this rank and now on that */
    RANKS_LOADING,       /* all ranks wait for batches */
    RANKS_COMPUTING
} ranks_limit;

typedef struct ranks_verdict {
    ranks_limit limit;
    double gain; /* expected rate without the limit / present rate - 1; 0 for computing */
    uint32_t slowest, fastest, median; /* ranks, by their own time */
    double own_slowest, own_fastest, own_median;
    double uneven;        /* slowest of each step, beyond the slowest rank */
    bool by_loading;      /* of a straggler: it loads longer, rather than computes longer */
    double waiting_share; /* of all ranks' time */
    char text[512];
} ranks_verdict;

/** n is at least 1. */
ranks_verdict ranks_verdict_make(const ranks_evidence *e);

/** "straggler", "communication", "uneven", "loading", "computing". */
const char *ranks_limit_text(ranks_limit limit);

#endif
