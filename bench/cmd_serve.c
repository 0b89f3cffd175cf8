/*
 * cmd_serve.c - `iterbench serve`: a loader, or a straight loop, at the other end of a pipe.
 *
 *     run N   takes N batches, answers "samples seconds" as one line
 *     quit    ends; so does the end of the input
 *
 * With --model the trainer alone is served, over replayed batches; with --model and --loader, the
 * loader feeding it.
 *
 * The protocol is that of measure.h; a program in any language can speak it. Epochs follow one
 * another without end. Before each answer, iterbench waits until no worker makes anything ahead, so
 * that the other side of a comparison has the machine to itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_cache.h"
#include "bench/common/bench_util.h"
#include "bench/iterbench.h"
#include "bench/limits/yardstick.h"
#include "bench/measure/arm.h"

#define LOOK_BATCHES 64
#define REST_MAX_S   2.0

typedef struct served {
    bench_arrays arrays;
    bench_arm arm;
    bool has_arm;
    yardstick yard;
    measure_side side;
} served;

static void rest(const measure_side *side) {
    const double until = bench_now() + REST_MAX_S;
    while (side->rests != NULL && !side->rests(side->user) && bench_now() < until)
        bench_sleep(0.0005);
}

iter_status bench_serve(const measure_side *side, iter_error *err) {
    char line[128];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        uint64_t n, samples;
        double seconds;
        int used = 0;
        if (strcmp(line, "quit\n") == 0) return ITER_OK;
        if (sscanf(line, "run %" SCNu64 " %n", &n, &used) != 1 || line[used] != '\0')
            return bench_fail(err, ITER_EINVAL, "serve knows 'run N' and 'quit', not '%.*s'",
                              (int)strcspn(line, "\n"), line);
        iter_status s = side->run(side->user, n, &samples, &seconds, err);
        if (s < 0) return s;
        rest(side);
        printf("%" PRIu64 " %.9f\n", samples, seconds);
        if (fflush(stdout) != 0)
            return bench_fail(err, ITER_EIO, "serve: the answer cannot be written: %s",
                              strerror(errno));
    }
    return ITER_OK;
}

static iter_status open_served(const bench_options *options, served *s, iter_error *err) {
    bool ndarray = options->loader == BENCH_NDARRAY;
    bench_cache_proof proof;
    iter_status status = ITER_OK;
    if (options->cache != BENCH_CACHE_ASIS) status = bench_cache_prepare(options, &proof, err);
    if (status == ITER_OK && ndarray)
        status = bench_arrays_load(options, UINT64_MAX, &s->arrays, err);
    if (status == ITER_OK) {
        status = arm_open(options, ndarray ? &s->arrays : NULL, &s->arm, err);
        s->has_arm = status == ITER_OK;
    }
    s->side = arm_side(&s->arm);
    if (status < 0 || options->limit == BENCH_LIMIT_NONE) return status;
    uint64_t samples;
    double seconds;
    status = arm_run(&s->arm, LOOK_BATCHES, false, &samples, &seconds, err);
    if (status == ITER_OK)
        status = yardstick_open(&s->yard, options, ndarray ? &s->arrays : NULL, s->arm.loaders[0],
                                arm_n_slots(&s->arm), err);
    if (status == ITER_OK && !s->yard.works)
        status = bench_fail(err, ITER_EUNSUPPORTED, "no straight loop for this work: %.200s",
                            s->yard.has_photos ? "images of any size" : s->yard.why);
    if (status == ITER_OK) s->side = yardstick_side(&s->yard, (bench_limit)options->limit);
    arm_close(&s->arm); /* to free its threads and memory */
    s->has_arm = false;
    return status;
}

int cmd_serve(const bench_options *options) {
    if (options->model != BENCH_MODEL_NONE) return cmd_serve_model(options);
    iter_error err = {ITER_ENOMEM, "no memory"};
    served *s = calloc(1, sizeof(*s));
    if (s == NULL) return bench_say(BENCH_FAILED, &err);
    iter_status status = open_served(options, s, &err);
    if (status == ITER_OK) status = bench_serve(&s->side, &err);
    yardstick_close(&s->yard);
    if (s->has_arm) arm_close(&s->arm);
    bench_arrays_free(&s->arrays);
    free(s);
    return status < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}
