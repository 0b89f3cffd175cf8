/* parallel.c - see parallel.h. */
#include "iter/core/parallel.h"

#include <assert.h>
#include <stdbool.h>

#include "iter/core/thread.h"

typedef struct turn {
    void (*run)(void *arg, uint32_t i);
    void *arg;
    uint32_t i;
    pthread_t thread;
    bool started;
} turn;

static void *turn_main(void *arg) {
    const turn *t = arg;
    t->run(t->arg, t->i);
    return NULL;
}

void iter__parallel(uint32_t n, void (*run)(void *arg, uint32_t i), void *arg) {
    turn turns[ITER_PARALLEL_MAX];
    assert(n <= ITER_PARALLEL_MAX);
    for (uint32_t i = 1; i < n; i++) {
        turns[i] = (turn){.run = run, .arg = arg, .i = i};
        turns[i].started =
            iter__thread_start(&turns[i].thread, "iter-open", turn_main, &turns[i]) == 0;
    }
    if (n > 0) run(arg, 0);
    for (uint32_t i = 1; i < n; i++) {
        if (turns[i].started)
            pthread_join(turns[i].thread, NULL);
        else
            run(arg, i);
    }
}
