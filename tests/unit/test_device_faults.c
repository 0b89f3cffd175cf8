/*
 * test_device_faults.c - a loader on a GPU whose driver fails: each of its calls once, an operation
 * long after it was queued, and each allocation. The error must be clean and come in order, nothing
 * may hang, and nothing may be left.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <iter/iter.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "tests/support/drive.h"
#include "tests/support/gpu_consumer.h"
#include "tests/support/own_dataset.h"

TestSuite(device_faults, .timeout = 240);

#define N 60

static gpu_consumer gpu;

static void begin(void) {
    if (!gpu_open(&gpu)) cr_skip("the fake driver is not in LD_LIBRARY_PATH");
}

/* The number of objects in the driver, the consumer's included. */
static long alive(void) {
    long n = 0;
    for (int kind = 0; kind < FAKE_CUDA_KINDS; kind++)
        n += gpu.fake->live((fake_cuda_kind)kind);
    return n;
}

static iter_loader_options options(int32_t memory, int32_t workers) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.memory.kind = memory;
    opt.workers = workers;
    opt.prefetch = opt.max_held = 1;
    opt.memory.limit = 64 << 20;
    opt.faults.timeout_ms = 20000; /* if a call hangs, this makes it an error */
    return opt;
}

/* Uses one batch as a trainer does; only the loader calls the driver. *n_right counts batches with
 * the right content. */
static iter_status use(iter_batch *batch, int32_t memory, int *n_right, iter_error *err) {
    iter_status status = ITER_OK;
    if (memory == ITER_MEMORY_DEVICE) status = iter_batch_wait(batch, gpu.streams[0], err);
    if (status == ITER_OK && memory == ITER_MEMORY_DEVICE)
        status = iter_batch_synchronize(batch, err);
    if (status == ITER_OK) {
        const bool right =
            memory != ITER_MEMORY_DEVICE || drive_hash_device(batch) == drive_hash(batch);
        cr_assert(right, "wrong bytes on the device");
        (*n_right)++;
        status = iter_batch_release(batch, gpu.streams[0], err);
    }
    iter_batch_unref(batch);
    return status;
}

/* A whole life of a loader: the first error, and how many batches were right. If next() fails, it
 * is called again. */
static iter_status go(int32_t memory, int32_t workers, int *n_right, iter_error *first) {
    static own_dataset own;
    own = (own_dataset){.n = N};
    iter_loader_options opt = options(memory, workers);
    iter_error err = {.status = ITER_OK};
    iter_dataset *data;
    iter_loader *loader = NULL;
    *n_right = 0;
    iter_status status = iter_dataset_create(&own_ops, &own, &data, &err);
    if (status == ITER_OK) {
        status = iter_dataloader_create(data, NULL, &opt, &loader, &err);
        iter_dataset_unref(data);
    }
    *first = err;
    for (int i = 0; loader && i < 12; i++) {
        iter_batch *batch;
        iter_status s = iter_loader_next(loader, &batch, &err);
        if (s == ITER_OK) s = use(batch, memory, n_right, &err);
        if (s == ITER_END || i == 9) {
            const iter_status reset = iter_loader_reset(loader, &err);
            cr_assert_geq(reset, 0, "%s", err.message);
        }
        if (s >= 0) continue;
        if (status == ITER_OK) *first = err;
        if (status == ITER_OK) status = s;
    }
    if (loader) {
        const iter_status s = iter_loader_stop(loader, &err);
        cr_assert_eq(s, ITER_OK, "%s", err.message);
    }
    iter_loader_unref(loader);
    return status;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void fail_each_call(int32_t memory, int32_t workers, CUresult result, bool lost) {
    int all, right;
    iter_error err;
    cr_assert_eq(go(memory, workers, &all, &err), ITER_OK, "%s", err.message);
    const long before = gpu.fake->calls(NULL);
    cr_assert_eq(go(memory, workers, &right, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(right, all);
    const long n = gpu.fake->calls(NULL) - before + 20; /* with workers the number varies */
    const long live = iter__alloc_live(), objects = alive();
    int n_failed = 0, n_went_on = 0;
    for (long i = 0; i < n; i++) {
        gpu.fake->fail(NULL, i, result);
        const iter_status s = go(memory, workers, &right, &err);
        gpu_reset(&gpu);
        cr_assert_eq(iter__alloc_live(), live, "call %ld: %s", i, s < 0 ? err.message : "fine");
        if (i % 25 == 24 || i == n - 1) /* counting is slow: the fake also keeps dead objects */
            cr_assert_eq(alive(), objects, "up to call %ld: %ld left in the driver, not %ld (%s)",
                         i, alive(), objects, gpu_leaks(gpu.fake));
        if (s == ITER_OK) continue;
        n_failed++;
        n_went_on += right > 0;
        cr_assert(s == ITER_EDEVICE || s == ITER_ENOMEM || s == ITER_EUNSUPPORTED,
                  "call %ld: %d %s", i, (int)s, err.message);
        cr_assert_eq(s, err.status);
        cr_assert(strstr(err.message, "CUDA") || strstr(err.message, "cu"), "call %ld: %s", i,
                  err.message);
        if (!lost && right > 0) /* one batch fails, or the end comes */
            cr_assert_leq(right, all);
    }
    cr_log_info("memory %d, %d workers, error %u: %ld calls, %d failed, %d of them after create",
                (int)memory, (int)workers, result, n, n_failed, n_went_on);
    cr_expect_gt(n_failed, 10);
}

Test(device_faults, each_call_on_a_device) {
    begin();
    for (int32_t workers = 0; workers <= 2; workers++) {
        fail_each_call(ITER_MEMORY_DEVICE, workers, CUDA_ERROR_INVALID_VALUE, false);
        fail_each_call(ITER_MEMORY_DEVICE, workers, CUDA_ERROR_ILLEGAL_ADDRESS, true);
    }
    fail_each_call(ITER_MEMORY_DEVICE, 0, CUDA_ERROR_OUT_OF_MEMORY, false);
    gpu_close(&gpu);
}

Test(device_faults, each_call_on_pinned_slots) {
    begin();
    for (int32_t workers = 0; workers <= 1; workers++)
        fail_each_call(ITER_MEMORY_PINNED, workers, CUDA_ERROR_ILLEGAL_STATE, false);
    gpu_close(&gpu);
}

/* ---- One batch ------------------------------------------------------------------------------- */

Test(device_faults, a_failing_copy_is_its_batchs_error) {
    begin();
    for (int32_t workers = 0; workers <= 2; workers++) {
        for (long k = 0; k < 6; k++) {
            own_dataset own = {.n = N};
            iter_dataset *data = own_open(&own, &own_ops);
            iter_loader_options opt = options(ITER_MEMORY_DEVICE, workers);
            gpu.fake->fail("cuMemcpyHtoDAsync", k, CUDA_ERROR_INVALID_VALUE);
            iter_loader *loader = drive_loader(data, NULL, &opt);
            int n_errors = 0, n_right = 0;
            iter_error err;
            iter_batch *batch;
            for (iter_status s; (s = iter_loader_next(loader, &batch, &err)) != ITER_END;) {
                if (s == ITER_OK) {
                    iter_error ignored;
                    cr_assert_eq(use(batch, ITER_MEMORY_DEVICE, &n_right, &ignored), ITER_OK);
                    continue;
                }
                n_errors++;
                cr_expect_eq(s, ITER_EDEVICE);
                cr_expect(strstr(err.message, "to the device (batch "), "%s", err.message);
                cr_expect(strstr(err.message, "cuMemcpyHtoDAsync"), "%s", err.message);
                /* Several workers may finish batches out of order, but errors must come in
                 * order. */
                char which[32];
                snprintf(which, sizeof(which), "(batch %d of", n_right);
                cr_expect(strstr(err.message, which), "%s: %s", which, err.message);
                if (workers < 2) cr_expect_eq(n_right, k);
            }
            cr_expect_eq(n_errors, 1);
            cr_expect_eq(n_right, 7);
            iter_loader_unref(loader);
            iter_dataset_unref(data);
        }
    }
    gpu_close(&gpu);
    cr_expect_null(gpu_leaks(gpu.fake), "%s", gpu_leaks(gpu.fake));
}

/* ---- A device that is lost ------------------------------------------------------------------- */

Test(device_faults, a_lost_device_answers_with_its_first_error) {
    begin();
    gpu_close(&gpu);
    for (int32_t workers = 0; workers <= 2; workers++) {
        for (long k = 0; k < 24; k++) {
            cr_assert(gpu_open(&gpu)); /* the last context cannot be used any more */
            own_dataset own = {.n = N};
            iter_dataset *data = own_open(&own, &own_ops);
            iter_loader_options opt = options(ITER_MEMORY_DEVICE, workers);
            const long live = iter__alloc_live();
            gpu.fake->fail_late(k, CUDA_ERROR_ILLEGAL_ADDRESS);
            iter_loader *loader = drive_loader(data, NULL, &opt);
            iter_error err, first = {.status = ITER_OK};
            int n_right = 0, n_lost = 0;
            iter_status used = ITER_OK;
            for (int i = 0; i < 30; i++) {
                iter_batch *batch;
                iter_status s = iter_loader_next(loader, &batch, &err);
                if (s == ITER_OK) {
                    s = used = use(batch, ITER_MEMORY_DEVICE, &n_right, &err);
                    if (s < 0) continue; /* a later next() will report it, too */
                }
                if (s == ITER_END) s = iter_loader_reset(loader, &err);
                if (s == ITER_OK) {
                    cr_assert_eq(n_lost, 0, "%d workers, operation %ld: found again", (int)workers,
                                 k);
                    continue;
                }
                cr_assert_eq(s, ITER_EDEVICE, "%s", err.message);
                cr_assert(strstr(err.message, "ILLEGAL_ADDRESS"), "%s", err.message);
                const char *what = strstr(err.message, "GPU 0:");
                cr_assert_not_null(what, "%s", err.message);
                if (n_lost++ == 0) {
                    snprintf(first.message, sizeof(first.message), "%s", what);
                } else {
                    cr_expect_str_eq(what, first.message);
                }
            }
            cr_expect_gt(n_lost, 0, "%d workers, operation %ld: %d were right, %ld came, %s",
                         (int)workers, k, n_right, gpu.fake->operations(),
                         used < 0 ? "use failed" : "use was fine");
            cr_assert_eq(iter_loader_stop(loader, &err), ITER_OK, "%s", err.message);
            iter_loader_unref(loader);
            cr_expect_eq(iter__alloc_live(), live);
            iter_dataset_unref(data);
            gpu_close(&gpu);
            cr_expect_null(gpu_leaks(gpu.fake), "%d workers, operation %ld: %s", (int)workers, k,
                           gpu_leaks(gpu.fake));
        }
    }
}

/* ---- Allocations ----------------------------------------------------------------------------- */

static void fail_each_allocation(int32_t memory, int32_t workers) {
    int all, right;
    iter_error err;
    cr_assert_eq(go(memory, workers, &all, &err), ITER_OK, "%s", err.message);
    const long live = iter__alloc_live(), objects = alive();
    const long before = iter__alloc_count();
    cr_assert_eq(go(memory, workers, &right, &err), ITER_OK, "%s", err.message);
    const long n = iter__alloc_count() - before;
    cr_assert_gt(n, 20);
    for (long i = 0; i < n; i++) {
        iter__alloc_fail_after = i;
        const iter_status s = go(memory, workers, &right, &err);
        const bool happened = iter__alloc_fail_after < 0;
        iter__alloc_fail_after = -1;
        cr_assert(happened, "allocation %ld of %ld was not asked for", i, n);
        cr_assert_eq(s, ITER_ENOMEM, "allocation %ld: %d %s", i, (int)s, err.message);
        cr_assert_gt(strlen(err.message), 0);
        cr_assert_eq(iter__alloc_live(), live, "allocation %ld: %s", i, err.message);
        cr_assert_eq(alive(), objects, "allocation %ld: %s", i, err.message);
    }
    cr_log_info("memory %d, %d workers: %ld allocations", (int)memory, (int)workers, n);
}

Test(device_faults, each_allocation) {
    begin();
    fail_each_allocation(ITER_MEMORY_DEVICE, 0);
    fail_each_allocation(ITER_MEMORY_DEVICE, 2);
    fail_each_allocation(ITER_MEMORY_PINNED, 1);
    gpu_close(&gpu);
    cr_expect_null(gpu_leaks(gpu.fake), "%s", gpu_leaks(gpu.fake));
}
