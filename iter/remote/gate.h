/*
 * gate.h - fork() waits until no thread is inside libcurl, OpenSSL or a client's lock.
 *
 * These have locks and tables that a child of fork() would find taken or half changed if another
 * thread was at work on them. So threads enter this gate around such work, which never blocks, and
 * fork() closes it for a moment. A child finds all of it free.
 */
#ifndef ITER_REMOTE_GATE_H
#define ITER_REMOTE_GATE_H

/* From now on fork() waits for the gate. Must be called before enter(); once is enough. */
void iter__gate_hook(void);

/* Waits while another thread forks. May be nested; must not be held while a thread waits for
 * anything but a lock that is only held inside. */
void iter__gate_enter(void);
void iter__gate_leave(void);

/* Grows by one in a child of fork(), so that what belongs to its parent can be told. */
unsigned iter__gate_forks(void);

#endif
