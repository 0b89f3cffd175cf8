/*
 * diagnosis.h - one run taken apart: arms, evidence, changes that were tried, verdict, proof.
 */
#ifndef DIAGNOSIS_H
#define DIAGNOSIS_H

#include "bench/common/bench_cache.h"
#include "bench/measure/feed.h"
#include "bench/measure/timeline.h"
#include "bench/verdict/observer.h"
#include "bench/verdict/verdict.h"

/** What a change would be: the run's options, otherwise. */
typedef struct probe {
    bench_options options;
    char *chain; /* of `options`, where it is another; owned */
    bool ndarray;
    char why_not[128];   /* it is not tried; "" = it is */
    bool moves_consumer; /* the consumer alone becomes another, too */
} probe;

typedef struct diagnosis {
    bool interrupted;         /* by ^C: no change was tried */
    bench_options asked, run; /* run: with what was planted, and the chain that the model wants */
    bool ndarray;
    bench_cache_proof
        cache;             /* before the run; where it was made cold, it is again for each slice */
    struct plant *planted; /* opaque: nothing that judges knows of it */
    iter_dataset *dataset; /* shared by all arms */
    bench_arrays arrays;   /* loaded when first needed */
    bool has_arrays;
    feed_trainer feed;
    bool has_feed;
    bench_options arm_options[EVIDENCE_ARMS];
    bench_arm arms[EVIDENCE_ARMS]; /* all but EVIDENCE_CONSUMER, which is the feed */
    bool is_open[EVIDENCE_ARMS];
    evidence_arm watched; /* BOTH, or LOADER where nothing is fed */
    observer *observer;
    iter_loader_stats stats; /* of the watched arm, at the end */
    gpu_link_rates link;     /* where batches go to a GPU */
    measure_rounds rounds;
    evidence e;
    probe probes[EVIDENCE_CHANGES]; /* of e.changes[] */
    timeline lives;                 /* of two batches, where a report wants them */
    verdict v;
    measure_interval proved; /* rate with the first change / rate without; NaN = not tried */
    bool has_proof;
} diagnosis;

/** Loads the whole set into arrays, once. Errors: as bench_arrays_load(). */
iter_status diagnosis_arrays(diagnosis *d, iter_error *err);

/* probe.c */
/** Chooses what may mend the run, tries each with loader (and consumer) alone, and writes
 * e.changes[]. What cannot be opened is left infeasible. */
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
/** What an arm sent to a GPU, bytes a second. */
double diagnosis_copied_bytes_per_s(const bench_arm *arm);

/* diagnosis_text.c */
/** Five lines; or every figure, if the run was asked to be verbose. */
void diagnosis_print(const diagnosis *d, FILE *out);

#endif
