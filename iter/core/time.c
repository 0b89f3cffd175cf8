/* time.c - see time.h. */
#include "iter/core/time.h"

int64_t iter__now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void iter__deadline(int64_t ns_from_now, struct timespec *out) {
    const int64_t at = iter__now_ns() + ns_from_now;
    out->tv_sec = at / 1000000000;
    out->tv_nsec = at % 1000000000;
}
