/*
 * c_loop.c - a loop in C that answers "run N" by "samples seconds", as `iterbench serve` does;
 * plain, or holding the previous batch while the next one is made, as Python's `for` does.
 *
 *     c_loop SPEC CHAIN BATCH plain|hold
 *
 * python_pairs.sh compiles and runs it. It reads nothing of a batch.
 */
#include <inttypes.h>
#include <iter/iter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    const char *clock = getenv("LOOP_CLOCK"); /* cpu: other programs of the machine count less */
    struct timespec t;
    const int cpu = clock != NULL && strcmp(clock, "cpu") == 0;
    clock_gettime(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Takes n batches over any number of epochs; returns their samples. */
static uint64_t take(iter_loader *loader, uint64_t n, int hold, iter_status *s, iter_error *err) {
    iter_batch *previous = NULL, *batch;
    uint64_t samples = 0;
    while (n > 0 && *s >= 0) {
        *s = iter_loader_next(loader, &batch, err);
        if (*s == ITER_END) {
            *s = iter_loader_reset(loader, err);
        } else if (*s == ITER_OK) {
            samples += iter_batch_describe(batch).n_rows;
            n--;
            iter_batch_unref(hold ? previous : batch);
            previous = hold ? batch : NULL;
        }
    }
    iter_batch_unref(previous);
    return samples;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    iter_error err = {ITER_OK, ""};
    iter_dataset *data = NULL;
    iter_chain *chain = NULL;
    iter_loader *loader = NULL;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = (uint32_t)atoi(argv[3]), opt.shuffle = ITER_SHUFFLE_FULL;
    iter_status s = iter_dataset_open(argv[1], NULL, &data, &err);
    if (s >= 0) s = iter_chain_parse(argv[2], NULL, &chain, &err);
    if (s >= 0) s = iter_dataloader_create(data, chain, &opt, &loader, &err);
    uint64_t n;
    while (s >= 0 && scanf(" run %" SCNu64, &n) == 1) {
        const double begin = now();
        const uint64_t samples = take(loader, n, strcmp(argv[4], "hold") == 0, &s, &err);
        printf("%" PRIu64 " %.9f\n", samples, now() - begin);
        fflush(stdout);
    }
    if (s < 0) fprintf(stderr, "c_loop: %s\n", err.message);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    return s < 0;
}
