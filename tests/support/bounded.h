/*
 * bounded.h - runs a call in its own thread and checks that it returns in time. If a call hangs,
 * the program ends: there is no way to get rid of its thread.
 */
#ifndef TESTS_SUPPORT_BOUNDED_H
#define TESTS_SUPPORT_BOUNDED_H

#include <stdbool.h>

/* Runs call(arg). Returns false and prints a message if it takes longer than `seconds`. */
bool bounded_call(void (*call)(void *arg), void *arg, double seconds, const char *what);

/* The same, but ends the program with 1 if the call hangs. */
void bounded(void (*call)(void *arg), void *arg, double seconds, const char *what);

double bounded_seconds(void); /* a monotonic clock */
void bounded_sleep(double seconds);

#endif
