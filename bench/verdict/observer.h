/*
 * observer.h - looks, 500 times a second, at which stage each worker of a loader is in, and counts
 * how long threads were ready to run and had no core.
 */
#ifndef OBSERVER_H
#define OBSERVER_H

#include <iter/loader.h>

#include "bench/verdict/evidence.h"

typedef struct observer observer;

/** Starts the thread that looks; it rests until observer_on(). The loader outlives it. Errors:
 * ENOMEM. */
iter_status observer_start(iter_loader *loader, observer **out, iter_error *err);

/** Begins and ends a stretch of time that counts. One caller. */
void observer_on(observer *o);
void observer_off(observer *o);

/** Writes stages, workers and the consumer's part of `out` as shares of the time that counted. */
void observer_read(observer *o, evidence *out);

/** Stops the thread. NULL is ignored. */
void observer_stop(observer *o);

#endif
