/* watched.c - a loop that knows of no diagnosis: ITER_DIAGNOSE=1 prints its verdict. */
#include <iter/iter.h>

#include <stdio.h>

int main(void) {
    iter_error err;
    iter_dataset *data = NULL;
    iter_loader *loader = NULL;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.workers = 1;
    iter_status s = iter_dataset_open("synthetic:cifar10", NULL, &data, &err);
    if (s == ITER_OK) s = iter_dataloader_create(data, NULL, &opt, &loader, &err);
    for (int i = 0; i < 200 && s == ITER_OK; i++) {
        iter_batch *batch;
        s = iter_loader_next(loader, &batch, &err);
        iter_batch_unref(batch);
    }
    if (s < 0) fprintf(stderr, "%s\n", err.message);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    return s != ITER_OK;
}
