/*
 * event.h - waiting for something that a lock guards, and waking who waits, also from a signal handler.
 *
 * A condition variable may not be signalled in a signal handler; a futex may. So an event is a count
 * of what happened. A thread that waits reads the count first, then looks at what it waits for, and
 * sleeps only as long as the count stays the same: what happens in between is not lost.
 *
 *     lock; for (;;) { seen = look(e); if (ready) break; unlock; wait(e, seen, until); lock; }
 */
#ifndef ITER_CORE_EVENT_H
#define ITER_CORE_EVENT_H

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct iter__event {
    atomic_uint count;
} iter__event;

#define ITER_WAKE_ALL INT_MAX

/* What the count is, before the state that it tells of is looked at. */
static inline unsigned iter__event_look(const iter__event *event) {
    return atomic_load(&event->count);
}

/* Sleeps until the count is no longer `seen`, or until_ns on the monotonic clock (< 0: for ever). May
 * return without a reason. */
void iter__event_wait(iter__event *event, unsigned seen, int64_t until_ns);

/* Something happened: wakes n of those who wait. Safe in a signal handler. */
void iter__event_wake(iter__event *event, int n);

#endif
