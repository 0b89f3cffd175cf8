/*
 * test_labels.c - integer labels as samplers get them: from memory, from the index, from stored
 * bytes, decoded and made; with a subset; and why there are none.
 *
 * What a sampler gets is compared with what iter_dataset_read() gives for each sample.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/dataset/dataset.h"
#include "tests/support/make_data.h"
#include <iter/iter.h>

TestSuite(labels, .timeout = 60);

#define MAX_N 4000

static iter_dataset *open_spec(const char *spec) {
    iter_dataset *data = NULL;
    iter_error err = {0};
    cr_assert_eq(iter_dataset_open(spec, NULL, &data, &err), ITER_OK, "%s: %s", spec, err.message);
    return data;
}

static int64_t read_one(iter_dataset *data, uint64_t index, const char *field) {
    iter_sample *sample;
    iter_error err = {0};
    cr_assert_eq(iter_dataset_read(data, index, field, &sample, &err), ITER_OK, "%s", err.message);
    const iter_tensor *row = iter_sample_tensor(sample, 0);
    int64_t value = 0;
    memcpy(&value, row->data, iter_dtype_bytes(row->desc.dtype));
    if (row->desc.dtype == ITER_I32) value = (int32_t)value;
    iter_sample_free(sample);
    return value;
}

/* All labels at once, some from the middle, and a subset of them. */
static void expect_labels(iter_dataset *data, const char *field) {
    static int64_t got[MAX_N], want[MAX_N];
    static uint64_t subset[MAX_N];
    const uint64_t n = iter_dataset_describe(data)->n_samples;
    const char *name = field ? field : "label";
    iter_error err = {0};
    cr_assert_leq(n, MAX_N);
    for (uint64_t i = 0; i < n; i++)
        want[i] = read_one(data, i, name);
    cr_assert_eq(iter__dataset_labels(data, field, NULL, 0, n, got, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_arr_eq(got, want, n * sizeof(*got));
    cr_assert_eq(iter__dataset_labels(data, field, NULL, n / 3, n / 2, got, &err), ITER_OK);
    cr_assert_arr_eq(got, want + n / 3, n / 2 * sizeof(*got));
    for (uint64_t i = 0; i < n; i++)
        subset[i] = i * 7 % n;
    cr_assert_eq(iter__dataset_labels(data, field, subset, 2, n - 2, got, &err), ITER_OK);
    for (uint64_t i = 2; i < n; i++)
        cr_assert_eq(got[i - 2], want[subset[i]]);
}

static void expect_refusal(iter_dataset *data, const char *field, iter_status status,
                           const char *says) {
    static int64_t got[MAX_N];
    iter_error err = {0};
    const uint64_t n = iter_dataset_describe(data)->n_samples;
    cr_assert_eq(iter__dataset_labels(data, field, NULL, 0, n, got, &err), status, "%s",
                 err.message);
    cr_assert(strstr(err.message, says), "no '%s' in '%s'", says, err.message);
}

Test(labels, of_records) {
    char folder[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 32];
    make_folder(folder);
    make_cifar(folder, "data_batch_1.bin", 0, 1500, 1);
    snprintf(spec, sizeof(spec), "cifar10:\"%s/data_batch_1.bin\"", folder);
    iter_dataset *data = open_spec(spec);
    expect_labels(data, NULL);
    expect_labels(data, "label");
    expect_refusal(data, "lable", ITER_EINVAL, "there is no field 'lable'");
    expect_refusal(data, "data", ITER_EINVAL, "expected one integer a sample");
    iter_dataset_unref(data);
    make_folder_gone(folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* Of several bad labels the first one is named, whichever thread finds its own first. */
Test(labels, out_of_range) {
    enum { N = 3000, RECORD = 3073 };
    static uint8_t bytes[N * RECORD];
    char folder[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 32];
    bytes[1234 * RECORD] = 10;
    bytes[1235 * RECORD] = 200;
    bytes[2900 * RECORD] = 99;
    make_folder(folder);
    make_file(folder, "data_batch_1.bin", bytes, sizeof(bytes));
    snprintf(spec, sizeof(spec), "cifar10:\"%s/data_batch_1.bin\"", folder);
    iter_dataset *data = open_spec(spec);
    for (int turn = 0; turn < 20; turn++)
        expect_refusal(data, NULL, ITER_EFORMAT, "label: sample 1234: label 10 is not in 0..9");
    iter_dataset_unref(data);
    make_file(folder, "data_batch_1.bin", bytes, 1000 * RECORD);
    data = open_spec(spec);
    make_file(folder, "data_batch_1.bin", bytes, 10 * RECORD);
    expect_refusal(data, NULL, ITER_EIO, "label: sample 10: ");
    iter_dataset_unref(data);
    make_folder_gone(folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(labels, made) {
    iter_dataset *data = open_spec("synthetic:?n=2000&classes=7&shape=4");
    expect_labels(data, NULL);
    iter_dataset_unref(data);
    data = open_spec("synthetic:cs224?n=10");
    expect_refusal(data, NULL, ITER_EINVAL, "field 'label' is f32 []; expected one integer");
    iter_dataset_unref(data);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(labels, in_memory) {
    enum { N = 300 };
    static float rows[N][2];
    static int32_t classes[N];
    static uint64_t large[N];
    static int8_t small[N];
    int64_t got[N];
    iter_error err = {0};
    iter_dataset *data;
    for (int i = 0; i < N; i++) {
        classes[i] = i % 5 - 2;
        large[i] = (uint64_t)i << 40;
        small[i] = (int8_t)(i % 200 - 100);
    }
    const iter_array arrays[] = {
        {"data", ITER_DATA, {.dtype = ITER_F32, .n_dims = 2, .dims = {N, 2}}, rows, 0},
        {"classes", ITER_LABEL, {.dtype = ITER_I32, .n_dims = 1, .dims = {N}}, classes, 0},
        {"large", ITER_DATA, {.dtype = ITER_U64, .n_dims = 1, .dims = {N}}, large, 0},
        {"small", ITER_DATA, {.dtype = ITER_I8, .n_dims = 1, .dims = {N}}, small, 0},
    };
    cr_assert_eq(iter__dataset_arrays(arrays, 4, false, &data, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter__dataset_labels(data, NULL, NULL, 0, N, got, &err), ITER_OK);
    for (int i = 0; i < N; i++)
        cr_assert_eq(got[i], classes[i]);
    cr_assert_eq(iter__dataset_labels(data, "large", NULL, 0, N, got, &err), ITER_OK);
    for (int i = 0; i < N; i++)
        cr_assert_eq(got[i], (int64_t)large[i]);
    cr_assert_eq(iter__dataset_labels(data, "small", NULL, 0, N, got, &err), ITER_OK);
    for (int i = 0; i < N; i++)
        cr_assert_eq(got[i], small[i]);
    large[17] = UINT64_MAX;
    cr_assert_eq(iter__dataset_labels(data, "large", NULL, 0, N, got, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "label: sample 17: large 18446744073709551615 is more"), "%s",
              err.message);
    iter_dataset_unref(data);
    cr_assert_eq(iter__dataset_arrays(arrays, 1, false, &data, &err), ITER_OK);
    cr_assert_eq(iter__dataset_labels(data, NULL, NULL, 0, N, got, &err), ITER_EINVAL);
    cr_assert(strstr(err.message, "it has no labels"), "%s", err.message);
    iter_dataset_unref(data);
}

/* Each allocation fails in turn: an error, and nothing leaks. */
Test(labels, without_memory) {
    static int64_t got[MAX_N];
    iter_dataset *data = open_spec("synthetic:?n=1000&classes=7&shape=4");
    const long live = iter__alloc_live();
    long n = 0;
    for (iter_status status = ITER_ENOMEM; status != ITER_OK; n++) {
        iter_error err = {0};
        cr_assert_lt(n, 20000);
        iter__alloc_fail_after = n;
        status = iter__dataset_labels(data, NULL, NULL, 0, 700, got, &err);
        iter__alloc_fail_after = -1;
        cr_assert(status == ITER_OK || status == ITER_ENOMEM, "%s", err.message);
        cr_assert_eq(iter__alloc_live(), live);
        if (n > 50) n += 97; /* every sample allocates alike */
    }
    cr_assert_gt(n, 3);
    iter_dataset_unref(data);
}
