/* 04_workers.c - the DataLoader with 0, 1 and 2 workers: the batches are the same; prints how long
 * the program waited for them. */
#include <inttypes.h>
#include <iter/iter.h>
#include <stdio.h>

/* A sum that depends on the place and value of every row of a batch. */
static double sum_of(const iter_batch *batch) {
    const iter_tensor *x = iter_batch_tensor(batch, 0);
    const float *values = x->data;
    const int64_t n = iter_desc_elements(&x->desc);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)values[i] * (double)(i % 1000 + 1);
    return sum;
}

static iter_status run(iter_dataset *data, iter_chain *chain, int32_t workers, iter_error *err) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 64;
    opt.shuffle = ITER_SHUFFLE_FULL; /* a new order every epoch, chosen by `seed` */
    opt.seed = 7;
    opt.workers = workers; /* 0: this thread makes the batches, in next() */
    opt.prefetch = 2;      /* at most so many batches are made ahead */
    iter_loader *loader;
    iter_status s = iter_dataloader_create(data, chain, &opt, &loader, err);
    if (s < 0) return s;

    double sum = 0;
    uint64_t first = 0;
    iter_batch *batch;
    for (int step = 0; step < 50 && (s = iter_loader_next(loader, &batch, err)) == ITER_OK;
         step++) {
        if (step == 0) first = iter_batch_index(batch)[0];
        sum += sum_of(batch);    /* a program would train here, while workers make the next batch */
        iter_batch_unref(batch); /* returns its memory to the loader, for another batch */
    }
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    if (s >= 0) s = iter_loader_stats_read(loader, &stats, err);
    if (s >= 0) printf("workers %d: first sample %" PRIu64 ", sum %.6e\n", workers, first, sum);
    if (s >= 0) fprintf(stderr, "waited %.1f ms for batches\n", (double)stats.next_wait_ns * 1e-6);
    iter_loader_unref(loader); /* stops its threads */
    return s;
}

int main(int argc, char **argv) {
    iter_error err;
    iter_dataset *data = NULL;
    iter_chain *chain = NULL;
    iter_status s;
    s = iter_dataset_open(argc > 1 ? argv[1] : "synthetic:cifar10", NULL, &data, &err);
    if (s >= 0)
        s = iter_chain_parse("random-crop:32,pad=4 | random-flip | normalize | to:f32,nchw", NULL,
                             &chain, &err);
    for (int32_t workers = 0; s >= 0 && workers <= 2; workers++)
        s = run(data, chain, workers, &err);
    if (s < 0) fprintf(stderr, "%s\n", err.message);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    return s < 0;
}
