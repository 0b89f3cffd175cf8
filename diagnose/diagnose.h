/* diagnose.h - one watch; shared by the files that implement <iter/diagnose.h>. */
#ifndef DIAGNOSE_H
#define DIAGNOSE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include <iter/diagnose.h>

#include "diagnose/passive.h"
#include "diagnose/run_queue.h"
#include "diagnose/verdict.h"

/* What was counted up to some moment. */
typedef struct counters {
    uint64_t calls, batches, samples, next_ns, device_ns, last_ns;
    uint64_t cpu_ns; /* of the process */
} counters;

struct iter_diagnose {
    iter_loader *loader; /* NULL = another's */
    bool holds_loader;   /* it has a reference */
    char name[ITER_FILE_SHOWN];
    pid_t process; /* that it was made in; a child of fork() has no thread of it */
    int64_t workers;
    uint64_t batch;
    observer *observer;
    pthread_mutex_t lock; /* guards all below */
    bool began;           /* the first next() has ended: `mark` is set */
    uint64_t checked_ns;  /* when the loader's counters were last read */
    counters mark;        /* at the end of the last slice */
    passive_run run;
    /* Of another's loader: what it reported. */
    counters own;
    uint64_t asked_ns; /* begin of the call that runs; 0 = none */
    long thread;       /* the kernel's number of the thread that asked last */
    run_queue queue;   /* at the end of the last slice */
    bool has_proof;
    iter_diagnose_proof proof;
};

/** Closes a slice that is long enough for a reading, takes the evidence and makes the verdict. */
void diagnose_judge(iter_diagnose *d, evidence *out_evidence, verdict *out_verdict);

/** As iter_diagnose_start(), without a reference to the loader if `borrows`. */
iter_status diagnose_start(iter_loader *loader, const iter_diagnose_options *options, bool borrows,
                           iter_diagnose **out, iter_error *err);

#endif
