/*
 * stress_thread_exit.c - next() from a thread that exits with reads in flight, then from another:
 * the reads of the dead thread come back as canceled, and are tried again. The files are made cold
 * before every round, on a file system that has a disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

#define N            6000
#define TMPFS_MAGIC_ 0x01021994

static char folder[512];

/* Drops the files from the page cache, as far as the kernel does that. */
static void make_cold(void) {
    for (int i = 1; i <= 5; i++) {
        char name[32], path[512];
        snprintf(name, sizeof(name), "data_batch_%d.bin", i);
        const int fd = open(make_path(path, folder, name), O_RDONLY | O_CLOEXEC);
        if (!EXPECT(fd >= 0)) return;
        fsync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

typedef struct turn {
    iter_loader *loader;
    uint8_t *seen; /* [N] how often each row came */
    uint32_t n_batches, n_rows, wrong;
    iter_status status;
    iter_error err;
} turn;

/* Takes some batches and exits with its reads in flight. */
static void *take_some(void *arg) {
    turn *t = arg;
    for (uint32_t i = 0; i < t->n_batches; i++) {
        iter_batch *batch;
        t->status = iter_loader_next(t->loader, &batch, &t->err);
        if (t->status != ITER_OK) return NULL;
        t->wrong += drive_wrong_rows(batch);
        for (uint32_t r = 0; r < iter_batch_describe(batch).n_rows; r++, t->n_rows++)
            t->seen[iter_batch_index(batch)[r]]++;
        iter_batch_unref(batch);
    }
    return NULL;
}

static uint64_t round_of(int32_t source, int32_t workers, uint32_t batch_size, int32_t shuffle) {
    static uint8_t seen[N];
    make_cold();
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = batch_size;
    opt.reading.source = source;
    opt.workers = workers;
    opt.shuffle = shuffle;
    opt.prefetch = 4;
    opt.seed = batch_size;
    opt.memory.limit = 64 << 20;
    iter_dataset *data = drive_open(folder);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    for (int epoch = 0; epoch < 2; epoch++) {
        turn t = {.loader = loader, .seen = seen};
        memset(seen, 0, sizeof(seen));
        for (uint32_t k = 0; t.status == ITER_OK; k++) {
            pthread_t thread;
            t.n_batches = 1 + k % 3;
            if (!EXPECT_EQ(pthread_create(&thread, NULL, take_some, &t), 0)) break;
            pthread_join(thread, NULL);
        }
        EXPECT_STATUS(t.status, ITER_END, &t.err);
        EXPECT_EQ(t.n_rows, N);
        EXPECT_EQ(t.wrong, 0);
        uint32_t n_other = 0;
        for (int i = 0; i < N; i++)
            n_other += seen[i] != 1;
        EXPECT_EQ(n_other, 0);
        make_cold();
        EXPECT_OK(iter_loader_reset(loader, NULL), NULL);
    }
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    EXPECT_OK(iter_loader_stats_read(loader, &stats, NULL), NULL);
    EXPECT_EQ(stats.n_failures, 0);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    return stats.path_bytes[ITER_PATH_RING];
}

int main(void) {
    if (!getenv("TMPDIR")) setenv("TMPDIR", "/var/tmp", 1);
    drive_cifar(folder, N);
    struct statfs fs;
    if (statfs(folder, &fs) != 0 || fs.f_type == TMPFS_MAGIC_) {
        make_folder_gone(folder);
        SKIP("TMPDIR is in memory: no read can be cold there");
    }
    static const int32_t sources[] = {ITER_SOURCE_RING, ITER_SOURCE_PREAD};
    for (int s = 0; s < 2; s++) {
        for (int32_t workers = 0; workers <= 2; workers += 2) {
            for (uint32_t k = 0; k < 3; k++) {
                const uint64_t by_ring = round_of(sources[s], workers, 32u << k,
                                                  k == 1 ? ITER_SHUFFLE_NONE : ITER_SHUFFLE_FULL);
                if (k == 0)
                    printf("source %d, %d workers: %.1f MB by the ring\n", sources[s], workers,
                           (double)by_ring * 1e-6);
            }
        }
    }
    make_folder_gone(folder);
    return EXPECT_DONE();
}
