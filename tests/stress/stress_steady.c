/*
 * stress_steady.c - once it runs, a loader allocates nothing, whatever the source and the number of
 * workers. Over memory and without workers, it also makes no system call per batch.
 *
 * strace counts the system calls of this program, run again with an argument, for two numbers of
 * epochs: the difference is what batches cost. If strace is missing, that part is skipped.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/own_dataset.h"

#define N 1600

#define IMAGES                                                                                \
    "random-crop:size=32,pad=4 | random-flip | normalize:mean=0.5;0.5;0.5,std=0.2;0.2;0.2 | " \
    "to:f32,nchw"

static char folder[512];

static iter_loader_options options(int32_t source, int32_t workers) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 32;
    opt.workers = workers;
    opt.reading.source = source;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.memory.limit = 64 << 20;
    return opt;
}

static void take(iter_loader *loader, int n_batches) {
    for (int i = 0; i < n_batches;) {
        iter_error err;
        iter_batch *batch;
        const iter_status s = iter_loader_next(loader, &batch, &err);
        if (s == ITER_END) {
            EXPECT_OK(iter_loader_reset(loader, NULL), NULL);
            continue;
        }
        if (!EXPECT_OK(s, &err)) return;
        iter_batch_unref(batch);
        i++;
    }
}

static void no_allocations(const char *what, iter_loader *loader) {
    take(loader, 60); /* an epoch and a bit */
    const long before = iter__alloc_count();
    take(loader, 200);
    if (!EXPECT_EQ(iter__alloc_count(), before)) fprintf(stderr, "  %s\n", what);
    iter_loader_unref(loader);
}

static void allocations(void) {
    static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD,
                                      ITER_SOURCE_NULL};
    static const char *const names[] = {"memory", "ring", "pread", "null"};
    iter_dataset *data = drive_open(folder);
    iter_chain *chain = drive_chain(IMAGES);
    own_dataset own = {.n = N};
    iter_dataset *mine = own_open(&own, &own_ops);
    for (int32_t workers = 0; workers <= 2; workers += 2) {
        for (int s = 0; s < 4; s++) {
            iter_loader_options opt = options(sources[s], workers);
            no_allocations(names[s], drive_loader(data, chain, &opt));
            opt.reading.o_direct = 1;
            no_allocations(names[s], drive_loader(data, chain, &opt));
            opt.reading.o_direct = 0;
            opt.sampler.spec = "block:block=64,buffer=4";
            no_allocations(names[s], drive_loader(data, NULL, &opt));
        }
        const iter_loader_options opt = options(ITER_SOURCE_AUTO, workers);
        no_allocations("own dataset", drive_loader(mine, NULL, &opt));
    }
    iter_dataset_unref(mine);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
}

/* ---- System calls ---------------------------------------------------------------------------- */

/* The program under strace. */
static int run(int epochs) {
    iter_dataset *data = drive_open(folder);
    iter_chain *chain = drive_chain(IMAGES);
    const iter_loader_options opt = options(ITER_SOURCE_MEMORY, 0);
    iter_loader *loader = drive_loader(data, chain, &opt);
    take(loader, epochs * (N / 32));
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    return EXPECT_DONE();
}

/* System calls of a run over so many epochs, or -1. */
static long traced(const char *self, int epochs) {
    char command[4096], line[256];
    snprintf(command, sizeof(command),
             "ASAN_OPTIONS=detect_leaks=0 strace -f -qq -o '%s/trace' '%s' run %d '%s' "
             "2>'%s/message'; wc -l < '%s/trace'",
             folder, self, epochs, folder, folder, folder);
    FILE *pipe = popen(command, "r");
    long n = -1;
    if (pipe && fgets(line, sizeof(line), pipe)) n = strtol(line, NULL, 10);
    if (pipe) pclose(pipe);
    return n;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "run") == 0) {
        snprintf(folder, sizeof(folder), "%s", argv[3]);
        return run(atoi(argv[2]));
    }
    char self[1024];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (!EXPECT(length > 0)) return EXPECT_DONE();
    self[length] = 0;
    drive_cifar(folder, N);
    allocations();
    const bool can_trace = system("strace -o /dev/null true 2>/dev/null >/dev/null") == 0;
    const long one = can_trace ? traced(self, 1) : -1, many = can_trace ? traced(self, 9) : -1;
    make_folder_gone(folder);
    if (EXPECT_DONE()) return EXPECT_DONE();
    if (!can_trace) {
        printf("skipped: the system calls of a batch, strace is unavailable here; allocations "
               "were checked\n");
        return 77;
    }
    EXPECT(one > 20);
    /* 400 more batches and 8 more epochs: one call a batch would be 400 more. A sanitizer's own
     * memory may cost a few more or fewer. */
    EXPECT(labs(many - one) < 40);
    printf("%ld system calls for 50 batches, %ld for 450\n", one, many);
    return EXPECT_DONE();
}
