/* bounded.c - see bounded.h. */
#include "tests/support/bounded.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct job {
    void (*call)(void *arg);
    void *arg;
    atomic_bool done;
} job;

double bounded_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void bounded_sleep(double seconds) {
    const struct timespec pause = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&pause, NULL);
}

static void *run(void *arg) {
    job *j = arg;
    j->call(j->arg);
    atomic_store(&j->done, true);
    return NULL;
}

bool bounded_call(void (*call)(void *arg), void *arg, double seconds, const char *what) {
    job *j = calloc(1, sizeof(*j));
    pthread_t thread;
    if (!j) abort();
    j->call = call;
    j->arg = arg;
    if (pthread_create(&thread, NULL, run, j) != 0) abort();
    const double until = bounded_seconds() + seconds;
    while (!atomic_load(&j->done) && bounded_seconds() < until)
        bounded_sleep(0.001);
    if (!atomic_load(&j->done)) {
        fprintf(stderr, "%s: still running after %.1f s\n", what, seconds);
        return false; /* the thread and its job are leaked */
    }
    pthread_join(thread, NULL);
    free(j);
    return true;
}

void bounded(void (*call)(void *arg), void *arg, double seconds, const char *what) {
    if (bounded_call(call, arg, seconds, what)) return;
    fflush(NULL);
    _exit(1);
}
