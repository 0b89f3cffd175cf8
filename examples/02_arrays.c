/* 02_arrays.c - NDArrayIter: arrays in memory, and what it can do with the samples that do not fill
 * the last batch. */
#include <iter/iter.h>
#include <stdio.h>

#define N 10 /* samples */

static float data[N][2];  /* sample i is {i, i / 10} */
static int32_t labels[N]; /* and its class i % 3 */

/* Prints the numbers of the samples, for two epochs in batches of 4. */
static iter_status show(const char *name, iter_last_batch last_batch, iter_error *err) {
    const iter_array arrays[] = {
        /* the first dimension counts the samples */
        {.role = ITER_DATA, .desc = {.dtype = ITER_F32, .n_dims = 2, .dims = {N, 2}}, .data = data},
        {.role = ITER_LABEL, .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {N}}, .data = labels},
    };
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 4;
    opt.last_batch = last_batch;
    opt.epochs = 2; /* then reset() answers END */

    iter_loader *loader; /* borrows the arrays, does not copy them: they must outlive it */
    iter_status s = iter_ndarray_create(arrays, 2, NULL, &opt, &loader, err);
    if (s < 0) return s;
    printf("%-10s", name);
    while (s == ITER_OK) {
        iter_batch *batch;
        while ((s = iter_loader_next(loader, &batch, err)) == ITER_OK) {
            const float *x = iter_batch_find(batch, "data")->data;
            const iter_batch_info info = iter_batch_describe(batch);
            printf(" [");
            for (uint32_t i = 0; i < info.n_rows; i++)
                printf(i == 0 ? "%g" : " %g", (double)x[2 * i]);
            printf(info.pad > 0 ? "; pad %u]" : "]", info.pad);
            iter_batch_unref(batch);
        }
        if (s == ITER_END) s = iter_loader_reset(loader, err); /* to the next epoch */
        if (s == ITER_OK) printf("  |");
    }
    printf("\n");
    iter_loader_unref(loader);
    return s;
}

int main(void) {
    iter_error err;
    for (int32_t i = 0; i < N; i++) {
        data[i][0] = (float)i;
        data[i][1] = (float)i / 10;
        labels[i] = i % 3;
    }
    if (show("keep", ITER_LAST_KEEP, &err) < 0 ||           /* a smaller batch */
        show("pad", ITER_LAST_PAD, &err) < 0 ||             /* filled with the first samples */
        show("discard", ITER_LAST_DISCARD, &err) < 0 ||     /* dropped */
        show("roll_over", ITER_LAST_ROLL_OVER, &err) < 0) { /* moved to the next epoch */
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    return 0;
}
