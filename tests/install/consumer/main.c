/* main.c - an outsider's program: installed headers, installed library, one epoch over an array. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <iter/iter.h>

#define N_ROWS 10

/* The sum of all values that one epoch delivers, or -1 with a message. */
static int64_t sum_of_epoch(iter_loader *loader, iter_error *err) {
    int64_t sum = 0;
    iter_batch *batch = NULL;
    iter_status status;
    while ((status = iter_loader_next(loader, &batch, err)) == ITER_OK) {
        const int32_t *values = iter_batch_tensor(batch, 0)->data;
        const uint32_t n_rows = iter_batch_describe(batch).n_rows;
        for (uint32_t i = 0; i < n_rows; i++)
            sum += values[i];
        iter_batch_unref(batch);
    }
    return status == ITER_END ? sum : -1;
}

int main(void) {
    if (strcmp(iter_version(), ITER_VERSION_STRING) != 0) {
        fprintf(stderr, "library %s, headers %s\n", iter_version(), ITER_VERSION_STRING);
        return 1;
    }
    const int32_t rows[N_ROWS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const iter_array array = {"data", ITER_DATA, {ITER_I32, 1, {N_ROWS}, 0, ""}, rows, 0};
    iter_loader_options options = ITER_LOADER_OPTIONS_INIT;
    options.batch_size = 4;
    options.workers = 1;
    options.shuffle = ITER_SHUFFLE_FULL;
    options.last_batch = ITER_LAST_KEEP;
    iter_error err = {ITER_OK, ""};
    iter_loader *loader = NULL;
    int64_t sum = -1;
    if (iter_ndarray_create(&array, 1, NULL, &options, &loader, &err) >= 0) {
        sum = sum_of_epoch(loader, &err);
    }
    iter_loader_unref(loader);
    if (sum != 55) fprintf(stderr, "sum %lld, expected 55: %s\n", (long long)sum, err.message);
    return sum == 55 ? 0 : 1;
}
