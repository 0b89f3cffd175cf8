/*
 * stress_profile.c - some threads start, pause, dump, query, stop and clear the profiler while
 * loaders with workers run in others and threads come and go: rows stay right, every file is JSON,
 * and no memory is left.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <iter/iter.h>

#include "iter/core/alloc.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/json_valid.h"
#include "tests/support/make_data.h"

enum { N = 160, LOADERS = 3, CONTROLS = 3, SECONDS = 4 };

static char folder[512], out[512], path[MAKE_PATH_MAX];
static atomic_bool ends;
static atomic_ullong n_events, n_started;

static void nap(long us) {
    const struct timespec pause = {.tv_nsec = us * 1000};
    nanosleep(&pause, NULL);
}

static void *train(void *arg) {
    const int32_t k = (int32_t)(intptr_t)arg;
    iter_dataset *data = drive_open(folder);
    iter_error err;
    while (!atomic_load(&ends)) {
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        opt.batch_size = 16;
        opt.shuffle = ITER_SHUFFLE_FULL;
        /* Only one thread has rings: ThreadSanitizer does not see that their memory is unmapped. */
        opt.reading.source = k == 1 ? ITER_SOURCE_RING : ITER_SOURCE_PREAD;
        opt.workers = k;
        opt.epochs = 10;
        opt.memory.limit = 64 << 20;
        iter_loader *loader = drive_loader(data, NULL, &opt);
        iter_status s;
        do {
            iter_batch *batch;
            while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
                iter_profile_scope_begin("step");
                EXPECT_EQ(drive_wrong_rows(batch), 0);
                iter_profile_counter_add("batches", 1);
                iter_profile_scope_end();
                iter_batch_unref(batch);
            }
            EXPECT_STATUS(s, ITER_END, &err);
        } while (iter_loader_reset(loader, &err) == ITER_OK && !atomic_load(&ends));
        iter_loader_unref(loader);
    }
    iter_dataset_unref(data);
    return NULL;
}

static void see(void *user, const iter_profile_event *event) {
    uint64_t *last = user;
    EXPECT(event->start_ns >= *last);
    EXPECT(event->name && event->category && event->track_name && event->track > 0);
    *last = event->start_ns;
    atomic_fetch_add(&n_events, 1);
}

static void *passer_by(void *arg) {
    iter_profile_instant("passing");
    return arg;
}

static void act(unsigned what, int k) {
    iter_error err;
    size_t n;
    uint64_t last = 0;
    char *text = NULL;
    iter_profile_options opt = ITER_PROFILE_OPTIONS_INIT;
    opt.filename = what % 3 ? path : "";
    opt.events_per_thread = what % 5 ? 64 : 4096;
    opt.dump_period_ms = what % 2 ? 1 : -1;
    iter_status s = ITER_OK;
    switch (what % 11) {
    case 0:
    case 1:
    case 2:
        s = iter_profile_start(&opt, &err);
        if (s == ITER_OK) atomic_fetch_add(&n_started, 1);
        break;
    case 3: iter_profile_pause(); break;
    case 4:
    case 5: iter_profile_resume(); break;
    case 6: s = iter_profile_dump(&err); break;
    case 7: s = iter_profile_each(see, &last, &err); break;
    case 8:
        text = malloc(1 << 16);
        s = iter_profile_table((int32_t)(what % 8), what & 1, what & 2, what & 1, text,
                               text ? 1 << 16 : 0, &n, &err);
        if (s == ITER_OK && (what & 1) && text) EXPECT(json_valid(text, n - 1));
        free(text);
        break;
    case 9: s = iter_profile_stop(&err); break;
    default:
        if (k == 0) iter_profile_clear();
        break;
    }
    if (s != ITER_ESTATE) EXPECT_OK(s, &err);
}

static void *control(void *arg) {
    const int k = (int)(intptr_t)arg;
    uint32_t state = 77u + (uint32_t)k;
    while (!atomic_load(&ends)) {
        pthread_t thread;
        state = state * 1664525u + 1013904223u;
        act(state >> 8, k);
        if (state % 7 == 0 && pthread_create(&thread, NULL, passer_by, NULL) == 0)
            pthread_join(thread, NULL);
        nap(state >> 22);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[LOADERS + CONTROLS];
    drive_cifar(folder, N);
    make_folder(out);
    make_path(path, out, "trace.json");
    const long live = iter__alloc_live();
    for (int i = 0; i < LOADERS; i++)
        pthread_create(&threads[i], NULL, train, (void *)(intptr_t)i);
    for (int i = 0; i < CONTROLS; i++)
        pthread_create(&threads[LOADERS + i], NULL, control, (void *)(intptr_t)i);
    for (int i = 0; i < SECONDS * 10; i++)
        nap(100000);
    atomic_store(&ends, true);
    for (int i = 0; i < LOADERS + CONTROLS; i++)
        pthread_join(threads[i], NULL);
    iter_profile_clear();
    EXPECT(json_file_valid(path, NULL));
    EXPECT_EQ(iter__alloc_live(), live);
    EXPECT(atomic_load(&n_started) > 3);
    EXPECT(atomic_load(&n_events) > 0);
    make_folder_gone(out);
    make_folder_gone(folder);
    return EXPECT_DONE();
}
