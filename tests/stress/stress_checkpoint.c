/*
 * stress_checkpoint.c - training that is killed at any moment, and full disks.
 *
 * The program runs itself as a child that trains and saves after every step. It kills the child at
 * random moments and starts it again, until the child reaches the last step. After every kill the
 * file must load, and equal what an uninterrupted run had after as many steps; so must the end.
 * Then saving fails for lack of room, in two ways: the old file must stay, the temporary one must
 * be removed, training must go on, and once there is room the save must succeed.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <iter/engine.h>
#include <iter/iter.h>

#include "tests/support/expect.h"
#include "tests/support/make_data.h"

#define MODEL     "flatten | dense:96 | relu | dropout:0.4 | dense:10 | softmax-cross-entropy"
#define OPTIMIZER "adam:lr=0.002"
#define N_STEPS   40 /* 7 steps an epoch */
#define N_KILLS   25

typedef struct small_run {
    iter_loader *loader;
    iter_trainer *trainer;
} small_run;

static void check(iter_status s, const iter_error *err, const char *what) {
    if (s >= 0) return;
    fprintf(stderr, "%s: %s\n", what, err->message);
    exit(3);
}

static void begin(small_run *r, const char *backend) {
    iter_error err;
    iter_dataset *data;
    iter_chain *chain;
    iter_model *model;
    check(iter_dataset_open("synthetic:cifar10?n=110", NULL, &data, &err), &err, "data");
    check(iter_chain_parse("random-crop:16,pad=2 | random-flip | normalize | to:f32,nchw", NULL,
                           &chain, &err),
          &err, "chain");
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.seed = 5;
    opt.workers = 2;
    check(iter_dataloader_create(data, chain, &opt, &r->loader, &err), &err, "loader");
    check(iter_model_parse(MODEL, &model, &err), &err, "model");
    iter_trainer_options train = ITER_TRAINER_OPTIONS_INIT;
    train.backend = backend;
    train.optimizer = OPTIMIZER;
    train.seed = 11;
    train.threads = 2;
    check(iter_trainer_create(model, r->loader, &train, &r->trainer, &err), &err, "trainer");
    iter_model_unref(model);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
}

static void end(small_run *r) {
    iter_trainer_destroy(r->trainer);
    iter_loader_unref(r->loader);
}

static void one_step(small_run *r) {
    iter_error err;
    iter_batch *batch;
    iter_result result;
    iter_status s;
    while ((s = iter_loader_next(r->loader, &batch, &err)) == ITER_END)
        check(iter_loader_reset(r->loader, &err), &err, "reset");
    check(s, &err, "next");
    check(iter_trainer_step(r->trainer, batch, &result, &err), &err, "step");
    iter_batch_unref(batch);
}

static uint64_t hash_bytes(uint64_t hash, const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* Hashes weights, moments and the loader's place. */
static uint64_t hash_run(small_run *r) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int32_t i = 0; i < iter_trainer_n_params(r->trainer); i++) {
        const size_t n = iter_desc_bytes(&iter_trainer_param(r->trainer, i)->desc);
        uint8_t *bytes = malloc(2 * n);
        for (int kind = ITER_VALUE_WEIGHT; kind <= ITER_VALUE_MOMENT2; kind++) {
            if (kind == ITER_VALUE_GRADIENT) continue;
            iter_error err;
            size_t size = n;
            iter_status s = iter_trainer_get(r->trainer, i, (iter_value)kind, bytes, size, &err);
            if (s == ITER_EINVAL) /* of doubles, if the backend has them */
                s = iter_trainer_get(r->trainer, i, (iter_value)kind, bytes, size = 2 * n, &err);
            check(s, &err, "get");
            hash = hash_bytes(hash, bytes, size);
        }
        free(bytes);
    }
    uint32_t epoch;
    uint64_t samples;
    iter_loader_position(r->loader, &epoch, &samples);
    const uint64_t place[] = {epoch, samples};
    return hash_bytes(hash, (const uint8_t *)place, sizeof(place));
}

/* ---- Kills ----------------------------------------------------------------------------------- */

/* The child: resumes from the file, if there is one, and trains to the last step. */
static int train_to_the_end(const char *backend, const char *path) {
    small_run r;
    iter_error err;
    begin(&r, backend);
    if (access(path, F_OK) == 0)
        check(iter_trainer_load(r.trainer, r.loader, path, &err), &err, "load");
    while (iter_trainer_describe(r.trainer).n_steps < N_STEPS) {
        one_step(&r);
        check(iter_trainer_save(r.trainer, r.loader, path, &err), &err, "save");
    }
    end(&r);
    return 0;
}

static pid_t start_child(const char *backend, const char *path) {
    const pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "stress_checkpoint", backend, path, (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* Returns the number of steps in the file, or -1 if there is no file yet. */
static int check_file(small_run *r, const char *path, const uint64_t *hashes) {
    iter_error err;
    if (access(path, F_OK) < 0) return -1;
    if (!EXPECT_OK(iter_trainer_load(r->trainer, r->loader, path, &err), &err)) return -1;
    const uint64_t n = iter_trainer_describe(r->trainer).n_steps;
    if (EXPECT(n >= 1 && n <= N_STEPS)) EXPECT(hash_run(r) == hashes[n]);
    return (int)n;
}

static void sleep_us(long us) {
    nanosleep(&(struct timespec){0, us * 1000}, NULL);
}

/* Waits for a random moment; if `part` is given, for one shortly after a file of that name was
 * begun. */
static void wait_for_moment(const char *part) {
    sleep_us(5000 + random() % 100000);
    if (part == NULL) return;
    /* Polls without sleeping: after a sleep it would be too late. */
    for (int i = 0; i < 3000000 && access(part, F_OK) < 0; i++) {
    }
    for (long i = random() % 1000; i > 0 && access(part, F_OK) == 0; i--) {
    }
}

static void kill_and_resume(const char *backend, const char *path) {
    uint64_t hashes[N_STEPS + 1];
    small_run r;
    begin(&r, backend);
    for (int i = 0; i <= N_STEPS; i++) {
        if (i > 0) one_step(&r);
        hashes[i] = hash_run(&r);
    }
    int n_killed = 0, n_within = 0, status = -1, steps = -1;
    char part[MAKE_PATH_MAX + 8];
    snprintf(part, sizeof(part), "%s.part", path);
    srandom(1);
    while (!(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        const bool aimed = n_killed % 2 == 1;
        if (aimed) unlink(part);
        const pid_t pid = start_child(backend, path);
        if (n_killed < N_KILLS) {
            wait_for_moment(aimed ? part : NULL);
            kill(pid, SIGKILL);
        }
        if (waitpid(pid, &status, 0) < 0) break;
        if (WIFSIGNALED(status)) {
            n_killed++;
            n_within += aimed && access(part, F_OK) == 0;
        } else if (!EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
            break;
        }
        const int now = check_file(&r, path, hashes);
        EXPECT(now >= steps); /* it never goes back */
        steps = now;
    }
    EXPECT_EQ(steps, N_STEPS);
    EXPECT(access(part, F_OK) < 0);
    printf("%s: killed %d times, %d of them while it saved\n", backend, n_killed, n_within);
    end(&r);
}

/* ---- Disk full ------------------------------------------------------------------------------- */

static void expect_full(small_run *r, const char *path, const char *reason) {
    iter_error err;
    char part[MAKE_PATH_MAX + 8];
    const uint64_t before = hash_run(r);
    EXPECT_ERROR(iter_trainer_save(r->trainer, r->loader, path, &err), ITER_EIO, &err, reason);
    EXPECT(strstr(err.message, path) != NULL);
    snprintf(part, sizeof(part), "%s.part", path);
    EXPECT(access(part, F_OK) < 0);
    EXPECT(hash_run(r) == before);
    one_step(r); /* training goes on */
}

static void limited_file_size(const char *backend, const char *path) {
    small_run r, other;
    iter_error err;
    struct rlimit limit;
    begin(&r, backend);
    one_step(&r);
    EXPECT_OK(iter_trainer_save(r.trainer, r.loader, path, &err), &err);
    const uint64_t saved = hash_run(&r);
    one_step(&r);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = limit.rlim_cur;
    const rlim_t sizes[] = {0, 100, 4096, 300000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        limit.rlim_cur = sizes[i];
        setrlimit(RLIMIT_FSIZE, &limit);
        expect_full(&r, path, "File too large");
    }
    limit.rlim_cur = before;
    setrlimit(RLIMIT_FSIZE, &limit);
    begin(&other, backend);
    EXPECT_OK(iter_trainer_load(other.trainer, other.loader, path, &err), &err);
    EXPECT(hash_run(&other) == saved); /* the old file is whole */
    EXPECT_OK(iter_trainer_save(r.trainer, r.loader, path, &err), &err);
    EXPECT_OK(iter_trainer_load(other.trainer, other.loader, path, &err), &err);
    EXPECT(hash_run(&other) == hash_run(&r));
    end(&other);
    end(&r);
}

/* Mounts a file system that is too small for two checkpoints, if mounting is allowed. */
static void full_disk(const char *backend, const char *folder) {
    char path[MAKE_PATH_MAX], filler[MAKE_PATH_MAX];
    small_run r;
    iter_error err;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=4m") < 0) {
        printf("note: no small file system of our own (%s), a limit on file sizes stands for it\n",
               strerror(errno));
        return;
    }
    make_path(path, folder, "checkpoint.safetensors");
    make_path(filler, folder, "filler");
    begin(&r, backend);
    one_step(&r);
    EXPECT_OK(iter_trainer_save(r.trainer, r.loader, path, &err), &err);
    const int fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    static char block[65536];
    while (write(fd, block, sizeof(block)) > 0) {
    }
    close(fd);
    expect_full(&r, path, "No space left on device");
    EXPECT_OK(iter_trainer_load(r.trainer, r.loader, path, &err), &err);
    EXPECT_EQ(iter_trainer_describe(r.trainer).n_steps, 1);
    unlink(filler);
    one_step(&r);
    EXPECT_OK(iter_trainer_save(r.trainer, r.loader, path, &err), &err);
    end(&r);
    umount2(folder, MNT_DETACH);
}

int main(int argc, char **argv) {
    if (argc == 3) return train_to_the_end(argv[1], argv[2]);
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], disk[MAKE_PATH_MAX];
    make_folder(folder);
    for (const char *const *backend = iter_engine_backends(); *backend != NULL; backend++) {
        if (strcmp(*backend, "cuda") == 0) continue; /* it needs a GPU, and has tests of its own */
        make_path(path, folder, *backend);
        kill_and_resume(*backend, path);
        limited_file_size(*backend, path);
    }
    make_subfolder(folder, "disk");
    full_disk(iter_engine_backends()[0], make_path(disk, folder, "disk"));
    make_folder_gone(folder);
    return EXPECT_DONE();
}
