/*
 * event.h - waits for a state that a lock guards; a wakeup is safe in a signal handler.
 *
 * A condition variable must not be signalled in a signal handler; a futex may be woken there. So an
 * event is a count of changes. A waiting thread reads the count first, then checks the state, and
 * sleeps only while the count is unchanged. A change in between is therefore not lost.
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

/* Reads the count; must be called before the state is checked. */
static inline unsigned iter__event_look(const iter__event *event) {
    return atomic_load(&event->count);
}

/* Sleeps until the count differs from `seen`, or until_ns on the monotonic clock (< 0: for ever).
 * May return early. No lock may be held. */
void iter__event_wait(iter__event *event, unsigned seen, int64_t until_ns);

/* Counts a change and wakes n waiting threads. Safe in a signal handler. */
void iter__event_wake(iter__event *event, int n);

#endif
