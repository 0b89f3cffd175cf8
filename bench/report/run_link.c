/*
 * run_link.c - measures the link to the GPU that a loader's batches go to.
 *
 * Batches of the loader itself are held and copied from their slots again, so that its memory is
 * compared with plain page-locked memory.
 */
#include <math.h>

#include "bench/report/run_result.h"

#define HELD 2 /* every loader allows so many */

/* Takes up to n whole batches, from an epoch's start. */
static iter_status hold(iter_loader *loader, iter_batch **out, uint32_t *n, iter_error *err) {
    const uint32_t wanted = *n;
    int ends = 0;
    iter_status s = iter_loader_reset(loader, err);
    *n = 0;
    while (s >= 0 && *n < wanted && ends < 2) {
        s = iter_loader_next(loader, &out[*n], err);
        if (s == ITER_OK) {
            ++*n;
        } else if (s == ITER_END) {
            ends++;
            s = iter_loader_reset(loader, err);
            if (s == ITER_END) break;
        }
    }
    return s < 0 ? s : ITER_OK;
}

iter_status run_link(bench_arm *arm, gpu_link_rates *out, iter_error *err) {
    iter_loader *loader = arm->loaders[0];
    iter_batch *held[HELD];
    uint32_t n = HELD;
    gpu_link *link;
    *out = (gpu_link_rates)GPU_LINK_RATES_NONE;
    if (arm->options->device == 0) return ITER_OK;
    iter_status s = gpu_link_open(arm->options->device, &link, err);
    if (s < 0) return s;
    s = hold(loader, held, &n, err);
    for (uint32_t i = 0; s == ITER_OK && i < n; i++)
        s = iter_batch_synchronize(held[i], err);
    const double bytes = arm->batches > 0 ? (double)arm->copied_bytes / (double)arm->batches : NAN;
    if (s == ITER_OK)
        s = gpu_link_measure(link, held, n, iter_loader_n_fields(loader), bytes, out, err);
    for (uint32_t i = 0; i < n; i++)
        iter_batch_unref(held[i]);
    gpu_link_close(link);
    return s;
}
