/*
 * stress_read_sample.c - several threads read single samples of one dataset while loaders go
 * through it: one that preloads its files, and one whose get() is called one at a time.
 */
#include <pthread.h>
#include <unistd.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/own_dataset.h"

#define N       200
#define THREADS 3
#define READS   400

typedef struct reader {
    iter_dataset *files, *own;
    uint64_t first;
} reader;

static void expect_label(iter_dataset *dataset, uint64_t index, const char *field, int modulo) {
    iter_sample *sample = NULL;
    iter_error err;
    if (!EXPECT_OK(iter_dataset_read(dataset, index, field, &sample, &err), &err)) return;
    const int32_t last = iter_sample_n_fields(sample) - 1;
    EXPECT_EQ(*(const uint8_t *)iter_sample_tensor(sample, last)->data, index % (uint64_t)modulo);
    iter_sample_free(sample);
}

static void *read_many(void *user) {
    const reader *r = user;
    for (uint64_t i = 0; i < READS; i++) {
        const uint64_t index = (r->first + 7 * i) % N;
        expect_label(r->files, index, i % 2 ? "label" : NULL, 10);
        expect_label(r->own, index, i % 3 ? NULL : "label", 7);
    }
    return NULL;
}

int main(void) {
    char folder[MAKE_PATH_MAX];
    own_dataset own = {.n = N};
    drive_cifar(folder, N);
    iter_dataset *files = drive_open(folder), *serial = own_open(&own, &own_ops_serial);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8;
    opt.workers = 2;
    pthread_t threads[THREADS];
    reader readers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        readers[i] = (reader){files, serial, (uint64_t)i};
        EXPECT_EQ(pthread_create(&threads[i], NULL, read_many, &readers[i]), 0);
    }
    iter_loader *a = drive_loader(files, NULL, &opt), *b = drive_loader(serial, NULL, &opt);
    for (int epoch = 0; epoch < 3; epoch++) {
        drive_run(a, 1);
        drive_run(b, 1);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(atomic_load(&own.max_inside), 1); /* counts calls from loaders and from read_sample */
    iter_loader_unref(a);
    iter_loader_unref(b);
    iter_dataset_unref(files);
    iter_dataset_unref(serial);
    make_folder_gone(folder);
    return EXPECT_DONE();
}
