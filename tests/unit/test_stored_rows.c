/* test_stored_rows.c - rows that come as they lie in memory: views of the set, and gathers, against
 * plain loops over random shapes. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iter/iter.h>

#include "iter/core/gather.h"

TestSuite(stored_rows, .timeout = 60);

#define ROWS 100

typedef struct set {
    float data[ROWS][6];
    int64_t label[ROWS];
    int released;
} set;

static void fill(set *s) {
    memset(s, 0, sizeof(*s));
    for (int i = 0; i < ROWS; i++) {
        s->label[i] = 1000 + i;
        for (int j = 0; j < 6; j++)
            s->data[i][j] = (float)(i * 10 + j);
    }
}

static void release(void *user) {
    ((set *)user)->released++;
}

static iter_loader *make(set *s, const iter_loader_options *opt, const char *chain_text) {
    iter_array arrays[2] = {{.role = ITER_DATA,
                             .desc = {.dtype = ITER_F32, .n_dims = 2, .dims = {ROWS, 6}},
                             .data = s->data},
                            {.role = ITER_LABEL,
                             .desc = {.dtype = ITER_I64, .n_dims = 1, .dims = {ROWS}},
                             .data = s->label}};
    iter_chain *chain = NULL;
    iter_loader *loader;
    iter_error err;
    if (chain_text)
        cr_assert_eq(iter_chain_parse(chain_text, NULL, &chain, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_ndarray_create(arrays, 2, chain, opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    iter_chain_unref(chain);
    return loader;
}

static iter_batch *next(iter_loader *loader) {
    iter_batch *batch;
    iter_error err;
    const iter_status s = iter_loader_next(loader, &batch, &err);
    cr_assert_geq(s, 0, "%s", err.message);
    return batch;
}

static bool lies_in(const set *s, const void *data) {
    return (uintptr_t)data - (uintptr_t)s < sizeof(*s);
}

/* All rows, and whether batches are views where they should be. */
static void check_epoch(set *s, iter_loader *loader, bool views) {
    iter_batch *batch;
    while ((batch = next(loader))) {
        const iter_batch_info info = iter_batch_describe(batch);
        const float *data = iter_batch_tensor(batch, 0)->data;
        const int64_t *label = iter_batch_tensor(batch, 1)->data;
        const uint64_t *index = iter_batch_index(batch);
        bool follow = true;
        for (uint32_t i = 0; i < info.n_rows; i++) {
            cr_assert_eq(label[i], s->label[index[i]]);
            cr_assert_arr_eq(data + 6 * i, s->data[index[i]], sizeof(s->data[0]));
            follow &= index[i] == index[0] + i;
        }
        cr_assert_eq(iter_batch_is_view(batch), views && follow);
        cr_assert_eq(lies_in(s, data), views && follow);
        cr_assert_eq(lies_in(s, label), views && follow);
        if (!iter_batch_is_view(batch)) cr_assert_eq((uintptr_t)data % 64, 0);
        iter_batch_unref(batch);
    }
}

Test(stored_rows, views_wherever_rows_follow_one_another) {
    static set s;
    fill(&s);
    for (int workers = 0; workers <= 2; workers++) {
        for (int32_t last = ITER_LAST_KEEP; last <= ITER_LAST_ROLL_OVER; last++) {
            for (uint32_t ranks = 1; ranks <= 3; ranks++) {
                iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
                opt.batch_size = 7, opt.workers = workers, opt.last_batch = last;
                opt.ranks = ranks, opt.rank = ranks - 1;
                iter_loader *loader = make(&s, &opt, NULL);
                for (int epoch = 0; epoch < 3; epoch++) {
                    iter_error err;
                    check_epoch(&s, loader, true);
                    cr_assert_eq(iter_loader_reset(loader, &err), ITER_OK);
                }
                iter_loader_unref(loader);
            }
        }
    }
}

static iter_status collate(void *user, iter_batch_view *fields, int32_t n_fields, iter_error *err) {
    (void)user, (void)fields, (void)n_fields, (void)err;
    return ITER_OK;
}

Test(stored_rows, no_view_where_rows_change_or_may_be_written) {
    static set s;
    fill(&s);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8, opt.views = ITER_VIEWS_NO;
    iter_loader *loader = make(&s, &opt, NULL);
    check_epoch(&s, loader, false);
    iter_loader_unref(loader);

    opt.views = ITER_VIEWS_AUTO, opt.collate = collate;
    loader = make(&s, &opt, NULL);
    check_epoch(&s, loader, false);
    iter_loader_unref(loader);

    opt.collate = NULL;
    loader = make(&s, &opt, "cast:f64");
    iter_batch *batch = next(loader);
    cr_assert_not(iter_batch_is_view(batch));
    cr_assert_eq(((const double *)iter_batch_tensor(batch, 0)->data)[6], 10);
    iter_batch_unref(batch);
    iter_loader_unref(loader);

    opt.shuffle = ITER_SHUFFLE_FULL;
    for (int workers = 0; workers < 2; workers++) {
        opt.workers = workers;
        loader = make(&s, &opt, NULL);
        check_epoch(&s, loader, true); /* by chance, if at all */
        iter_loader_unref(loader);
    }

    opt.views = 2;
    iter_error err;
    const iter_array array = {
        .role = ITER_DATA, .desc = {.dtype = ITER_U8, .n_dims = 1, .dims = {4}}, .data = &s};
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, &opt, &loader, &err), ITER_EINVAL);
    cr_assert(strstr(err.message, "views is 2"), "%s", err.message);
}

Test(stored_rows, odd_address_is_copied) {
    static _Alignas(8) uint8_t bytes[41];
    for (int i = 0; i < 41; i++)
        bytes[i] = (uint8_t)i;
    const iter_array array = {.role = ITER_DATA,
                              .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {10}},
                              .data = bytes + 1};
    iter_error err;
    iter_loader *loader;
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, NULL, &loader, &err), ITER_OK, "%s",
                 err.message);
    iter_batch *batch = next(loader);
    cr_assert_not(iter_batch_is_view(batch));
    cr_assert_eq(memcmp(iter_batch_tensor(batch, 0)->data, bytes + 1, 40), 0);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
}

Test(stored_rows, rows_apart_are_copied) {
    static set s;
    fill(&s);
    iter_array array = {.role = ITER_DATA,
                        .desc = {.dtype = ITER_F32, .n_dims = 2, .dims = {ROWS / 2, 6}},
                        .data = s.data,
                        .stride_bytes = 2 * sizeof(s.data[0])};
    iter_error err;
    iter_loader *loader;
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, NULL, &loader, &err), ITER_OK, "%s",
                 err.message);
    iter_batch *batch = next(loader);
    cr_assert_not(iter_batch_is_view(batch));
    cr_assert_eq(((const float *)iter_batch_tensor(batch, 0)->data)[6], 20);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
}

/* The array is released after the last batch, not with the loader. */
Test(stored_rows, held_view_keeps_the_array) {
    static set s;
    fill(&s);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 10, opt.workers = 1;
    opt.arrays.release = release, opt.arrays.user = &s;
    iter_loader *loader = make(&s, &opt, NULL);
    iter_batch *batch = next(loader);
    cr_assert(iter_batch_is_view(batch));
    iter_loader_unref(loader);
    cr_assert_eq(s.released, 0);
    cr_assert_eq(((const float *)iter_batch_tensor(batch, 0)->data)[6], 10);
    iter_batch_unref(batch);
    cr_assert_eq(s.released, 1);
}

Test(stored_rows, view_is_read_only_in_dlpack) {
    static set s;
    fill(&s);
    for (int32_t views = ITER_VIEWS_AUTO; views <= ITER_VIEWS_NO; views++) {
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        opt.views = views;
        iter_loader *loader = make(&s, &opt, NULL);
        iter_batch *batch = next(loader);
        iter_error err;
        struct DLManagedTensorVersioned *managed;
        struct DLManagedTensor *legacy;
        cr_assert_eq(iter_batch_to_dlpack(batch, 0, &managed, &err), ITER_OK);
        iter_batch_unref(batch);
        iter_dlpack *versioned = (iter_dlpack *)(void *)managed;
        const bool is_view = views == ITER_VIEWS_AUTO;
        cr_assert_eq((versioned->flags & ITER_DLPACK_READ_ONLY) != 0, is_view);
        cr_assert_eq(lies_in(&s, versioned->tensor.data), is_view);
        if (is_view) cr_assert_eq(iter_dlpack_to_legacy(managed, &legacy, &err), ITER_EUNSUPPORTED);
        versioned->deleter(managed);
        iter_loader_unref(loader);
    }
}

/* A position that was saved between views leads to the same rows. */
Test(stored_rows, position_between_views) {
    static set s;
    fill(&s);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 9, opt.workers = 1;
    iter_error err;
    uint8_t saved[1024];
    size_t size;
    iter_loader *loader = make(&s, &opt, NULL);
    for (int i = 0; i < 4; i++)
        iter_batch_unref(next(loader));
    cr_assert_eq(iter_loader_save(loader, saved, sizeof(saved), &size, &err), ITER_OK);
    iter_loader_unref(loader);
    opt.workers = 0;
    loader = make(&s, &opt, NULL);
    cr_assert_eq(iter_loader_restore(loader, saved, size, &err), ITER_OK, "%s", err.message);
    iter_batch *batch = next(loader);
    cr_assert(iter_batch_is_view(batch));
    cr_assert_eq(iter_batch_tensor(batch, 0)->data, s.data[36]);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
}

/* A set that was loaded is viewed like an array; a label out of its limit is still found. */
static void check_cifar(const char *folder, int label) {
    static uint8_t records[4 * 3073];
    char path[128], spec[128];
    iter_error err;
    iter_dataset *dataset;
    iter_loader *loader;
    iter_batch *batch;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    for (int i = 0; i < 4; i++)
        memset(records + (size_t)i * 3073, i + 1, 3073);
    records[3 * 3073] = (uint8_t)label;
    snprintf(path, sizeof(path), "%s/test_batch.bin", folder);
    snprintf(spec, sizeof(spec), "cifar10:%s?split=test", folder);
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(records, 1, sizeof(records), file) == sizeof(records));
    fclose(file);
    opt.batch_size = 2, opt.reading.source = ITER_SOURCE_MEMORY;
    cr_assert_eq(iter_dataset_open(spec, NULL, &dataset, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_dataloader_create(dataset, NULL, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    batch = next(loader);
    const uint8_t *data = iter_batch_tensor(batch, 0)->data;
    cr_assert_eq(iter_batch_is_view(batch), label < 10);
    cr_assert_eq(data[0], 1);
    cr_assert_eq(data[3072], 2);
    iter_batch_unref(batch);
    cr_assert_eq(iter_loader_next(loader, &batch, &err), label < 10 ? ITER_OK : ITER_EFORMAT);
    if (batch)
        iter_batch_unref(batch);
    else
        cr_assert(strstr(err.message, "label 12 is not in 0..9"), "%s", err.message);
    iter_loader_unref(loader);
    iter_dataset_unref(dataset);
}

Test(stored_rows, loaded_sets) {
    char folder[] = "/tmp/iter-stored-XXXXXX";
    cr_assert(mkdtemp(folder));
    check_cifar(folder, 9);
    check_cifar(folder, 12);
    char path[128];
    snprintf(path, sizeof(path), "%s/test_batch.bin", folder);
    unlink(path);
    rmdir(folder);
}

static void check_workers(set *s, const iter_loader_options *opt, const char *chain,
                          const char *why) {
    iter_loader *loader = make(s, opt, chain);
    const char *plan = iter_loader_plan_text(loader);
    cr_assert_eq(strstr(plan, "workers: none") != NULL, why != NULL, "%s", plan);
    if (why)
        cr_assert(strstr(plan, why) && strstr(plan, "made in the caller's thread"), "%s", plan);
    iter_loader_unref(loader);
}

/* None where threads only cost: for views, and on one core for rows in memory. */
Test(stored_rows, auto_needs_no_worker) {
    static set s;
    fill(&s);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    const bool one_core = iter_cores() == 1;
    opt.workers = ITER_WORKERS_AUTO;
    check_workers(&s, &opt, NULL, "because batches are views");
    opt.shuffle = ITER_SHUFFLE_FULL;
    check_workers(&s, &opt, NULL, one_core ? "there is one core" : NULL);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    check_workers(&s, &opt, NULL, "there is one core");
    check_workers(&s, &opt, "cast:f64", NULL);
    opt.collate = collate; /* it may cost more than the rows */
    check_workers(&s, &opt, NULL, NULL);
    opt.collate = NULL, opt.workers = 1;
    check_workers(&s, &opt, NULL, NULL);
}

/* ---- The gather ------------------------------------------------------------------------------ */

static uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

Test(stored_rows, gather_is_a_loop_of_copies) {
    static uint8_t from[1 << 16];
    uint32_t state = 7;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)draw(&state);
    static const size_t sizes[] = {0,  1,  2,  3,  4,  7,   8,   12,   16,
                                   17, 31, 32, 33, 64, 100, 256, 1000, 4100};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        for (uint32_t n = 0; n < 70; n += n < 4 ? 1 : 13) {
            const size_t bytes = sizes[k], stride = bytes + draw(&state) % 3;
            const uint64_t rows = sizeof(from) / (stride ? stride : 1);
            const uint32_t known = n + draw(&state) % 40;
            uint64_t index[128];
            for (uint32_t i = 0; i < known; i++)
                index[i] = draw(&state) % rows;
            uint8_t *out = malloc(n * bytes); /* exact, for ASan */
            cr_assert(out || n * bytes == 0);
            iter__gather(out, from, stride, bytes, index, n, known);
            for (uint32_t i = 0; i < n; i++)
                cr_assert_eq(memcmp(out + i * bytes, from + index[i] * stride, bytes), 0,
                             "%zu bytes, row %u of %u", bytes, i, n);
            free(out);
        }
    }
}
