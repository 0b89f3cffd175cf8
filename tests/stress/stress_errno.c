/*
 * stress_errno.c - every errno of every call that the ring makes: io_uring_setup, io_uring_enter to
 * submit and to wait, io_uring_register, and the completions. Each fails once at its n-th call, or
 * at every call from then on. A loader over the ring must still deliver every row, or report in
 * time why it cannot be made.
 *
 * The calls are liburing's and syscall(); this program defines functions of the same names that are
 * called instead.
 */
#include "tests/support/expect.h"

#ifndef ITER_HAVE_URING
int main(void) {
    SKIP("this build has no io_uring");
}
#else

#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/bounded.h"
#include "tests/support/drive.h"
#include "tests/support/make_data.h"

#define N       48
#define ERRNOS  133
#define PATIENT 30.0

typedef enum where {
    SETUP,
    SUBMIT,
    PROBE,
    WAIT,
    REGISTER_FILES,
    REGISTER_SPARSE,
    REGISTER_BUFFERS,
    REGISTER_WORKERS,
    COMPLETION,
    N_WHERES
} where;

static const char *const names[] = {
    "setup",           "submit",           "probe",     "wait", "register files", "register sparse",
    "register memory", "register workers", "completion"};

/* What fails: calls [first, first + n) of this kind, with this errno. */
static struct {
    where at;
    int error, first, n;
} fault;
static atomic_int n_calls[N_WHERES], n_failed;

static int now(where at) {
    const int k = atomic_fetch_add(&n_calls[at], 1);
    if (fault.at != at || k < fault.first || k >= fault.first + fault.n) return 0;
    atomic_fetch_add(&n_failed, 1);
    return fault.error;
}

#define REAL(name) ((__typeof__(&name))(uintptr_t)real(#name))
static void *real(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

int io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *p) {
    const int error = now(SETUP);
    return error ? -error : REAL(io_uring_queue_init_params)(entries, ring, p);
}

/* Overwrites the results of completions in the queue, counted from its head. */
static void spoil(struct io_uring *ring) {
    if (fault.at != COMPLETION) return;
    const unsigned head = *ring->cq.khead,
                   tail = atomic_load((_Atomic unsigned *)(void *)ring->cq.ktail);
    for (unsigned i = head; i != tail; i++) {
        struct io_uring_cqe *cqe = &ring->cq.cqes[i & ring->cq.ring_mask];
        if ((int)i < fault.first || (int)i >= fault.first + fault.n || cqe->res < 0) continue;
        if ((cqe->user_data & 0xff) != 0) continue; /* not a read's */
        cqe->res = -fault.error;
        atomic_fetch_add(&n_failed, 1);
    }
}

static _Atomic(struct io_uring *) spoiled;

int io_uring_submit(struct io_uring *ring) {
    atomic_store(&spoiled, ring);
    const int error = now(SUBMIT);
    const int n = error ? -error : REAL(io_uring_submit)(ring);
    spoil(ring);
    return n;
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned n) {
    const int error = now(PROBE);
    return error ? -error : REAL(io_uring_submit_and_wait)(ring, n);
}

int io_uring_register_files(struct io_uring *ring, const int *files, unsigned n) {
    const int error = now(REGISTER_FILES);
    return error ? -error : REAL(io_uring_register_files)(ring, files, n);
}

int io_uring_register_files_sparse(struct io_uring *ring, unsigned n) {
    const int error = now(REGISTER_SPARSE);
    return error ? -error : REAL(io_uring_register_files_sparse)(ring, n);
}

int io_uring_register_buffers(struct io_uring *ring, const struct iovec *parts, unsigned n) {
    const int error = now(REGISTER_BUFFERS);
    return error ? -error : REAL(io_uring_register_buffers)(ring, parts, n);
}

int io_uring_register_iowq_max_workers(struct io_uring *ring, unsigned *values) {
    const int error = now(REGISTER_WORKERS);
    return error ? -error : REAL(io_uring_register_iowq_max_workers)(ring, values);
}

long syscall(long number, ...) {
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    const bool waits = number == SYS_io_uring_enter;
    const int error = waits ? now(WAIT) : 0;
    if (error) {
        errno = error;
        return -1;
    }
    const long answer = REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    struct io_uring *ring = waits ? atomic_load(&spoiled) : NULL;
    if (ring) spoil(ring);
    return answer;
}

/* ---- A loader over it ------------------------------------------------------------------------ */

static char folder[512], many[512];
static uint64_t truth;
static bool over_many; /* more files than are kept open */
static int32_t source;
static uint64_t ring_bytes;

static iter_dataset *open_data(void) {
    char spec[600];
    iter_error err;
    iter_dataset *data;
    if (!over_many) return drive_open(folder);
    snprintf(spec, sizeof(spec), "imdb:%s?maxlen=8&vocab=imdb.vocab", many);
    if (iter_dataset_open(spec, NULL, &data, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return data;
}

static void one_run(void *arg) {
    uint64_t *out_hash = arg;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.workers = 1;
    opt.batch_size = 8;
    opt.reading.source = source;
    opt.reading.o_direct = 1;
    opt.memory.limit = 64 << 20;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.epochs = 1;
    iter_dataset *data = open_data();
    iter_loader *loader;
    iter_error err = {.status = ITER_OK};
    *out_hash = 0;
    if (iter_dataloader_create(data, NULL, &opt, &loader, &err) < 0) {
        EXPECT(err.message[0]);
        iter_dataset_unref(data);
        return;
    }
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    *out_hash = drive_run(loader, 1);
    EXPECT_OK(iter_loader_stats_read(loader, &stats, NULL), NULL);
    ring_bytes = stats.path_bytes[ITER_PATH_RING];
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

static uint64_t run_with(where at, int error, int first, int n) {
    char text[96];
    uint64_t hash;
    snprintf(text, sizeof(text), "%s, call %d to %d: errno %d", names[at], first, first + n - 1,
             error);
    fault.n = 0;
    for (int i = 0; i < N_WHERES; i++)
        atomic_store(&n_calls[i], 0);
    atomic_store(&n_failed, 0);
    atomic_store(&spoiled, NULL);
    fault.at = at;
    fault.error = error;
    fault.first = first;
    fault.n = n;
    bounded(one_run, &hash, PATIENT, text);
    fault.n = 0;
    if (hash != truth) fprintf(stderr, "%s\n", text);
    EXPECT(hash == truth);
    return hash;
}

static bool all_places; /* try each errno at each call, not only at one of them */

/* Every errno once at one of the first calls, and at every call from the first on. */
static void all_errnos(where at, int n_firsts) {
    int failed = 0;
#ifdef __SANITIZE_THREAD__
    /* this program would write where the kernel does: a race of its own */
    if (at == COMPLETION) return;
#endif
    for (int error = 1; error <= ERRNOS; error++) {
        const bool passing =
            error == EAGAIN || error == EBUSY || error == ENOMEM || error == ENOBUFS;
        for (int first = 0; first < n_firsts; first++) {
            if (!all_places && error % n_firsts != first) continue;
            run_with(at, error, first, 1);
            failed += atomic_load(&n_failed);
        }
        if (passing && at == SUBMIT && error != EAGAIN) continue; /* they take two seconds each */
        run_with(at, error, at == COMPLETION ? 0 : 1, 1 << 20);
        failed += atomic_load(&n_failed);
    }
    if (!failed) fprintf(stderr, "%s: never called\n", names[at]);
    EXPECT(failed > 0);
}

/* Makes reviews in single files, more than are kept open. */
static void make_many(void) {
    static const char *const folders[] = {"train", "train/neg", "train/pos"};
    make_folder(many);
    for (int i = 0; i < 3; i++)
        make_subfolder(many, folders[i]);
    make_file(many, "imdb.vocab", "the\na\nfilm\n", 11);
    for (int i = 0; i < 300; i++) {
        char name[64], text[64];
        snprintf(name, sizeof(name), "train/%s/%d_7.txt", i % 2 ? "pos" : "neg", i / 2);
        const int bytes = snprintf(text, sizeof(text), "the film %d a film", i);
        make_file(many, name, text, (size_t)bytes);
    }
}

/* `stress_errno all` tries each errno at each of the first calls. */
int main(int argc, char **argv) {
    all_places = argc > 1 && strcmp(argv[1], "all") == 0;
    drive_cifar(folder, N);
    source = ITER_SOURCE_RING;
    one_run(&truth);
    if (ring_bytes == 0) {
        make_folder_gone(folder);
        SKIP("no read goes by the ring here");
    }
    all_errnos(SETUP, 1);
    all_errnos(PROBE, 1);
    all_errnos(REGISTER_FILES, 1);
    all_errnos(REGISTER_BUFFERS, 1);
    all_errnos(SUBMIT, 3);
    all_errnos(WAIT, 2);
    all_errnos(COMPLETION, 3);
    source = ITER_SOURCE_MEMORY; /* the code that loads a whole set handles errors on its own */
    one_run(&truth);
    all_errnos(SUBMIT, 2);
    all_errnos(WAIT, 1);
    all_errnos(COMPLETION, 2);
    make_many();
    over_many = true;
    source = ITER_SOURCE_RING;
    one_run(&truth);
    all_errnos(REGISTER_SPARSE, 1);
    all_errnos(REGISTER_WORKERS, 1);
    all_errnos(COMPLETION, 2);
    run_with(SUBMIT, EAGAIN, 1, 40);
    run_with(SUBMIT, EBADF, 1, 1 << 20);
    make_folder_gone(many);
    make_folder_gone(folder);
    return EXPECT_DONE();
}
#endif
