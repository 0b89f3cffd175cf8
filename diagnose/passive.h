/*
 * passive.h - from slices of a loop that was only watched to evidence.
 *
 * A slice goes from the end of one next() to the end of a later one, about half a second. Its
 * counters are exact; how busy the loader was is sampled.
 */
#ifndef PASSIVE_H
#define PASSIVE_H

#include "diagnose/evidence.h"
#include "diagnose/observer.h"

typedef struct passive_slice {
    double wall_s, next_s, samples, batches;
    double device_s; /* of next_s at most: the loader waited for a slot that a GPU reads */
    double cpu_s;    /* of the whole process */
    observer_stretch seen;
} passive_slice;

#define PASSIVE_SLICES  128
#define PASSIVE_SLICE_S 0.5

/** Slices in order of time. If there are too many, each two neighbours become one. */
typedef struct passive_run {
    int n;
    double slice_s; /* how long a slice is at least */
    passive_slice slices[PASSIVE_SLICES];
} passive_run;

void passive_add(passive_run *run, const passive_slice *slice);

/** What the loop is, beside its slices. */
typedef struct passive_facts {
    bool is_loader;  /* a loader of ours, whose inside was observed */
    int64_t workers; /* -1 = not known */
    int cores;
    uint64_t prefetch;
    uint64_t batch; /* samples; 0 = the mean */
    uint64_t epoch; /* samples of an epoch for this rank; ITER_UNKNOWN = it does not end */
    bool in_order;
    double set_bytes;  /* size of the dataset's files if they could be kept in memory; 0 = not */
    bool takes_device; /* batches go to a GPU */
    char source[16];   /* where bytes come from: "ring" */
} passive_facts;

/** Sums of all slices. */
passive_slice passive_sum(const passive_run *run);

/**
 * Writes rates, ratios and the consumer's part of `out`, and the changes that the model can guess.
 * Stages and workers must be there already (observer_read()), if the loader is ours.
 */
void passive_evidence(const passive_run *run, const passive_facts *facts, evidence *out);

/** guesses.c: writes e->changes[] from the model alone; no interval, since none was tried. */
void passive_guess(const passive_run *run, const passive_facts *facts, evidence *e);

/** Part of the time that the loader was at work, or could do no more: 0.005 to 1. */
double passive_load(const passive_slice *slice, const passive_facts *facts);

#endif
