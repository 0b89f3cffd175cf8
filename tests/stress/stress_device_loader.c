/*
 * stress_device_loader.c - loaders on the fake GPU, which is slow at random places: batch k held
 * for ever, for every k; next, reset, seek, restore, cancel and unref at random moments with copies
 * in flight and several streams that train. Streams must read the batch that they were given, and
 * the driver must have nothing left at the end. Seeded.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/gpu_consumer.h"
#include "tests/support/make_data.h"

#define N 160

static char folder[512];
static gpu_consumer gpu;

static uint32_t draw(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

/* ---- Held for ever --------------------------------------------------------------------------- */

static void hold(iter_dataset *data, int32_t workers, uint32_t k) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.workers = workers;
    opt.prefetch = k % 3 == 0 ? 1 : 2;
    opt.memory.kind = ITER_MEMORY_DEVICE;
    opt.memory.limit = 64 << 20;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_error err;
    iter_batch *batch, *held = NULL;
    uint32_t n = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        iter_status s;
        while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
            if (n++ == k) {
                held = batch;
            } else {
                EXPECT_OK(gpu_train(&gpu, (int)n % 2, batch, &err), &err);
            }
        }
        EXPECT_STATUS(s, ITER_END, &err);
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    EXPECT_EQ(n, 20);
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    iter_batch *second = batch;
    EXPECT_ERROR(iter_loader_next(loader, &batch, &err), ITER_ESTATE, &err, "2 batches are held");
    EXPECT_OK(gpu_train(&gpu, 0, second, &err), &err);
    iter_loader_unref(loader); /* batches outlive the loader */
    EXPECT_OK(iter_batch_synchronize(held, &err), &err);
    EXPECT_EQ(drive_wrong_rows(held), 0);
    EXPECT(drive_hash(held) == drive_hash_device(held));
    EXPECT_OK(gpu_train(&gpu, 1, held, &err), &err);
}

static void hold_each(void) {
    iter_dataset *data = drive_open(folder);
    for (int32_t workers = 0; workers <= 3; workers++) {
        for (uint32_t k = 0; k < 20; k += workers ? 1 : 3) {
            gpu.fake->delay(gpu.streams[k % 2], 200);
            hold(data, workers, k);
        }
    }
    gpu_reset(&gpu);
    iter_dataset_unref(data);
}

/* ---- Random ---------------------------------------------------------------------------------- */

static iter_loader_options random_options(uint64_t *rng) {
    static const int32_t sources[] = {ITER_SOURCE_AUTO, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8u << draw(rng, 3);
    opt.workers = (int32_t)draw(rng, 4);
    opt.prefetch = 1 + draw(rng, 4);
    opt.max_held = 1 + draw(rng, 3);
    opt.shuffle = (int32_t)draw(rng, 6);
    opt.last_batch = (int32_t)draw(rng, 5);
    opt.seed = draw(rng, 1000);
    opt.reading.source = sources[draw(rng, 3)];
    opt.memory.kind = draw(rng, 4) ? ITER_MEMORY_DEVICE : ITER_MEMORY_PINNED;
    opt.memory.limit = 64 << 20;
    opt.faults.timeout_ms = draw(rng, 3) ? 0 : 60000;
    return opt;
}

/* Uses a batch as a correct trainer does, or drops it early, before or after its copy has ended. */
static void use_batch(const iter_loader_options *opt, iter_batch *batch, uint64_t *rng) {
    iter_error err;
    const int stream = (int)draw(rng, 3);
    EXPECT_EQ(drive_wrong_rows(batch), 0);
    if (opt->memory.kind == ITER_MEMORY_PINNED) {
        if (draw(rng, 2)) EXPECT_OK(iter_batch_release(batch, gpu.streams[stream], &err), &err);
        iter_batch_unref(batch);
        return;
    }
    const uint32_t what = draw(rng, 6);
    if (what == 1) EXPECT_OK(iter_batch_synchronize(batch, &err), &err);
    if (what == 2) EXPECT_OK(iter_batch_wait(batch, gpu.streams[stream], &err), &err);
    if (what < 3) {
        iter_batch_unref(batch);
        return;
    }
    if (what == 3) { /* two streams */
        EXPECT_OK(iter_batch_wait(batch, gpu.streams[3], &err), &err);
        gpu_look(&gpu, 3, batch);
        EXPECT_OK(iter_batch_release(batch, gpu.streams[3], &err), &err);
    }
    EXPECT_OK(gpu_train(&gpu, stream, batch, &err), &err);
}

static void one_step(iter_loader *loader, const iter_loader_options *opt, uint64_t *rng,
                     uint8_t saved[1024], size_t *size) {
    iter_error err;
    iter_batch *batch;
    iter_status s = ITER_OK;
    const uint32_t what = draw(rng, 20);
    if (what < 14) {
        s = iter_loader_next(loader, &batch, &err);
        if (s == ITER_OK) use_batch(opt, batch, rng);
        if (s == ITER_END) s = iter_loader_reset(loader, &err);
    } else if (what < 16) {
        s = iter_loader_reset(loader, &err);
    } else if (what < 17) {
        s = iter_loader_seek(loader, opt->last_batch == ITER_LAST_ROLL_OVER ? 0 : draw(rng, 3), 0,
                             &err);
    } else if (what < 18) {
        s = iter_loader_save(loader, saved, 1024, size, &err);
    } else if (what < 19 && *size) {
        s = iter_loader_restore(loader, saved, *size, &err);
    } else {
        gpu.fake->delay(gpu.streams[draw(rng, 4)], draw(rng, 800));
    }
    if (s != ITER_ECANCELED) EXPECT_OK(s, &err);
}

static void *cancel_later(void *loader) {
    const struct timespec pause = {.tv_nsec = 3000000};
    nanosleep(&pause, NULL);
    iter_loader_cancel(loader);
    iter_loader_unref(loader);
    return NULL;
}

static void run(uint64_t seed) {
    uint64_t rng = seed * 77 + 1;
    iter_dataset *data = drive_open(folder);
    const iter_loader_options opt = random_options(&rng);
    gpu.fake->delay(FAKE_CUDA_ALL, draw(&rng, 300));
    iter_loader *loader = drive_loader(data, NULL, &opt);
    pthread_t other;
    const bool cancels = draw(&rng, 3) == 0;
    if (cancels) {
        iter_loader_ref(loader);
        if (pthread_create(&other, NULL, cancel_later, loader) != 0) abort();
    }
    uint8_t saved[1024];
    size_t size = 0;
    const uint32_t steps = 5 + draw(&rng, 60);
    for (uint32_t i = 0; i < steps; i++)
        one_step(loader, &opt, &rng, saved, &size);
    iter_loader_unref(loader);
    if (cancels) pthread_join(other, NULL);
    iter_dataset_unref(data);
    gpu_reset(&gpu);
    EXPECT_EQ(gpu.fake->live(FAKE_CUDA_MEMORY), 0);
    EXPECT_EQ(gpu.fake->live(FAKE_CUDA_PINNED), 0);
    EXPECT_EQ(gpu.fake->live(FAKE_CUDA_EVENTS), 0);
}

int main(int argc, char **argv) {
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0,
                   n = argc > 2 ? strtoull(argv[2], NULL, 10) : 150;
    if (!gpu_open(&gpu)) SKIP("the fake driver is not in LD_LIBRARY_PATH");
    drive_cifar(folder, N);
    hold_each();
    for (uint64_t seed = first; seed < first + n && !EXPECT_DONE(); seed++) {
        run(seed);
        if (EXPECT_DONE()) fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    }
    make_folder_gone(folder);
    EXPECT(atomic_load(&gpu.n_looked) > 500);
    EXPECT_EQ(atomic_load(&gpu.n_wrong), 0);
    gpu_close(&gpu);
    EXPECT_STR(gpu_leaks(gpu.fake) ? gpu_leaks(gpu.fake) : "nothing", "nothing");
    return EXPECT_DONE();
}
