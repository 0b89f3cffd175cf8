/* 03_chain.c - what happens to a sample between dataset and batch: a chain of stages, as text or by
 * calls, and the plan that the library makes from it. */
#include <iter/iter.h>
#include <stdio.h>
#include <string.h>

/* The same chain by calls: the compiler checks the options' types. */
static iter_status build(iter_chain *chain, iter_error *err) {
    iter_random_crop_options crop = ITER_RANDOM_CROP_OPTIONS_INIT;
    crop.size = 32;
    crop.pad = 4;
    iter_normalize_options normalize = ITER_NORMALIZE_OPTIONS_INIT;
    normalize.mean = (iter_option_list){3, {0.491, 0.482, 0.447}};
    normalize.std = (iter_option_list){3, {0.247, 0.243, 0.261}};
    iter_to_options to = {ITER_F32, ITER_LAYOUT_NCHW};
    iter_status s = iter_chain_add(chain, "random-crop", NULL, NULL, &crop, sizeof(crop), err);
    if (s == ITER_OK) s = iter_chain_add(chain, "random-flip", NULL, NULL, NULL, 0, err);
    if (s == ITER_OK)
        s = iter_chain_add(chain, "normalize", NULL, NULL, &normalize, sizeof(normalize), err);
    if (s == ITER_OK) s = iter_chain_add(chain, "to", NULL, NULL, &to, sizeof(to), err);
    return s;
}

int main(int argc, char **argv) {
    iter_error err;
    iter_dataset *data = NULL;
    iter_chain *text = NULL, *calls = NULL;
    iter_loader *loader = NULL;
    iter_batch *batch;
    iter_status s;
    if ((s = iter_chain_parse("random-crop:32,pad=4 | random-flip | "
                              "normalize:mean=0.491;0.482;0.447,std=0.247;0.243;0.261 | "
                              "to:f32,nchw",
                              NULL, &text, &err)) < 0 ||
        (s = iter_chain_create(&calls, &err)) < 0 || (s = build(calls, &err)) < 0)
        goto out;
    printf("%s\n", iter_chain_text(calls));
    printf("the two are the same: %s\n",
           strcmp(iter_chain_text(text), iter_chain_text(calls)) == 0 ? "yes" : "no");

    if ((s = iter_dataset_open(argc > 1 ? argv[1] : "synthetic:cifar10", NULL, &data, &err)) < 0 ||
        (s = iter_dataloader_create(data, calls, NULL, &loader, &err)) < 0)
        goto out;
    /* Consecutive stages are combined into one pass over the pixels: */
    printf("%s", iter_loader_plan_text(loader));
    if ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
        char desc[80];
        printf("%s\n", iter_desc_text(&iter_batch_tensor(batch, 0)->desc, desc, sizeof(desc)));
        iter_batch_unref(batch);
    }
out:
    if (s < 0) fprintf(stderr, "%s\n", err.message);
    iter_loader_unref(loader);
    iter_chain_unref(text);
    iter_chain_unref(calls);
    iter_dataset_unref(data);
    return s < 0;
}
