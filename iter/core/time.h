/* time.h - the one clock of the library. */
#ifndef ITER_CORE_TIME_H
#define ITER_CORE_TIME_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds on the monotonic clock, by vDSO: reading it is no system call. */
int64_t iter__now_ns(void);

/* The point on that clock that is `ns_from_now` away, for a timed wait. */
void iter__deadline(int64_t ns_from_now, struct timespec *out);

#endif
