/*
 * test_no_device.c - page-locked and device memory without a driver: refused with the requirements,
 * and no message if neither was requested.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <string.h>

#include <iter/iter.h>

#include "tests/support/own_dataset.h"

TestSuite(no_device, .timeout = 30);

static void skip_with_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver) cr_skip("there is a CUDA driver");
}

static iter_status create(int32_t memory, iter_loader **out, iter_error *err) {
    static own_dataset own;
    own = (own_dataset){.n = 20};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.memory.kind = memory;
    const iter_status status = iter_dataloader_create(data, NULL, &opt, out, err);
    iter_dataset_unref(data);
    return status;
}

Test(no_device, what_was_demanded_is_refused) {
    skip_with_driver();
    iter_error err;
    iter_loader *loader;
    cr_assert_eq(create(ITER_MEMORY_PINNED, &loader, &err), ITER_EUNSUPPORTED);
    cr_expect_null(loader);
    cr_expect(strstr(err.message, "memory: pinned: there is no CUDA driver"), "%s", err.message);
    cr_assert_eq(create(ITER_MEMORY_DEVICE, &loader, &err), ITER_EUNSUPPORTED);
    cr_expect(strstr(err.message, "memory: device: there is no CUDA driver"), "%s", err.message);
    cr_expect(strstr(err.message, "12.0 or newer"), "%s", err.message);
}

Test(no_device, auto_is_the_hosts) {
    skip_with_driver();
    iter_error err;
    iter_loader *loader;
    cr_assert_eq(create(ITER_MEMORY_AUTO, &loader, &err), ITER_OK, "%s", err.message);
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    cr_assert_eq(iter_loader_stats_read(loader, &stats, &err), ITER_OK);
    cr_expect_eq(stats.n_fallbacks, 0); /* no more was requested */
    cr_expect_eq(stats.pinned_bytes, 0);
    cr_expect_str_empty(stats.device);
    iter_batch *batch;
    cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK, "%s", err.message);
    cr_expect_null(iter_batch_device_tensor(batch, 0));
    cr_expect_eq(iter_batch_wait(batch, NULL, &err), ITER_ESTATE);
    cr_expect_eq(iter_batch_release(batch, NULL, &err), ITER_ESTATE);
    cr_expect_eq(iter_batch_synchronize(batch, &err), ITER_ESTATE);
    cr_expect_leq(iter_batch_slot(batch), 4);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
}
