/* 01_first_batch.c - shuffled, augmented CIFAR batches, made by two threads. */
#include <iter/iter.h>
#include <stdio.h>

int main(int argc, char **argv) {
    iter_error err;
    iter_dataset *data = NULL;
    iter_chain *chain = NULL;
    iter_loader *loader = NULL;
    iter_batch *batch;
    iter_status s;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 64, opt.shuffle = ITER_SHUFFLE_FULL, opt.workers = 2, opt.seed = 7;

    if ((s = iter_dataset_open(argc > 1 ? argv[1] : "synthetic:cifar10", NULL, &data, &err)) < 0 ||
        (s = iter_chain_parse("random-crop:size=32,pad=4 | random-flip | to:f32,nchw", NULL, &chain,
                              &err)) < 0 ||
        (s = iter_dataloader_create(data, chain, &opt, &loader, &err)) < 0)
        goto out;
    for (int step = 0; step < 100 && (s = iter_loader_next(loader, &batch, &err)) == ITER_OK;
         step++) {
        const float *image = iter_batch_tensor(batch, 0)->data;   /* f32 [64, 3, 32, 32] "NCHW" */
        const uint8_t *label = iter_batch_tensor(batch, 1)->data; /* u8 [64] "N" */
        if (step == 0) printf("a pixel %g, its label %d\n", image[16 * 32 + 16], label[0]);
        iter_batch_unref(batch);
    }
out:
    if (s < 0) fprintf(stderr, "%s\n", err.message);
    iter_loader_unref(loader), iter_chain_unref(chain), iter_dataset_unref(data);
    return s < 0;
}
