/* event.c - see event.h. Source: futex(2). */
#include "iter/core/event.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(atomic_uint) == 4, "a futex has 32 bits");

void iter__event_wait(iter__event *event, unsigned seen, int64_t until_ns) {
    const struct timespec until = {.tv_sec = until_ns / 1000000000,
                                   .tv_nsec = until_ns % 1000000000};
    /* FUTEX_WAIT_BITSET takes a point in time on the monotonic clock, FUTEX_WAIT a span. */
    syscall(SYS_futex, &event->count, FUTEX_WAIT_BITSET_PRIVATE, seen, until_ns < 0 ? NULL : &until,
            NULL, FUTEX_BITSET_MATCH_ANY);
}

void iter__event_wake(iter__event *event, int n) {
    const int saved = errno; /* a signal handler must leave it as it was */
    atomic_fetch_add(&event->count, 1);
    syscall(SYS_futex, &event->count, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
    errno = saved;
}
