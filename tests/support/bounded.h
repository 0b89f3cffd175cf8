/*
 * bounded.h - runs a call in a thread of its own and sees that it returns in time. A call that hangs ends the program: its thread cannot be
 * got rid of.
 */
#ifndef TESTS_SUPPORT_BOUNDED_H
#define TESTS_SUPPORT_BOUNDED_H

#include <stdbool.h>

/* Runs call(arg); false and a message if it takes longer than `seconds`. */
bool bounded_call(void (*call)(void *arg), void *arg, double seconds, const char *what);

/* The same; a call that hangs ends the program with 1. */
void bounded(void (*call)(void *arg), void *arg, double seconds, const char *what);

double bounded_seconds(void); /* a monotonic clock */
void bounded_sleep(double seconds);

#endif
