/*
 * progress.h - one line on stderr that says what is being done and when it ends; only on a terminal.
 *
 *     arms (step 1 of 2)   3.2 of 10 s   4 rounds kept, 1 dropped
 */
#ifndef PROGRESS_H
#define PROGRESS_H

typedef struct progress {
    double began, shown; /* seconds */
    double least, most;  /* how long it takes; 0 = unknown */
    double measured;     /* of that, if it is not the time since it began; -1 = it is */
} progress;

/** Begins something that takes from `least_s` to `most_s` seconds; 0, 0 = nobody knows. */
progress progress_begin(double least_s, double most_s);

/** Shows where it is, at most ten times a second. `what` and the detail are one line together. */
void progress_show(progress *p, const char *what, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));

/** Takes the line away. */
void progress_end(progress *p);

#endif
