/*
 * observer.h - reads, 500 times a second, the stage of each worker of a loader, and counts how long
 * threads were ready to run but had no core.
 */
#ifndef OBSERVER_H
#define OBSERVER_H

#include <iter/loader.h>

#include "bench/verdict/evidence.h"

typedef struct observer observer;

/** Starts the thread that looks; it rests until observer_on(). The loader must outlive it. Errors:
 * ENOMEM. */
iter_status observer_start(iter_loader *loader, observer **out, iter_error *err);

/** Begin and end a stretch of time that counts. Only one thread may call them. */
void observer_on(observer *o);
void observer_off(observer *o);

/** Writes stages, workers and the consumer's part of `out` as shares of the time that counted. */
void observer_read(observer *o, evidence *out);

/** Stops the thread. NULL is ignored. */
void observer_stop(observer *o);

#endif
