/*
 * stress_device_rows.c - rows that a kernel finishes, and resident sets, under many workers, slow
 * streams, held batches, resets and seeks: all rows must have the bits of the host's rows.
 */
#include <stdlib.h>

#include <iter/iter.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/fake_kernels.h"
#include "tests/support/gpu_consumer.h"
#include "tests/support/make_data.h"

#define N     400
#define CHAIN "random-crop:size=32,pad=4 | random-flip | normalize:0.5,0.25 | to:f16,nhwc"

static gpu_consumer gpu;
static char folder[512];

static iter_loader *open_loader(int way, int32_t workers) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 25;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.workers = workers;
    opt.seed = 3;
    opt.faults.timeout_ms = 60000;
    opt.memory.kind = way == 0 ? ITER_MEMORY_HOST : ITER_MEMORY_DEVICE;
    opt.memory.finish = way == 1 ? ITER_FINISH_DEVICE : ITER_FINISH_AUTO;
    opt.memory.resident = way == 2 ? ITER_RESIDENT_YES : ITER_RESIDENT_NO;
    iter_dataset *data = drive_open(folder);
    iter_chain *chain = drive_chain(CHAIN);
    iter_loader *loader = drive_loader(data, chain, &opt);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    return loader;
}

/* The expected hash of batch b of epoch e. */
static uint64_t want[3][N / 25];

static void learn(void) {
    iter_loader *loader = open_loader(0, 0);
    iter_error err;
    for (int e = 0; e < 3; e++) {
        iter_batch *batch;
        while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
            want[e][iter_batch_describe(batch).number] = drive_hash(batch);
            iter_batch_unref(batch);
        }
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    iter_loader_unref(loader);
}

static void check(iter_batch *batch) {
    iter_error err;
    const iter_batch_info info = iter_batch_describe(batch);
    EXPECT_OK(iter_batch_synchronize(batch, &err), &err);
    EXPECT_EQ(drive_hash_device(batch), want[info.epoch][info.number]);
}

/* Holds two batches at a time; a stream reads them after their last reference is dropped. */
static void run(int way, int32_t workers, uint32_t seed) {
    iter_loader *loader = open_loader(way, workers);
    iter_batch *held = NULL;
    iter_error err;
    for (int i = 0; i < 70; i++) {
        iter_batch *batch;
        seed = seed * 1664525 + 1013904223;
        const iter_status s = iter_loader_next(loader, &batch, &err);
        if (s == ITER_OK) {
            check(batch);
            if (held) check(held);
            if (held) EXPECT_OK(iter_batch_release(held, gpu.streams[i % 3], &err), &err);
            iter_batch_unref(held);
            held = batch;
        } else if (!EXPECT_EQ(s, ITER_END)) {
            fprintf(stderr, "  %s\n", err.message);
            break;
        }
        if (s == ITER_END || seed >> 28 == 0)
            EXPECT_OK(
                iter_loader_seek(loader, (seed >> 8) % 3, (uint64_t)((seed >> 12) % 16) * 25, &err),
                &err);
        if (iter_batch_describe(held).epoch == 2 && iter_batch_describe(held).number > 10)
            EXPECT_OK(iter_loader_seek(loader, 0, 0, &err), &err);
    }
    iter_batch_unref(held);
    iter_loader_unref(loader);
}

int main(void) {
    if (!gpu_open(&gpu)) SKIP("the fake driver is not in LD_LIBRARY_PATH");
    fake_kernels_register(gpu.fake);
    drive_cifar(folder, N);
    learn();
    for (int way = 1; way <= 2; way++)
        for (int32_t workers = 0; workers <= 8; workers += workers < 2 ? 1 : 6)
            for (unsigned delay = 0; delay <= 100; delay += 100) {
                gpu.fake->delay(FAKE_CUDA_ALL, delay);
                run(way, workers, (uint32_t)workers * 7 + delay);
            }
    gpu.fake->delay(FAKE_CUDA_ALL, 0);
    make_folder_gone(folder);
    gpu_close(&gpu);
    EXPECT(gpu_leaks(gpu.fake) == NULL);
    return EXPECT_DONE();
}
