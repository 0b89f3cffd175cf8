/*
 * verdict_runs.h - made-up evidence of runs, for tests of the verdict and its sentences.
 */
#ifndef VERDICT_RUNS_H
#define VERDICT_RUNS_H

#include <math.h>
#include <stdio.h>

#include "diagnose/verdict.h"

static inline measure_interval about(double rate, double spread) {
    return (measure_interval){rate, rate * (1 - spread), rate * (1 + spread), 9};
}

static inline void set(evidence *e, evidence_arm arm, double rate, double cpu) {
    e->has[arm] = true;
    e->rate[arm] = about(rate, 0.02);
    e->cpu[arm] = cpu;
}

/* Computes the ratios from the rates. */
static inline void relate(evidence *e) {
    const double loader = e->rate[EVIDENCE_LOADER].median, both = e->rate[EVIDENCE_BOTH].median;
    const double consumer = e->rate[EVIDENCE_CONSUMER].median;
    const measure_interval none = {NAN, NAN, NAN, 0};
    const double read = e->rate[EVIDENCE_READ].median, decode = e->rate[EVIDENCE_DECODE].median;
    const bool decodes = e->has[EVIDENCE_DECODE];
    e->decode_by_read = decodes && e->has[EVIDENCE_READ] ? about(decode / read, 0.03) : none;
    e->loader_by_decode = decodes ? about(loader / decode, 0.03) : none;
    e->loader_by_consumer = about(loader / consumer, 0.03);
    e->both_by_consumer = about(both / consumer, 0.02);
}

/* A loader with two workers and a consumer that sleeps; rates of read, decode, loader, consumer,
 * both. */
static inline evidence run_of(double read, double decode, double loader, double consumer,
                              double both) {
    evidence e = {.consumes = true,
                  .cores = 4,
                  .workers = 2,
                  .prefetch = 2,
                  .batch = 64,
                  .rounds = 9,
                  .steady = true,
                  .n_workers = 2,
                  .n_stages = 2};
    if (read > 0) set(&e, EVIDENCE_READ, read, 0);
    if (decode > 0) set(&e, EVIDENCE_DECODE, decode, 0);
    set(&e, EVIDENCE_LOADER, loader, 1 / loader);
    set(&e, EVIDENCE_CONSUMER, consumer, 0);
    set(&e, EVIDENCE_BOTH, both, 1 / loader);
    relate(&e);
    for (int i = 0; i < 2; i++)
        e.worker[i] = (evidence_worker){.chunks = 100, .busy_s = 0.001, .busy = 0.9};
    e.stages[0] = (evidence_stage){"decode", EVIDENCE_OF_DECODE, 0.4};
    e.stages[1] = (evidence_stage){"blur", EVIDENCE_OF_CHAIN, 0.5};
    return e;
}

static inline evidence_change *add_change(evidence *e, const char *option, double loader,
                                          double consumer) {
    evidence_change *c = &e->changes[e->n_changes++];
    *c = (evidence_change){.feasible = true,
                           .loader_ratio = loader,
                           .consumer_ratio = consumer,
                           .loader_low = 0.99 * loader,
                           .loader_high = 1.01 * loader,
                           .consumer_low = 0.99 * consumer,
                           .consumer_high = 1.01 * consumer,
                           .cpu_loader = e->cpu[EVIDENCE_LOADER],
                           .cpu_consumer = e->cpu[EVIDENCE_CONSUMER]};
    snprintf(c->option, sizeof(c->option), "%s", option);
    snprintf(c->from, sizeof(c->from), "this");
    snprintf(c->to, sizeof(c->to), "that");
    return c;
}

#endif
