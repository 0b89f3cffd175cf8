/*
 * gate.c - see gate.h.
 *
 * A lock of readers, which fork() takes as the writer. Writers come first, else threads that read
 * all the time could keep fork() out.
 */
#include "iter/remote/gate.h"

#ifdef ITER_HAVE_REMOTE

#include <pthread.h>
#include <stdbool.h>

static pthread_rwlock_t gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static _Thread_local unsigned depth; /* of this thread's nested calls */
static unsigned n_forks;             /* changes while a process has one thread */

static void before_fork(void) {
    pthread_rwlock_wrlock(&gate);
}

static void in_parent(void) {
    pthread_rwlock_unlock(&gate);
}

/* Made anew: the lock knows its writer by the number of a thread, which is another one here. */
static void in_child(void) {
    pthread_rwlockattr_t attributes;
    n_forks++;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&gate, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

void iter__gate_hook(void) {
    static bool hooked; /* a child that was forked in here calls it again */
    if (!hooked) hooked = pthread_atfork(before_fork, in_parent, in_child) == 0;
}

void iter__gate_enter(void) {
    if (depth++ == 0) pthread_rwlock_rdlock(&gate);
}

void iter__gate_leave(void) {
    if (--depth == 0) pthread_rwlock_unlock(&gate);
}

unsigned iter__gate_forks(void) {
    return n_forks;
}

#endif
