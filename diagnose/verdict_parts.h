/*
 * verdict_parts.h - shared by verdict.c, which computes, and verdict_words.c, which writes the
 * sentences: the terms of the model, the parts of the loader, the thresholds of both.
 */
#ifndef VERDICT_PARTS_H
#define VERDICT_PARTS_H

#include "diagnose/verdict.h"

#define FED_ENOUGH  0.97 /* both / consumer, from which feeding costs nothing worth mentioning */
#define FED_MOSTLY  0.9  /* the same for a loader whose inside is unknown */
#define UNEXPLAINED 1.08 /* both's time / the model's, from which there must be another cause */
#define WORTH       0.03 /* gain from which a change is proposed */
#define SLOW_WORKER 1.8  /* seconds per chunk / the other workers' */
#define RUNNABLE    0.10 /* share of the time that a thread waits for a core */
#define MIN_ROUNDS  6
/* passive: part of the cores that the process must use itself if they are to be its limit */
#define VERDICT_OWN_CORES 0.7

typedef struct verdict_terms {
    double loader, consumer, cpu, copy; /* seconds a sample */
    bool overlap;
    double both;
} verdict_terms;

typedef struct verdict_parts {
    double read, decode, chain; /* seconds a sample that each adds */
} verdict_parts;

/* A worker compared with the mean of the others. */
typedef struct verdict_odd_worker {
    double times;  /* its time per chunk / theirs */
    double larger; /* its samples' bytes per chunk / theirs; 1 if they have none */
} verdict_odd_worker;

/** Another's loader: its consumer was watched, and nothing is known of its inside. */
bool verdict_is_opaque(const evidence *e);

verdict_terms verdict_terms_now(const evidence *e);
double verdict_rate_now(const evidence *e); /* of both; of the loader if nothing is fed */

const char *verdict_remote_text(verdict_remote remote);

verdict_parts verdict_parts_of(const evidence *e);
verdict_limit verdict_part_of_loader(const evidence *e); /* the largest */
/** The busiest stage of a kind; NULL if none was seen. */
const evidence_stage *verdict_busiest(const evidence *e, evidence_kind kind);

verdict_odd_worker verdict_beside_others(const evidence *e, int number);
/** The worker that takes longer over the same bytes than the others, or -1. */
int verdict_slow_worker(const evidence *e, double *out_times);
/** Whether its samples may be larger than the others'. */
bool verdict_may_be_unlike(const evidence *e, int worker);

/** The part of the time that feeding costs; with workers = 0, at most the loader's own time. */
double verdict_share_of_feeding(const verdict_terms *now, double both);
/** Whether the process itself uses most of the cores; of arms that take turns: true. */
bool verdict_uses_cores(const evidence *e);
bool verdict_crowded(const evidence *e, const verdict_terms *now, double both);
bool verdict_crowded_by_threads(const evidence *e);

/** The gain of the best change of that option, at least 0: by the medians; and by the lower ends of
 * the intervals, 0 if there are none. */
double verdict_gain_by(const evidence *e, const char *option);
double verdict_sure_gain_by(const evidence *e, const char *option);
/** The rate with the change / the rate now, by the model, with the ends of the measured
 * intervals. */
measure_interval verdict_ratio_of(const evidence *e, const evidence_change *change);

/** Writes v->says, v->text and the text of every change. The rest of `v` must be set. */
void verdict_say(const evidence *e, verdict *v);

#endif
