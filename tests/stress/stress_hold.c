/*
 * stress_hold.c - back-pressure is a free slot and nothing else: batch k is held for ever, for
 * every k, and all others must come. One batch more than max_held fails with ESTATE and a message;
 * nothing deadlocks.
 */
#include <stdio.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

#define N 160

static char folder[512];

static void hold(iter_dataset *data, int32_t source, int32_t workers, uint32_t k,
                 uint32_t prefetch) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.reading.source = source;
    opt.workers = workers;
    opt.prefetch = prefetch;
    opt.memory.limit = 64 << 20;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_error err;
    iter_batch *batch, *held = NULL;
    uint32_t n = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        iter_status s;
        while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
            EXPECT_EQ(drive_wrong_rows(batch), 0);
            if (n++ == k) {
                held = batch;
            } else {
                iter_batch_unref(batch);
            }
        }
        EXPECT_STATUS(s, ITER_END, &err);
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    EXPECT_EQ(n, 20);
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    iter_batch *second = batch;
    EXPECT_ERROR(iter_loader_next(loader, &batch, &err), ITER_ESTATE, &err, "2 batches are held");
    iter_batch_unref(second);
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    iter_loader_unref(loader); /* batches outlive the loader */
    EXPECT_EQ(drive_wrong_rows(held), 0);
    EXPECT_EQ(drive_wrong_rows(batch), 0);
    iter_batch_unref(batch);
    iter_batch_unref(held);
}

int main(void) {
    drive_cifar(folder, N);
    static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
    for (int s = 0; s < 3; s++) {
        iter_dataset *data = drive_open(folder);
        for (int32_t workers = 0; workers <= 3; workers++) {
            for (uint32_t k = 0; k < 20; k++)
                hold(data, sources[s], workers, k, k % 3 == 0 ? 1 : 2);
        }
        iter_dataset_unref(data);
    }
    make_folder_gone(folder);
    return EXPECT_DONE();
}
