/* 08_ranks.c - several processes share an epoch: each rank has its own loader, and together they
 * see every sample once, in the order of a single process. Here the ranks take turns in one
 * process. */
#include <inttypes.h>
#include <iter/iter.h>
#include <stdio.h>
#include <stdlib.h>

#define RANKS 2

int main(int argc, char **argv) {
    iter_error err;
    iter_dataset *data = NULL;
    iter_loader *loaders[RANKS] = {NULL};
    uint8_t *seen = NULL;
    uint64_t counts[RANKS] = {0}, n = 0, once = 0;
    const char *spec = argc > 1 ? argv[1] : "synthetic:cifar10?n=1001";
    iter_status s = iter_dataset_open(spec, NULL, &data, &err);
    if (s < 0) goto out;
    n = iter_dataset_describe(data)->n_samples;
    seen = calloc(n, 1);
    if (seen == NULL) goto out;

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        opt.batch_size = 32; /* per rank: 64 samples per step in total */
        opt.rank = rank;
        opt.ranks = RANKS;
        opt.shuffle = ITER_SHUFFLE_FULL;
        opt.seed = 7; /* the same on all ranks */
        s = iter_dataloader_create(data, NULL, &opt, &loaders[rank], &err);
        if (s < 0) goto out;
    }
    /* All ranks have the same number of steps. If the last samples do not suffice for all, some
     * ranks get a smaller batch, or one without rows. So no rank waits for a rank that has
     * finished. */
    for (uint32_t rank = 0; s == ITER_OK; rank = (rank + 1) % RANKS) {
        iter_batch *batch;
        s = iter_loader_next(loaders[rank], &batch, &err);
        if (s != ITER_OK) break;
        const iter_batch_info info = iter_batch_describe(batch);
        for (uint32_t i = 0; i < info.n_rows; i++)
            seen[iter_batch_index(batch)[i]]++;
        counts[rank] += info.n_rows;
        if (info.number == 0)
            printf("rank %u begins with sample %" PRIu64 "\n", rank, iter_batch_index(batch)[0]);
        iter_batch_unref(batch);
    }
    for (uint64_t i = 0; i < n; i++)
        once += seen[i] == 1;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        printf("rank %u: %" PRIu64 " samples\n", rank, counts[rank]);
    printf("%" PRIu64 " of %" PRIu64 " samples were seen once\n", once, n);
out:
    if (s < 0) fprintf(stderr, "%s\n", err.message);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        iter_loader_unref(loaders[rank]);
    iter_dataset_unref(data);
    free(seen);
    return s < 0 || once != n;
}
