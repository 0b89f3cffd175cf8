/* run_queue.h - how long threads of this process were ready to run but had no core. */
#ifndef RUN_QUEUE_H
#define RUN_QUEUE_H

#include <stdint.h>

#define RUN_QUEUE_THREADS 256

typedef struct run_queue {
    int n;
    struct {
        long id;
        uint64_t ns;
    } threads[RUN_QUEUE_THREADS];
} run_queue;

/** Reads the waits so far of the consumer's threads: all except a loader's, a ring's and an
 * observer. */
void run_queue_read(run_queue *out);

/** Seconds that the most delayed of the threads in both readings waited in between. `own`: thread
 * whose wait goes to *out_own; NULL = not asked for. */
double run_queue_between(const run_queue *before, const run_queue *now, long own, double *out_own);

#endif
