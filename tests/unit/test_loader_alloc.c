/*
 * test_loader_alloc.c - every allocation between opening a dataset and dropping its loader fails
 * once. The call must fail with ENOMEM and a message, or work without, and then all rows are right.
 * Nothing may leak.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <iter/iter.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "tests/support/drive.h"
#include "tests/support/make_data.h"
#include "tests/support/own_dataset.h"

TestSuite(loader_alloc, .timeout = 240);

/* One way to make a loader. */
typedef struct way {
    const char *name, *chain;
    int32_t source, workers;
    const char *sampler;
    bool variable;
    iter_status (*make)(const struct way *way, iter_chain *chain, const iter_loader_options *opt,
                        iter_loader **out, iter_error *err);
} way;

static char folder[512];
static own_dataset own;
static int n_released;

static void release(void *user) {
    (*(int *)user)++;
}

static int64_t length(const void *user, uint64_t index) {
    (void)user;
    return (int64_t)(index % 5) + 1;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static iter_status make_files(const way *w, iter_chain *chain, const iter_loader_options *opt,
                              iter_loader **out, iter_error *err) {
    (void)w;
    char spec[600];
    snprintf(spec, sizeof(spec), "cifar10:\"%s\"", folder);
    iter_dataset *dataset;
    iter_status s = iter_dataset_open(spec, NULL, &dataset, err);
    if (s < 0) return s;
    s = iter_dataloader_create(dataset, chain, opt, out, err);
    iter_dataset_unref(dataset);
    return s;
}

static iter_status make_own(const way *w, iter_chain *chain, const iter_loader_options *opt,
                            iter_loader **out, iter_error *err) {
    static iter_dataset_ops with_length;
    with_length = own_ops;
    if (w->variable) with_length.length = length;
    own.n = 60;
    own.variable = w->variable;
    iter_dataset *dataset;
    iter_status s = iter_dataset_create(&with_length, &own, &dataset, err);
    if (s < 0) return s;
    s = iter_dataloader_create(dataset, chain, opt, out, err);
    iter_dataset_unref(dataset);
    return s;
}

static iter_status make_arrays(const way *w, iter_chain *chain, const iter_loader_options *opt,
                               iter_loader **out, iter_error *err) {
    (void)w;
    static float data[60][4];
    static uint8_t labels[60];
    for (int i = 0; i < 60; i++) {
        for (int j = 0; j < 4; j++)
            data[i][j] = (float)(i * 4 + j);
        labels[i] = (uint8_t)i;
    }
    const iter_array arrays[] = {
        {.role = ITER_DATA,
         .desc = {.dtype = ITER_F32, .n_dims = 2, .dims = {60, 4}},
         .data = data},
        {.role = ITER_LABEL, .desc = {.dtype = ITER_U8, .n_dims = 1, .dims = {60}}, .data = labels},
    };
    return iter_ndarray_create(arrays, 2, chain, opt, out, err);
}

/* ---- Using ----------------------------------------------------------------------------------- */

/* The sum of the indices of the next batch's rows. */
static iter_status take(iter_loader *loader, uint64_t *sum, iter_error *err) {
    iter_batch *batch;
    const iter_status s = iter_loader_next(loader, &batch, err);
    if (s != ITER_OK) return s;
    for (uint32_t i = 0; i < iter_batch_describe(batch).n_rows; i++)
        *sum = *sum * 31 + iter_batch_index(batch)[i];
    iter_batch_unref(batch);
    return ITER_OK;
}

static iter_status use(iter_loader *loader, uint64_t *sum, iter_error *err) {
    char saved[512];
    size_t size;
    for (int i = 0; i < 3; i++)
        ITER_TRY(take(loader, sum, err));
    ITER_TRY(iter_loader_save(loader, saved, sizeof(saved), &size, err));
    ITER_TRY(take(loader, sum, err));
    ITER_TRY(iter_loader_restore(loader, saved, size, err));
    ITER_TRY(take(loader, sum, err));
    ITER_TRY(iter_loader_reset(loader, err));
    return take(loader, sum, err);
}

/* A whole life of a loader. */
static iter_status go(const way *w, uint64_t *sum, iter_error *err) {
    iter_chain *chain = NULL;
    iter_loader *loader = NULL;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8;
    opt.workers = w->workers;
    opt.reading.source = w->source;
    opt.shuffle = w->sampler ? ITER_SHUFFLE_NONE : ITER_SHUFFLE_FULL;
    opt.sampler.spec = w->sampler;
    opt.memory.limit = 64 << 20;
    opt.arrays.copy = 1;
    opt.arrays.release = release;
    opt.arrays.user = &n_released;
    opt.watch.stall_ms = w->workers ? 60000 : 0;
    uint64_t few[40];
    for (uint64_t i = 0; i < 40; i++)
        few[i] = 59 - i;
    opt.sampler.subset = few;
    opt.sampler.n_subset = 40;
    *sum = 0;
    iter_status s = w->chain ? iter_chain_parse(w->chain, NULL, &chain, err) : ITER_OK;
    if (s == ITER_OK) s = w->make(w, chain, &opt, &loader, err);
    if (s == ITER_OK) s = use(loader, sum, err);
    if (s < 0)
        cr_assert(loader || s == err->status, "%s: status %d, message of %d: %s", w->name, (int)s,
                  (int)err->status, err->message);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    return s;
}

static void walk(const way *w) {
    iter_error err = {.status = ITER_OK};
    uint64_t want, sum;
    /* what is allocated once and for all is allocated here */
    cr_assert_eq(go(w, &want, &err), ITER_OK, "%s: %s", w->name, err.message);
    const long live = iter__alloc_live();
    const long before = iter__alloc_count();
    cr_assert_eq(go(w, &sum, &err), ITER_OK, "%s: %s", w->name, err.message);
    cr_assert_eq(sum, want);
    const long n = iter__alloc_count() - before;
    cr_assert_gt(n, 5);
    int n_did_without = 0;
    for (long i = 0; i < n; i++) {
        err = (iter_error){.status = ITER_OK};
        const int closed = atomic_load(&own.n_closed);
        const int stopped = own.n_started - own.n_stopped;
        cr_assert_eq(stopped, 0);
        iter__alloc_fail_after = i;
        const iter_status s = go(w, &sum, &err);
        const bool happened = iter__alloc_fail_after < 0;
        iter__alloc_fail_after = -1;
        cr_assert(happened, "%s: allocation %ld of %ld was not asked for", w->name, i, n);
        cr_assert_eq(iter__alloc_live(), live,
                     "%s: %ld blocks leak after allocation %ld failed (%s)", w->name,
                     iter__alloc_live() - live, i, err.message);
        cr_assert_leq(atomic_load(&own.n_closed), closed + 1);
        if (s == ITER_OK) {
            n_did_without++;
            cr_assert_eq(sum, want, "%s: other rows after allocation %ld failed", w->name, i);
            continue;
        }
        cr_assert_eq(s, ITER_ENOMEM, "%s: allocation %ld: \"%s\" (%s)", w->name, i,
                     iter_status_text(s), err.message);
        cr_assert_gt(strlen(err.message), 0);
    }
    cr_log_info("%s: %ld allocations, %d of them can be done without", w->name, n, n_did_without);
    cr_assert_lt(n_did_without, n);
}

static void walk_all(const way *ways, int n) {
    drive_cifar(folder, 60);
    for (int i = 0; i < n; i++)
        walk(&ways[i]);
    make_folder_gone(folder);
}

#define IMAGES                                                                                \
    "random-crop:size=32,pad=4 | random-flip | normalize:mean=0.5;0.5;0.5,std=0.2;0.2;0.2 | " \
    "to:f32,nchw"

Test(loader_alloc, arrays) {
    walk_all((const way[]){{.name = "arrays", .make = make_arrays},
                           {.name = "arrays, a chain",
                            .make = make_arrays,
                            .chain = "normalize:mean=1,std=2 | to:f16",
                            .workers = 2}},
             2);
    cr_assert_gt(n_released, 0);
}

Test(loader_alloc, files_in_memory) {
    walk_all(
        (const way[]){
            {.name = "memory", .make = make_files, .chain = IMAGES, .source = ITER_SOURCE_MEMORY},
            {.name = "memory, 2 workers",
             .make = make_files,
             .chain = IMAGES,
             .source = ITER_SOURCE_MEMORY,
             .workers = 2},
            {.name = "auto", .make = make_files, .chain = NULL, .source = ITER_SOURCE_AUTO}},
        3);
}

Test(loader_alloc, files_read) {
    walk_all(
        (const way[]){
            {.name = "ring", .make = make_files, .chain = IMAGES, .source = ITER_SOURCE_RING},
            {.name = "ring, 2 workers",
             .make = make_files,
             .chain = IMAGES,
             .source = ITER_SOURCE_RING,
             .workers = 2},
            {.name = "pread", .make = make_files, .chain = IMAGES, .source = ITER_SOURCE_PREAD},
            {.name = "null", .make = make_files, .chain = IMAGES, .source = ITER_SOURCE_NULL}},
        4);
}

Test(loader_alloc, own_dataset) {
    walk_all(
        (const way[]){
            {.name = "own", .make = make_own, .chain = "to:f32"},
            {.name = "own, 2 workers", .make = make_own, .workers = 2},
            {.name = "own by name", .make = make_own, .sampler = "block:block=4,buffer=2"}},
        3);
}

Test(loader_alloc, buckets) {
    walk_all((const way[]){{.name = "buckets",
                            .make = make_own,
                            .chain = "pad-batch",
                            .sampler = "bucket:buckets=2;4",
                            .variable = true},
                           {.name = "buckets, 1 worker",
                            .make = make_own,
                            .chain = "pad-batch",
                            .sampler = "bucket:buckets=2;4",
                            .variable = true,
                            .workers = 1}},
             2);
}
