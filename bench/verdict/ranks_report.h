/* ranks_report.h - a job of several ranks, measured: for a terminal, and as JSON. */
#ifndef RANKS_REPORT_H
#define RANKS_REPORT_H

#include <stdio.h>

#include "bench/common/bench_options.h"
#include "bench/verdict/ranks_verdict.h"

typedef struct ranks_report {
    const bench_options *options;
    ranks_evidence e; /* of all ranks */
    ranks_verdict v;
    double samples_per_s; /* all ranks together */
    uint64_t n_steps, n_samples, n_failures;
    uint32_t micro_batches; /* 0 = nothing is trained */
    const char *launcher, *backend;
    char failure[288]; /* the first failed sample; "" = none */
    bool interrupted;
} ranks_report;

/** Prints six lines; if the run is verbose, also a row for each rank. */
void ranks_report_print(const ranks_report *r, FILE *out);
/** docs/json.md has every key. */
void ranks_report_json(const ranks_report *r, FILE *out);

#endif
