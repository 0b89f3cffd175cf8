/*
 * cmd_plan.c - `iterbench plan`: how a loader would do the work, as EXPLAIN does for a query.
 */
#include <stdio.h>

#include "bench/iterbench.h"
#include "bench/measure/arm.h"

/* Prints what only the loader knows: source, workers, and which requests were not met. */
static iter_status print_loader(iter_loader *loader, iter_error *err) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    iter_status s = iter_loader_stats_read(loader, &stats, err);
    if (s < 0) return s;
    printf("source %s, %d worker%s\n", bench_source_text(stats.source), stats.n_workers,
           stats.n_workers == 1 ? "" : "s");
    for (int32_t i = 0; i < stats.n_fallbacks; i++)
        printf("fallback: %s\n", stats.fallbacks[i]);
    return ITER_OK;
}

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
            s = print_loader(arm.loaders[0], &err);
            arm_close(&arm);
        }
    }
    bench_arrays_free(&arrays);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}
