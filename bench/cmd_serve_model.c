/*
 * cmd_serve_model.c - `iterbench serve --model NAME`: serves the trainer alone, over replayed
 * batches, or with --loader the trainer fed by that loader.
 */
#include <stdlib.h>

#include "bench/iterbench.h"
#include "bench/train_arms.h"

int cmd_serve_model(const bench_options *options) {
    iter_error err = {ITER_ENOMEM, "no memory"};
    const bool ndarray = options->loader == BENCH_NDARRAY;
    train_arms *t = calloc(1, sizeof(*t));
    if (t == NULL) return bench_say(BENCH_FAILED, &err);
    iter_status s = train_arms_open(options, ndarray, false, t, &err);
    measure_side side = feed_side(&t->feed, "trainer");
    if (s == ITER_OK && options->loader != BENCH_BOTH) {
        s = train_arms_add(t, &t->loader, ndarray, &err);
        side = arm_side(&t->arms[0]);
    }
    if (s == ITER_OK) s = bench_serve(&side, &err);
    train_arms_close(t);
    free(t);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}
