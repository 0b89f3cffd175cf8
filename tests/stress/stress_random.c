/*
 * stress_random.c - next, reset, seek, save, restore, cancel and unref at random moments, with slow
 * and failing sources, while another thread cancels or the process goes on. Rows must always be
 * what their index says. Seeded.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/source_fault.h"

#define N 320

static char folder[512];

static uint32_t draw(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

static iter_loader_options random_options(uint64_t *rng) {
    static const int32_t sources[] = {ITER_SOURCE_AUTO, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8u << draw(rng, 3);
    opt.workers = (int32_t)draw(rng, 5);
    opt.prefetch = 1 + draw(rng, 4);
    opt.shuffle = (int32_t)draw(rng, 6);
    opt.last_batch = (int32_t)draw(rng, 5);
    opt.ranks = 1 + draw(rng, 3);
    opt.rank = draw(rng, opt.ranks);
    opt.seed = draw(rng, 1000);
    opt.reading.source = sources[draw(rng, 3)];
    opt.memory.limit = 64 << 20;
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    if (draw(rng, 3) == 0)
        opt.reading.ops = draw(rng, 2) ? &source_fault_ops : &source_fault_sync_ops;
    return opt;
}

static void one_step(iter_loader *loader, bool rolls, uint64_t *rng, uint8_t saved[1024],
                     size_t *size) {
    iter_error err;
    iter_batch *batch;
    const uint32_t what = draw(rng, 20);
    if (what < 14) {
        const iter_status s = iter_loader_next(loader, &batch, &err);
        if (s == ITER_OK) {
            EXPECT_EQ(drive_wrong_rows(batch), 0);
            iter_batch_unref(batch);
        } else if (s == ITER_END) {
            EXPECT_OK(iter_loader_reset(loader, &err), &err);
        } else {
            EXPECT_STATUS(s, ITER_ECANCELED, &err);
        }
    } else if (what < 16) {
        const iter_status s = iter_loader_reset(loader, &err);
        if (s != ITER_ECANCELED) EXPECT_OK(s, &err);
    } else if (what < 17) {
        const iter_status s = iter_loader_seek(loader, rolls ? 0 : draw(rng, 3), 0, &err);
        if (s != ITER_ECANCELED) EXPECT_OK(s, &err);
    } else if (what < 19) {
        const iter_status s = iter_loader_save(loader, saved, 1024, size, &err);
        if (s != ITER_ECANCELED) EXPECT_OK(s, &err);
    } else if (*size) {
        const iter_status s = iter_loader_restore(loader, saved, *size, &err);
        if (s != ITER_ECANCELED) EXPECT_OK(s, &err);
    }
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
    const source_fault_plan plan = {.inner = iter_builtin_source(0),
                                    .seed = seed,
                                    .eio_once = 30,
                                    .eio_always = 10,
                                    .lost = 20,
                                    .interrupted = 30,
                                    .queue_full = 30,
                                    .try_again = 100,
                                    .idle_waits = 100,
                                    .delay_ns = 50000,
                                    .reorder = true};
    source_fault_set(&plan);
    iter_dataset *data = drive_open(folder);
    const iter_loader_options opt = random_options(&rng);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    pthread_t other;
    const bool cancels = draw(&rng, 3) == 0;
    if (cancels) {
        iter_loader_ref(loader);
        if (pthread_create(&other, NULL, cancel_later, loader) != 0) abort();
    }
    uint8_t saved[1024];
    size_t size = 0;
    const uint32_t steps = 5 + draw(&rng, 120);
    for (uint32_t i = 0; i < steps; i++)
        one_step(loader, opt.last_batch == ITER_LAST_ROLL_OVER, &rng, saved, &size);
    iter_loader_unref(loader);
    if (cancels) pthread_join(other, NULL);
    iter_dataset_unref(data);
}

int main(int argc, char **argv) {
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0,
                   n = argc > 2 ? strtoull(argv[2], NULL, 10) : 300;
    drive_cifar(folder, N);
    for (uint64_t seed = first; seed < first + n && !EXPECT_DONE(); seed++) {
        run(seed);
        if (EXPECT_DONE()) fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    }
    make_folder_gone(folder);
    return EXPECT_DONE();
}
