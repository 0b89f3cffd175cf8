/*
 * stress_fork.c - every public call in a child of fork(). The fork happens at a random moment of a
 * loader that works, of threads that make loaders, or of one that loads a set. Each call must
 * return, and a loader that the child makes itself must work.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/bounded.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

#define N      320
#define ROUNDS 12 /* of each call */

static char folder[512];
static atomic_bool over;

typedef struct scene {
    iter_dataset *data;
    iter_chain *chain;
    iter_loader *loader;
    iter_batch *batch;
    uint8_t saved[512];
    size_t size;
} scene;

/* ---- Calls. Each returns whether it did as it should ----------------------------------------- */

static bool in_position(scene *s) {
    uint32_t epoch;
    uint64_t samples = ITER_UNKNOWN;
    iter_loader_position(s->loader, &epoch, &samples);
    return samples <= N;
}

static bool in_counts(scene *s) {
    return iter_loader_n_batches(s->loader) == N / 8 && iter_loader_n_samples(s->loader) == N &&
           iter_loader_failures(s->loader, NULL, 0) == 0;
}

static bool in_next(scene *s) {
    iter_batch *batch;
    return iter_loader_next(s->loader, &batch, NULL) == ITER_ESTATE &&
           iter_loader_next_within(s->loader, 0, &batch, NULL) == ITER_ESTATE;
}

static bool in_moves(scene *s) {
    size_t size;
    return iter_loader_reset(s->loader, NULL) == ITER_ESTATE &&
           iter_loader_seek(s->loader, 0, 0, NULL) == ITER_ESTATE &&
           iter_loader_save(s->loader, s->saved, sizeof(s->saved), &size, NULL) == ITER_ESTATE &&
           iter_loader_restore(s->loader, s->saved, s->size, NULL) == ITER_ESTATE;
}

static bool in_looks(scene *s) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    iter_activity_info info[8];
    return iter_loader_stats_read(s->loader, &stats, NULL) == ITER_ESTATE &&
           iter_loader_activity(s->loader, info, 8) > 0 &&
           iter_loader_stage_now(s->loader, 0) >= 0 && iter_loader_n_stages(s->loader) > 0 &&
           iter_loader_stage_name(s->loader, 0) && iter_loader_n_fields(s->loader) == 2 &&
           iter_loader_field(s->loader, 0) && iter_loader_plan_text(s->loader);
}

static bool in_batch(scene *s) {
    const bool looks = iter_batch_tensor(s->batch, 0) && iter_batch_find(s->batch, "label") &&
                       iter_batch_describe(s->batch).n_rows == 8 && iter_batch_index(s->batch) &&
                       iter_batch_slot(s->batch) < 100 && !iter_batch_device_tensor(s->batch, 0) &&
                       iter_batch_wait(s->batch, NULL, NULL) == ITER_ESTATE &&
                       iter_batch_release(s->batch, NULL, NULL) == ITER_ESTATE &&
                       iter_batch_synchronize(s->batch, NULL) == ITER_ESTATE;
    iter_batch_unref(iter_batch_ref(s->batch));
    iter_batch_unref(s->batch);
    return looks;
}

static bool in_end(scene *s) {
    iter_loader_cancel(s->loader);
    const bool stops = iter_loader_stop(s->loader, NULL) == ITER_ESTATE;
    iter_loader_unref(iter_loader_ref(s->loader));
    iter_loader_unref(s->loader);
    return stops;
}

static bool in_profile(scene *s) {
    (void)s;
    const iter_profile_options options = {.struct_size = sizeof(options), .filename = ""};
    const bool starts = iter_profile_start(&options, NULL) == ITER_OK;
    iter_profile_instant("child");
    return starts && iter_profile_stop(NULL) == ITER_OK;
}

static bool in_own(scene *s) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader *loader;
    iter_batch *batch;
    iter_error err;
    opt.workers = 1;
    opt.batch_size = 32;
    if (iter_dataloader_create(s->data, s->chain, &opt, &loader, &err) != ITER_OK) return false;
    const bool works = iter_loader_next(loader, &batch, &err) == ITER_OK;
    if (works) iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_dataset_unref(iter_dataset_ref(s->data));
    return works;
}

static const struct {
    const char *name;
    bool (*call)(scene *s);
} calls[] = {{"position", in_position}, {"counts", in_counts},   {"next", in_next},
             {"moves", in_moves},       {"looks", in_looks},     {"batch", in_batch},
             {"end", in_end},           {"profile", in_profile}, {"a loader of its own", in_own}};

/* ---- Threads of the parent ------------------------------------------------------------------- */

/* Takes the locks of the loader as often as it can. */
static void *hammer(void *arg) {
    scene *s = arg;
    uint32_t epoch;
    uint64_t samples;
    while (!atomic_load(&over))
        iter_loader_position(s->loader, &epoch, &samples);
    return NULL;
}

/* Makes loaders over sets that are loaded each time. */
static void *churn(void *arg) {
    (void)arg;
    while (!atomic_load(&over)) {
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        opt.workers = 1;
        opt.reading.source = ITER_SOURCE_MEMORY;
        iter_dataset *data = drive_open(folder);
        iter_loader_unref(drive_loader(data, NULL, &opt));
        iter_dataset_unref(data);
    }
    return NULL;
}

static int wait_for(pid_t child, const char *name) {
    const double until = bounded_seconds() + 20;
    int status;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (bounded_seconds() > until) {
            fprintf(stderr, "%s: the child hangs\n", name);
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return -1;
        }
        bounded_sleep(0.0005);
    }
    return status;
}

static void fork_and_call(scene *s, size_t which) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) _exit(calls[which].call(s) ? 0 : 3);
    const int status = wait_for(child, calls[which].name);
    if (status != 0) fprintf(stderr, "%s: status %x\n", calls[which].name, (unsigned)status);
    EXPECT_EQ(status, 0);
}

/* Makes a loader in the child over a set that a thread of the parent loads at the fork. */
static void *load(void *arg) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.reading.source = ITER_SOURCE_MEMORY;
    iter_loader_unref(drive_loader(arg, NULL, &opt));
    return NULL;
}

static void fork_while_loading(void) {
    for (int round = 0; round < ROUNDS; round++) {
        scene s = {.data = drive_open(folder)};
        pthread_t thread;
        pthread_create(&thread, NULL, load, s.data);
        bounded_sleep(0.0001 * round);
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) _exit(in_own(&s) ? 0 : 3);
        EXPECT_EQ(wait_for(child, "a set that is being loaded"), 0);
        pthread_join(thread, NULL);
        iter_dataset_unref(s.data);
    }
}

int main(void) {
#ifdef __SANITIZE_ADDRESS__
    SKIP(
        "AddressSanitizer's allocator has locks that a child may find taken: no fork() of threads");
#endif
#ifdef __SANITIZE_THREAD__
    SKIP("ThreadSanitizer does not follow a fork() of a program with threads");
#endif
    drive_cifar(folder, N);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8;
    opt.workers = 3;
    opt.watch.stall_ms = 1000;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.reading.source = ITER_SOURCE_RING;
    scene s = {.data = drive_open(folder), .chain = drive_chain("random-flip | to:f32,nchw")};
    s.loader = drive_loader(s.data, s.chain, &opt);
    EXPECT_OK(iter_loader_save(s.loader, s.saved, sizeof(s.saved), &s.size, NULL), NULL);
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, hammer, &s);
    pthread_create(&threads[1], NULL, churn, NULL);
    for (int round = 0; round < ROUNDS && !EXPECT_DONE(); round++) {
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
            iter_error err;
            iter_status status;
            while ((status = iter_loader_next(s.loader, &s.batch, &err)) == ITER_END)
                EXPECT_OK(iter_loader_reset(s.loader, &err), &err);
            if (!EXPECT_OK(status, &err)) break;
            fork_and_call(&s, i);
            iter_batch_unref(s.batch);
        }
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    fork_while_loading();
    iter_loader_unref(s.loader);
    iter_chain_unref(s.chain);
    iter_dataset_unref(s.data);
    make_folder_gone(folder);
    return EXPECT_DONE();
}
