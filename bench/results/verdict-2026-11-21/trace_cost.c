/*
 * trace_cost.c - what recording costs, within one process: slices of 5,000 batches with the profiler
 * on and off take turns, so that both meet the same memory. Two processes cannot tell: where their
 * pages come to lie moves them by up to 17 %.
 *
 *     trace_cost cifar10:DATA/cifar-10-batches-bin WORKERS [TRACE.json]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <iter/iter.h>

#define PAIRS 81
#define SLICE 5000

static iter_loader *loader;
static iter_error err;

static void die(void) {
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

/* Seconds that n batches take whose every cache line is read. */
static double run(int n) {
    struct timespec from, to;
    volatile unsigned sum = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    while (n > 0) {
        iter_batch *batch;
        iter_status s = iter_loader_next(loader, &batch, &err);
        if (s == ITER_END) s = iter_loader_reset(loader, &err);
        if (s < 0) die();
        if (!batch) continue;
        const iter_tensor *data = iter_batch_tensor(batch, 0);
        for (size_t i = 0; i < iter_desc_bytes(&data->desc); i += 64)
            sum += ((const unsigned char *)data->data)[i];
        iter_batch_unref(batch);
        n--;
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
}

static double slice(int on) {
    if (on)
        iter_profile_resume();
    else
        iter_profile_pause();
    run(50);
    return run(SLICE);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    iter_dataset *dataset;
    iter_chain *chain;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_profile_options profile = ITER_PROFILE_OPTIONS_INIT;
    double ratios[PAIRS];
    if (argc < 3) return 2;
    opt.batch_size = 64;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.workers = atoi(argv[2]);
    profile.filename = argc > 3 ? argv[3] : "";
    if (iter_dataset_open(argv[1], NULL, &dataset, &err) < 0 ||
        iter_chain_parse("normalize | to:f32,nchw", NULL, &chain, &err) < 0 ||
        iter_dataloader_create(dataset, chain, &opt, &loader, &err) < 0 ||
        iter_profile_start(&profile, &err) < 0)
        die();
    run(SLICE);
    for (int i = 0; i < PAIRS; i++) {
        const double a = slice(i % 2), b = slice(!(i % 2));
        ratios[i] = i % 2 ? a / b : b / a;
    }
    qsort(ratios, PAIRS, sizeof(ratios[0]), by_value);
    printf("time on / off: %.4f [%.4f, %.4f]\n", ratios[PAIRS / 2], ratios[31], ratios[49]);
    return iter_profile_stop(&err) < 0;
}
