/* thread.h - how every thread of the library is started, and its number. */
#ifndef ITER_CORE_THREAD_H
#define ITER_CORE_THREAD_H

#include <pthread.h>

/* Starts a thread that takes no signals: those are the program's. The kernel keeps 15 characters of
 * the name. Returns 0 or an errno. */
int iter__thread_start(pthread_t *out, const char *name, void *(*main)(void *), void *arg);

/* The kernel's number of the calling thread; gettid() is in glibc from 2.30 on. */
int iter__thread_id(void);

#endif
