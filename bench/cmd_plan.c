/*
 * cmd_plan.c - `iterbench plan`: how a loader would do the work, as EXPLAIN does for a query.
 */
#include <stdio.h>

#include "arm.h"
#include "iterbench.h"

int cmd_plan(const bench_options *options) {
    iter_error err;
    bench_arm arm;
    bench_arrays arrays = {0};
    bool ndarray = options->loader == BENCH_NDARRAY;
    iter_status s = ndarray ? bench_arrays_load(options, UINT64_MAX, &arrays, &err) : ITER_OK;
    if (s == ITER_OK) {
        s = arm_open(options, ndarray ? &arrays : NULL, &arm, &err);
        if (s == ITER_OK) {
            fputs(iter_loader_plan_text(arm.loaders[0]), stdout);
            arm_close(&arm);
        }
    }
    bench_arrays_free(&arrays);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}
