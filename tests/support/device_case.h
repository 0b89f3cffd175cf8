/*
 * device_case.h - setup and teardown of unit tests of loaders on the fake GPU. A test calls
 * device_begin() first, which skips the test if the fake is unavailable, and device_end() last,
 * which fails if anything is left in the driver.
 */
#ifndef TESTS_SUPPORT_DEVICE_CASE_H
#define TESTS_SUPPORT_DEVICE_CASE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <iter/iter.h>

#include "iter/core/alloc.h"
#include "tests/support/drive.h"
#include "tests/support/gpu_consumer.h"
#include "tests/support/make_data.h"

#define DEVICE_SAMPLES 150

static gpu_consumer gpu;
static char folder[512];

static inline void device_begin(void) {
    if (!gpu_open(&gpu)) cr_skip("the fake driver is not in LD_LIBRARY_PATH");
    drive_cifar(folder, DEVICE_SAMPLES);
}

static inline void device_end(void) {
    make_folder_gone(folder);
    gpu_close(&gpu);
    cr_expect_null(gpu_leaks(gpu.fake), "left in the driver: %s", gpu_leaks(gpu.fake));
    cr_expect_eq(iter__alloc_held(ITER_ALLOC_PINNED).now, 0);
    cr_expect_eq(iter__alloc_held(ITER_ALLOC_DEVICE).now, 0);
}

static inline iter_loader_options options(int32_t memory) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.memory.kind = memory;
    opt.memory.limit = 64 << 20;
    return opt;
}

static inline iter_loader *open_loader(const iter_loader_options *opt) {
    iter_dataset *data = drive_open(folder);
    iter_loader *loader = drive_loader(data, NULL, opt);
    iter_dataset_unref(data);
    return loader;
}

static inline iter_batch *take(iter_loader *loader) {
    iter_error err;
    iter_batch *batch;
    const iter_status s = iter_loader_next(loader, &batch, &err);
    cr_assert_eq(s, ITER_OK, "%d %s", (int)s, s < 0 ? err.message : "");
    return batch;
}

#define OK(call)                                                 \
    do {                                                         \
        const iter_status s_ = (call);                           \
        cr_assert_eq(s_, ITER_OK, "%s: %s", #call, err.message); \
    } while (0)

#define FAILS(call, want, part)                                                           \
    do {                                                                                  \
        const iter_status s_ = (call);                                                    \
        cr_assert_eq(s_, want, "%s: %d (%s)", #call, (int)s_, s_ < 0 ? err.message : ""); \
        cr_expect(strstr(err.message, part), "%s: %s", #call, err.message);               \
    } while (0)

static inline iter_loader_stats stats_of(iter_loader *loader) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    iter_error err;
    OK(iter_loader_stats_read(loader, &stats, &err));
    int32_t n = 0; /* a build without io_uring reports that, too; ignore it */
    for (int32_t f = 0; f < stats.n_fallbacks; f++) {
        if (strncmp(stats.fallbacks[f], "ring: ", 6) == 0) continue;
        if (n != f) memcpy(stats.fallbacks[n], stats.fallbacks[f], sizeof(stats.fallbacks[0]));
        n++;
    }
    stats.n_fallbacks = n;
    return stats;
}

/* Sums the hashes of all batches of two epochs: on the device, after comparing each with its copy
 * on the host, or on the host only. */
static inline uint64_t sum_of(iter_loader *loader, bool on_device) {
    uint64_t sum = 0;
    iter_error err;
    for (int epoch = 0; epoch < 2; epoch++) {
        iter_batch *batch;
        iter_status s;
        while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
            if (on_device) {
                OK(iter_batch_synchronize(batch, &err));
                const uint64_t device = drive_hash_device(batch);
                cr_assert_eq(device, drive_hash(batch), "batch %d of epoch %d",
                             (int)iter_batch_describe(batch).number, epoch);
                sum += device;
            } else {
                sum += drive_hash(batch);
            }
            iter_batch_unref(batch);
        }
        cr_assert_eq(s, ITER_END, "%s", s < 0 ? err.message : "");
        OK(iter_loader_reset(loader, &err));
    }
    return sum;
}

#endif
