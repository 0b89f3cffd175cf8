/*
 * diagnosis.h - the diagnosis of one run: arms, evidence, changes that were tried, verdict, proof.
 */
#ifndef DIAGNOSIS_H
#define DIAGNOSIS_H

#include "bench/common/bench_cache.h"
#include "bench/measure/feed.h"
#include "bench/measure/timeline.h"
#include "diagnose/observer.h"
#include "diagnose/verdict.h"

/** A change to try: the run's options with something different. */
typedef struct probe {
    bench_options options;
    char *chain, *data; /* of `options`, if they are different ones; owned */
    bool ndarray;
    char why_not[128];   /* reason why it is not tried; "" = it is tried */
    bool moves_consumer; /* it also changes the consumer alone */
} probe;

typedef struct diagnosis {
    bool interrupted;         /* by ^C: no change was tried */
    bench_options asked, run; /* run: with the plant and the chain that the model wants */
    bool ndarray;
    /* before the run; if it was made cold, it is made cold again for each slice */
    bench_cache_proof cache;
    struct plant *planted; /* opaque: code that judges does not know of it */
    iter_dataset *dataset; /* shared by all arms */
    bench_arrays arrays;   /* loaded when first needed */
    bool has_arrays;
    feed_trainer feed;
    bool has_feed;
    bench_options arm_options[EVIDENCE_ARMS];
    bench_arm arms[EVIDENCE_ARMS]; /* all but EVIDENCE_CONSUMER, which is the feed */
    bool is_open[EVIDENCE_ARMS];
    evidence_arm watched; /* BOTH, or LOADER if nothing is fed */
    observer *observer;
    iter_loader_stats stats; /* of the watched arm, at the end */
    gpu_link_rates link;     /* if batches go to a GPU */
    measure_rounds rounds;
    evidence e;
    probe probes[EVIDENCE_CHANGES]; /* of e.changes[] */
    timeline lives;                 /* of two batches, if a report wants them */
    verdict v;
    measure_interval proved; /* rate with the first change / rate without; NaN = not tried */
    bool has_proof;
} diagnosis;

/** Loads the whole set into arrays, once. Errors: those of bench_arrays_load(). */
iter_status diagnosis_arrays(diagnosis *d, iter_error *err);

/* probe.c */
/** Chooses changes that may improve the run, tries each with loader (and consumer) alone, and
 * writes e.changes[]. If a change cannot be opened, it stays infeasible. */
iter_status probe_changes(diagnosis *d, iter_error *err);
void probe_free(diagnosis *d);

/* diagnosis_json.c */
void diagnosis_json(const diagnosis *d, FILE *out);
/** "read", ..., and "trainer" or "consumer". */
const char *diagnosis_arm_name(const diagnosis *d, int arm);
/** Time of both / time of the consumer alone - 1. */
measure_interval diagnosis_cost(const diagnosis *d);
/** Share of the run in which the accelerator computes; NaN without a consumer. */
double diagnosis_utilisation(const diagnosis *d);
/** The loader's part of the CPU time of a sample. */
double diagnosis_loader_cpu_share(const diagnosis *d);
/** Bytes a second that an arm sent to a GPU. */
double diagnosis_copied_bytes_per_s(const bench_arm *arm);

/* diagnosis_text.c */
/** Prints five lines, or every figure if the run is verbose. */
void diagnosis_print(const diagnosis *d, FILE *out);

#endif
