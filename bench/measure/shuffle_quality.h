/*
 * shuffle_quality.h - how well one epoch was mixed, from the order in which it was delivered.
 */
#ifndef SHUFFLE_QUALITY_H
#define SHUFFLE_QUALITY_H

#include <iter/loader.h>

#define SHUFFLE_QUALITY_MAX 10000000u

/** One epoch's order: sample and class at each position. */
typedef struct shuffle_quality {
    uint64_t n;     /* positions of an epoch; 0 = not wanted */
    uint32_t epoch; /* the epoch that is collected */
    uint64_t seen;
    int32_t label;   /* field with the class, or -1 */
    uint32_t *index; /* [n]; UINT32_MAX = not seen */
    uint32_t *classes;
} shuffle_quality;

typedef struct shuffle_figures {
    double share;        /* the part of the epoch that was seen, from its start */
    double displacement; /* mean |sample - position| / n; 1/3 for a uniform permutation */
    double displacement_ideal;
    double adjacency; /* share of neighbours that are neighbours in the set, in either direction */
    double adjacency_ideal;
    /* mean length of runs of one class; NaN if there are no classes */
    double class_run, class_run_ideal;
} shuffle_figures;

/** Prepares to collect the current epoch of `loader`. Does nothing (n = 0) if its length is unknown
 * or beyond SHUFFLE_QUALITY_MAX. Errors: ENOMEM. */
iter_status shuffle_quality_open(shuffle_quality *out, iter_loader *loader, iter_error *err);
void shuffle_quality_close(shuffle_quality *quality);

/** Notes rows [0, n_rows) of a batch. */
void shuffle_quality_note(shuffle_quality *quality, const iter_batch *batch, uint32_t n_rows);

/** False if too little was seen for any figure. */
bool shuffle_quality_figures(const shuffle_quality *quality, shuffle_figures *out);

#endif
