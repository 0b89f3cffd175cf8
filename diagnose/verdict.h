/*
 * verdict.h - from evidence to a sentence: which term limits the run, by how much, what to change,
 * and how much that would gain.
 *
 * The model, in seconds a sample: a loader with workers and its consumer run side by side, so that
 *
 *     both >= max(loader, consumer, (CPU of loader + CPU of consumer) / cores, copies)
 *
 * where copies = bytes / bandwidth of the link to a GPU, and without workers both = loader +
 * consumer. The model predicts a change from the rates of loader and consumer alone with it. The
 * part of the present time that the model leaves unexplained shrinks as the two become less alike.
 *
 * Evidence is either measured arm by arm (iterbench), or that of a loop that was only watched
 * (evidence.passive). Rules that hold for one of them alone say so.
 */
#ifndef VERDICT_H
#define VERDICT_H

#include "diagnose/evidence.h"

typedef enum verdict_limit {
    LIMIT_NONE, /* no measurable bottleneck */
    LIMIT_CONSUMER,
    LIMIT_READ,
    LIMIT_DECODE,
    LIMIT_TRANSFORM,
    LIMIT_WORKER,  /* one of them is slow */
    LIMIT_WORKERS, /* there are too few */
    LIMIT_PREFETCH,
    LIMIT_LAYOUT,
    LIMIT_BATCH,
    LIMIT_CPU,
    LIMIT_COPY,  /* the link to the GPU */
    LIMIT_TURN,  /* the dataset lets in one worker at a time */
    LIMIT_LOADER /* passive: the loader, of whose inside nothing is known */
} verdict_limit;

/** What limits reading from servers. */
typedef enum verdict_remote {
    REMOTE_NONE,      /* nothing comes from servers, or their part is unknown */
    REMOTE_THROTTLED, /* they refuse some requests */
    REMOTE_REQUESTS,  /* each request's CPU time */
    REMOTE_LATENCY,   /* the time until an answer begins */
    REMOTE_BANDWIDTH  /* the time that its bytes take */
} verdict_remote;

#define VERDICT_CHANGES 3

typedef struct verdict_change {
    int of;                 /* evidence.changes[of] */
    double gain;            /* rate with it / rate without - 1 */
    measure_interval ratio; /* rate with it / rate without */
    double expected;        /* samples/s */
    verdict_limit next;     /* the limit after the change */
    char text[640];
    /* the change as options of the command line, "--workers 2"; passive: as a loader's, "workers=2"
     */
    char advice[256];
} verdict_change;

typedef struct verdict {
    verdict_limit limit;
    char stage[64]; /* where in the loader, or "" */
    double share;   /* of both's time that the limit costs; of a consumer's limit, its own part */
    bool high;      /* the interval excludes the second term */
    int n_changes;
    verdict_change changes[VERDICT_CHANGES]; /* best first */
    char says[768];                          /* the limit, in one or two sentences */
    char text[2048];                         /* `says`, its evidence, and how sure it is */
} verdict;

/** Bounds that follow from the evidence, samples/s; NaN = unknown. */
typedef struct verdict_bounds {
    double loader, consumer, cpu, copy, model; /* model: the rate that both should reach */
} verdict_bounds;
verdict_bounds verdict_bound(const evidence *e);

/** The limit as the arms alone show it, before changes are measured: it decides what to try. */
verdict_limit verdict_look(const evidence *e);

/** The whole verdict, from arms and measured changes. */
verdict verdict_make(const evidence *e);

/** The kind of a limit by reading, if files are at URLs. */
verdict_remote verdict_remote_of(const evidence *e);
/** Whether reading from a server is the largest part of the loader, or is refused and half of it.
 * One worker can have all requests in flight, so more are not missing; without any, the loader
 * stands still while the consumer works. */
bool verdict_waits_for_server(const evidence *e);

/** The rate that the model gives for a change. */
double verdict_expect(const evidence *e, const evidence_change *change, verdict_limit *out_next);

const char *verdict_limit_text(verdict_limit limit);

#endif
