/* 07_save_resume.c - a run that stops in the middle of an epoch, and another one that continues
 * where it stopped: with the very next batch, augmented as in a run that was never stopped. */
#include <inttypes.h>
#include <iter/iter.h>
#include <stdio.h>

/* Opens the same loader; the number of workers may differ from run to run. */
static iter_status open_loader(const char *spec, int32_t workers, iter_loader **out,
                               iter_error *err) {
    iter_dataset *data = NULL;
    iter_chain *chain = NULL;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 64, opt.shuffle = ITER_SHUFFLE_FULL, opt.seed = 7, opt.workers = workers;
    iter_status s = iter_dataset_open(spec, NULL, &data, err);
    if (s == ITER_OK) s = iter_chain_parse("random-crop:32,pad=4 | to:f32", NULL, &chain, err);
    if (s == ITER_OK) s = iter_dataloader_create(data, chain, &opt, out, err);
    iter_chain_unref(chain);
    iter_dataset_unref(data); /* the loader holds its own references */
    return s;
}

/* Takes n batches and prints the last one. */
static iter_status take(iter_loader *loader, int n, iter_error *err) {
    iter_status s = ITER_OK;
    for (int i = 0; i < n && s == ITER_OK; i++) {
        iter_batch *batch;
        s = iter_loader_next(loader, &batch, err);
        if (s == ITER_END)
            s = iter_loader_reset(loader, err), i--; /* the next epoch */
        else if (s == ITER_OK) {
            const float *x = iter_batch_tensor(batch, 0)->data;
            const iter_batch_info info = iter_batch_describe(batch);
            if (i == n - 1)
                printf("epoch %u, batch %" PRIu64 ": sample %" PRIu64 ", pixel %g\n", info.epoch,
                       info.number, iter_batch_index(batch)[0], (double)x[500]);
            iter_batch_unref(batch);
        }
    }
    return s;
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "synthetic:cifar10";
    iter_error err;
    iter_loader *first = NULL, *second = NULL;
    uint8_t saved[1024]; /* a position is small; store it with the weights in a checkpoint */
    size_t size;
    iter_status s = open_loader(spec, 0, &first, &err);
    if (s == ITER_OK) s = take(first, 10, &err);
    if (s == ITER_OK) s = iter_loader_save(first, saved, sizeof(saved), &size, &err);
    if (s == ITER_OK) s = take(first, 1, &err); /* the eleventh batch of the first run ... */

    if (s == ITER_OK) s = open_loader(spec, 2, &second, &err);
    if (s == ITER_OK) s = iter_loader_restore(second, saved, size, &err);
    if (s == ITER_OK) s = take(second, 1, &err); /* ... is the first one of the second run */
    /* or anywhere: epoch 3, batch 2 */
    if (s == ITER_OK) s = iter_loader_seek(second, 3, 128, &err);
    if (s == ITER_OK) s = take(second, 1, &err);
    if (s < 0) fprintf(stderr, "%s\n", err.message);
    iter_loader_unref(first);
    iter_loader_unref(second);
    return s < 0;
}
