/*
 * progress.h - one line on stderr that shows what is running and when it ends; only on a terminal.
 *
 *     arms (step 1 of 2)   3.2 of 10 s   4 rounds kept, 1 dropped
 */
#ifndef PROGRESS_H
#define PROGRESS_H

typedef struct progress {
    double began, shown; /* seconds */
    double least, most;  /* expected duration; 0 = unknown */
    double measured;     /* seconds of it that are over; -1 = the time since it began */
} progress;

/** Begins something that takes from `least_s` to `most_s` seconds; 0, 0 = unknown. */
progress progress_begin(double least_s, double most_s);

/** Shows how far it is, at most ten times a second. `what` and the detail make one line. */
void progress_show(progress *p, const char *what, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));

/** Erases the line. */
void progress_end(progress *p);

#endif
