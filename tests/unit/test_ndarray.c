/* test_ndarray.c - iter_ndarray_create() against vectors from MXNet's NDArrayIter, and how a batch
 * describes itself. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <iter/iter.h>

#include "tests/golden/ndarrayiter_mxnet.h"

TestSuite(ndarray, .timeout = 60);

static iter_array rows_array(const int32_t *data, int64_t n) {
    return (iter_array){
        .role = ITER_DATA, .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {n}}, .data = data};
}

static int32_t last_batch_of(const char *name) {
    return strcmp(name, "pad") == 0       ? ITER_LAST_PAD
           : strcmp(name, "discard") == 0 ? ITER_LAST_DISCARD
                                          : ITER_LAST_ROLL_OVER;
}

/* Appends one batch as "0 1 2+pad". */
static void append_batch(char *out, iter_batch *batch) {
    const iter_batch_info info = iter_batch_describe(batch);
    const int32_t *rows = iter_batch_tensor(batch, 0)->data;
    for (uint32_t i = 0; i < info.n_rows; i++) {
        sprintf(out + strlen(out), "%s%d", i ? " " : "", rows[i]);
        cr_assert_eq(iter_batch_index(batch)[i], (uint64_t)rows[i]);
    }
    sprintf(out + strlen(out), "+%u", info.pad);
}

static void append_epoch(char *out, iter_loader *loader, int limit) {
    iter_error err;
    iter_batch *batch;
    iter_status s = ITER_OK;
    for (int n = 0; n != limit && (s = iter_loader_next(loader, &batch, &err)) == ITER_OK; n++) {
        if (n) strcat(out, "|");
        append_batch(out, batch);
        iter_batch_unref(batch);
    }
    cr_assert_geq(s, 0, "%s", err.message);
}

static void run_script(iter_loader *loader, const char *script, char *out) {
    iter_error err;
    iter_batch *batch;
    for (const char *c = script; *c; c++) {
        if (c != script) strcat(out, ";");
        append_epoch(out, loader, *c == 'm' ? 1 : -1);
        if (*c == 'x') cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_END);
        if (*c == 'h') {
            cr_assert_eq(iter_loader_seek(loader, 0, 0, &err), ITER_OK, "%s", err.message);
        } else {
            cr_assert_eq(iter_loader_reset(loader, &err), ITER_OK);
        }
        if (*c == 'd') cr_assert_eq(iter_loader_reset(loader, &err), ITER_OK);
    }
}

static void check_golden(int workers) {
    int32_t data[256];
    for (int i = 0; i < 256; i++)
        data[i] = i;
    for (size_t r = 0; r < sizeof(mxnet_rows) / sizeof(mxnet_rows[0]); r++) {
        const iter_array array = rows_array(data, mxnet_rows[r].n);
        cr_assert_leq(mxnet_rows[r].n, 256);
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        opt.batch_size = (uint32_t)mxnet_rows[r].batch;
        opt.last_batch = last_batch_of(mxnet_rows[r].last_batch);
        opt.workers = workers;
        iter_error err;
        iter_loader *loader;
        cr_assert_eq(iter_ndarray_create(&array, 1, NULL, &opt, &loader, &err), ITER_OK, "%s",
                     err.message);
        static char seen[1 << 16];
        seen[0] = 0;
        run_script(loader, mxnet_rows[r].script, seen);
        cr_assert_str_eq(seen, mxnet_rows[r].expected,
                         "n %d, batch %d, %s, %s: got %s, expected %s", mxnet_rows[r].n,
                         mxnet_rows[r].batch, mxnet_rows[r].last_batch, mxnet_rows[r].script, seen,
                         mxnet_rows[r].expected);
        iter_loader_unref(loader);
    }
}

Test(ndarray, golden_inline) {
    check_golden(0);
}

Test(ndarray, golden_one_worker) {
    check_golden(1);
}

Test(ndarray, golden_three_workers) {
    check_golden(3);
}

Test(ndarray, names_follow_mxnet) {
    int32_t a[2] = {0}, b[2] = {0}, c[2] = {0};
    const iter_array arrays[] = {
        {.role = ITER_LABEL, .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {2}}, .data = c},
        {.role = ITER_DATA, .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {2}}, .data = a},
        {.role = ITER_DATA,
         .desc = {.dtype = ITER_I32, .n_dims = 2, .dims = {2, 1}, .layout = "NC"},
         .data = b}};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 2;
    iter_error err;
    iter_loader *loader;
    cr_assert_eq(iter_ndarray_create(arrays, 3, NULL, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_eq(iter_loader_n_fields(loader), 3);
    cr_assert_str_eq(iter_loader_field(loader, 0)->name, "_0_data");
    cr_assert_str_eq(iter_loader_field(loader, 1)->name, "_1_data");
    cr_assert_str_eq(iter_loader_field(loader, 2)->name, "label");
    cr_assert_eq(iter_loader_field(loader, 2)->role, ITER_LABEL);
    cr_assert_str_eq(iter_loader_field(loader, 1)->desc.layout, "NC");
    cr_assert_eq(iter_loader_field(loader, 1)->desc.dims[0], 2);
    iter_loader_unref(loader);
}

Test(ndarray, unequal_first_dimensions_are_refused) {
    int32_t a[3] = {0};
    const iter_array arrays[] = {rows_array(a, 3),
                                 {.role = ITER_LABEL,
                                  .name = "y",
                                  .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {2}},
                                  .data = a}};
    iter_error err;
    iter_loader *loader;
    cr_assert_eq(iter_ndarray_create(arrays, 2, NULL, NULL, &loader, &err), ITER_EINVAL);
    cr_assert_null(loader);
    cr_assert(strstr(err.message, "'y' has 2 rows, 'data' has 3"), "%s", err.message);
}

static int n_released;

static void count_release(void *user) {
    (void)user;
    n_released++;
}

Test(ndarray, release_runs_once_after_the_last_batch) {
    int32_t a[4] = {10, 11, 12, 13};
    const iter_array array = rows_array(a, 4);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 2;
    opt.arrays.release = count_release;
    iter_error err;
    iter_loader *loader;
    iter_batch *batch;
    n_released = 0;
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, &opt, &loader, &err), ITER_OK);
    cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK);
    iter_loader_unref(loader);
    cr_assert_eq(n_released, 0);
    cr_assert_eq(((int32_t *)iter_batch_tensor(batch, 0)->data)[1], 11);
    iter_batch_unref(batch);
    cr_assert_eq(n_released, 1);
}

Test(ndarray, copy_leaves_the_callers_arrays_alone) {
    int32_t a[4] = {10, 11, 12, 13};
    const iter_array array = rows_array(a, 4);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 4;
    opt.arrays.copy = 1;
    iter_error err;
    iter_loader *loader;
    iter_batch *batch;
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, &opt, &loader, &err), ITER_OK);
    memset(a, 0, sizeof(a));
    cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK);
    cr_assert_eq(((int32_t *)iter_batch_tensor(batch, 0)->data)[3], 13);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
}

Test(ndarray, rows_may_overlap) {
    int16_t a[12];
    for (int i = 0; i < 12; i++)
        a[i] = (int16_t)i;
    for (int copy = 0; copy <= 1; copy++) { /* windows of 4 that begin at every second element */
        const iter_array array = {.role = ITER_DATA,
                                  .desc = {.dtype = ITER_I16, .n_dims = 2, .dims = {5, 4}},
                                  .data = a,
                                  .stride_bytes = 4};
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        opt.arrays.copy = copy;
        opt.shuffle = ITER_SHUFFLE_FULL;
        iter_error err;
        iter_loader *loader;
        iter_batch *batch;
        cr_assert_eq(iter_ndarray_create(&array, 1, NULL, &opt, &loader, &err), ITER_OK, "%s",
                     err.message);
        cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK);
        const int16_t *rows = iter_batch_tensor(batch, 0)->data;
        const uint64_t *index = iter_batch_index(batch);
        for (int r = 0; r < 5; r++) {
            for (int k = 0; k < 4; k++)
                cr_assert_eq(rows[r * 4 + k], 2 * (int)index[r] + k);
        }
        iter_batch_unref(batch);
        iter_loader_unref(loader);
    }
}

Test(ndarray, strided_rows_are_read_where_they_are) {
    int16_t a[12];
    for (int i = 0; i < 12; i++)
        a[i] = (int16_t)i;
    const iter_array array = {.role = ITER_DATA,
                              .desc = {.dtype = ITER_I16, .n_dims = 2, .dims = {3, 2}},
                              .data = a,
                              .stride_bytes = 8};
    iter_error err;
    iter_loader *loader;
    iter_batch *batch;
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, NULL, &loader, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK);
    const int16_t *rows = iter_batch_tensor(batch, 0)->data;
    const int16_t want[] = {0, 1, 4, 5, 8, 9};
    cr_assert_arr_eq(rows, want, sizeof(want));
    iter_batch_unref(batch);
    iter_loader_unref(loader);
}

Test(ndarray, a_sampler_is_one_stage) {
    iter_error err;
    iter_loader *loader;
    const uint8_t rows[8] = {0};
    const iter_array array = {"data", ITER_DATA, {ITER_U8, 2, {8, 1}, 0, ""}, rows, 0};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.sampler.spec = "block:block=4 | shuffle";
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, &opt, &loader, &err), ITER_EINVAL);
    cr_expect_str_eq(err.message, "sampler: column 15: expected one sampler, got '|'");
    opt.sampler.spec = "block:block=4";
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, &opt, &loader, &err), ITER_OK);
    iter_loader_unref(loader);
}
