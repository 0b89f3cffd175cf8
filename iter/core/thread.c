/* thread.c - see thread.h. */
#include "iter/core/thread.h"

#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int iter__thread_start(pthread_t *out, const char *name, void *(*main)(void *), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(out, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) return failed;
    char kept[16];
    snprintf(kept, sizeof(kept), "%s", name);
    pthread_setname_np(*out, kept);
    return 0;
}

int iter__thread_id(void) {
    return (int)syscall(SYS_gettid);
}
