/* diagnose_util.h - what every file of this folder needs: the clock, a nap, an error's message. */
#ifndef DIAGNOSE_UTIL_H
#define DIAGNOSE_UTIL_H

#include <stdint.h>

#include <iter/status.h>

/** Writes a formatted message into `err` (NULL is legal) and returns `status`. */
iter_status diagnose_fail(iter_error *err, iter_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Monotonic time in nanoseconds. */
uint64_t diagnose_now_ns(void);

/** Sleeps for at least `seconds`. */
void diagnose_sleep(double seconds);

#endif
