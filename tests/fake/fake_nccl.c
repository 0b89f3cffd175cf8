/*
 * fake_nccl.c - libnccl.so.2 for tests: a message is a file in a folder that the id names, so ranks
 * may be threads or processes.
 *
 * A group is queued on its stream, and runs there as a whole: first it sends, then it waits for
 * what it receives, as long as the communicator is not aborted. Both sides must agree on the bytes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/cuda/nccl_api.h"
#include "tests/fake/fake_library_calls.h"

enum { MAX_RANKS = 16, MAX_MESSAGES = 2 * MAX_RANKS, PATH_BYTES = 192 };

#define ITER_X(name, parameters) FAKE_EXPORT ncclResult_t name parameters;
NCCL_CALLS(ITER_X)
#undef ITER_X
FAKE_EXPORT const char *ncclGetErrorString(ncclResult_t result);
FAKE_EXPORT const fake_library *fake_nccl_control(void);

struct ncclComm {
    char folder[sizeof(ncclUniqueId)];
    int ranks, rank;
    unsigned sent[MAX_RANKS], received[MAX_RANKS]; /* the stream's thread counts */
    atomic_bool aborted;
    ncclComm_t next; /* of the aborted ones */
};

typedef struct message {
    bool sends;
    void *at;
    size_t n;
    int peer;
} message;

typedef struct group {
    bool is_open;
    ncclComm_t comm;
    CUstream stream;
    int n;
    message messages[MAX_MESSAGES];
} group;

static fake_calls calls = FAKE_CALLS_INIT(22809);
static _Thread_local group current;

#define BEGIN(name)                 \
    unsigned status_ = ncclSuccess; \
    if (!fake_calls_begin(&calls, name, &status_)) return status_

/* ---- Files ----------------------------------------------------------------------------------- */

static void nap(void) {
    const struct timespec short_time = {0, 50000};
    nanosleep(&short_time, NULL);
}

/* Whether a file is gone because a rank has aborted. */
static bool is_gone(const char *path) {
    if (errno == ENOENT) return true;
    perror(path);
    abort();
}

/* Readers see only whole files. */
static void write_file(const char *path, const void *from, size_t n) {
    char other[PATH_BYTES + 8];
    snprintf(other, sizeof(other), "%s.part", path);
    const int fd = open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 && is_gone(path)) return;
    if (write(fd, from, n) != (ssize_t)n) abort();
    close(fd);
    if (rename(other, path) != 0) is_gone(path);
}

static bool await_file(const ncclComm_t comm, const char *path) {
    while (access(path, F_OK) != 0) {
        if (atomic_load(&comm->aborted)) return false;
        nap();
    }
    return true;
}

static void read_file(const char *path, void *to, size_t n) {
    struct stat is;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && is_gone(path)) return;
    if (fstat(fd, &is) != 0 || (size_t)is.st_size != n || read(fd, to, n) != (ssize_t)n) {
        fprintf(stderr, "ncclRecv: %s is not %zu bytes\n", path, n);
        abort();
    }
    close(fd);
    unlink(path);
}

static char *message_path(const ncclComm_t comm, int from, int to, unsigned number, char *out) {
    snprintf(out, PATH_BYTES, "%s/%d-%d-%u", comm->folder, from, to, number);
    return out;
}

/* Removes messages that no rank will fetch. Other ranks may still add some. */
static void clear_folder(const char *folder) {
    for (int i = 0; i < 100 && rmdir(folder) != 0 && errno != ENOENT; i++) {
        DIR *entries = opendir(folder);
        for (struct dirent *e; entries && (e = readdir(entries)) != NULL;)
            unlinkat(dirfd(entries), e->d_name, 0);
        if (entries) closedir(entries);
    }
}

static void run_group(void *state) {
    const group *g = state;
    const ncclComm_t comm = g->comm;
    char path[PATH_BYTES];
    for (int i = 0; i < g->n; i++) {
        const message *m = &g->messages[i];
        if (!m->sends) continue;
        message_path(comm, comm->rank, m->peer, comm->sent[m->peer]++, path);
        write_file(path, m->at, m->n);
    }
    for (int i = 0; i < g->n; i++) {
        const message *m = &g->messages[i];
        if (m->sends) continue;
        message_path(comm, m->peer, comm->rank, comm->received[m->peer]++, path);
        if (!await_file(comm, path)) return;
        read_file(path, m->at, m->n);
    }
}

/* ---- Communicators --------------------------------------------------------------------------- */

ncclResult_t ncclGetVersion(int *version) {
    BEGIN("ncclGetVersion");
    *version = (int)fake_calls_version(&calls, 0);
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    BEGIN("ncclGetUniqueId");
    *id = (ncclUniqueId){"/tmp/fake-nccl.XXXXXX"};
    return mkdtemp(id->internal) ? ncclSuccess : ncclSystemError;
}

/* Returns when all ranks are there, as the real one. */
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
    BEGIN("ncclCommInitRank");
    if (!fake_check(fake_has_context(), "ncclCommInitRank", "no context is current") ||
        !fake_check(ranks > 1 && ranks <= MAX_RANKS && rank < ranks, "ncclCommInitRank", "ranks"))
        return ncclInvalidArgument;
    char path[PATH_BYTES];
    ncclComm_t made = calloc(1, sizeof(*made));
    if (!made) abort();
    memcpy(made->folder, id.internal, sizeof(made->folder));
    made->ranks = ranks;
    made->rank = rank;
    for (int i = 0; i < ranks; i++)
        if (i != rank) write_file(message_path(made, rank, i, 0, path), "here", 4);
    for (int i = 0; i < ranks; i++) {
        char here[4];
        if (i == rank) continue;
        await_file(made, message_path(made, i, rank, 0, path));
        read_file(path, here, sizeof(here));
        made->sent[i] = made->received[i] = 1;
    }
    fake_calls_live(&calls, 1);
    *comm = made;
    return ncclSuccess;
}

/* The last rank that comes finds the folder empty. */
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    unsigned status = ncclSuccess;
    const bool ok = fake_calls_begin(&calls, "ncclCommDestroy", &status);
    rmdir(comm->folder);
    free(comm);
    fake_calls_live(&calls, -1);
    return ok ? ncclSuccess : status;
}

/* What is queued ends soon, but reads the communicator until then; so it is kept. */
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    unsigned status = ncclSuccess;
    const bool ok = fake_calls_begin(&calls, "ncclCommAbort", &status);
    static _Atomic(ncclComm_t) kept;
    comm->next = atomic_exchange(&kept, comm);
    atomic_store(&comm->aborted, true);
    clear_folder(comm->folder);
    fake_calls_live(&calls, -1);
    return ok ? ncclSuccess : status;
}

/* A planned failure is what it finds. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    unsigned status = ncclInProgress;
    fake_calls_begin(&calls, "ncclCommGetAsyncError", &status);
    *error = status;
    return comm ? ncclSuccess : ncclInvalidArgument;
}

const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclRemoteError   ? "remote process exited or there was a network error"
           : result == ncclSystemError ? "unhandled system error (run with NCCL_DEBUG=INFO)"
                                       : "invalid usage (run with NCCL_DEBUG=WARN for details)";
}

/* ---- Groups ---------------------------------------------------------------------------------- */

ncclResult_t ncclGroupStart(void) {
    BEGIN("ncclGroupStart");
    if (!fake_check(!current.is_open, "ncclGroupStart", "a group is open")) return ncclInvalidUsage;
    current = (group){.is_open = true};
    return ncclSuccess;
}

static ncclResult_t add(const char *name, bool sends, void *at, size_t n, ncclDataType_t type,
                        int peer, ncclComm_t comm, CUstream stream) {
    BEGIN(name);
    group *g = &current;
    if (!fake_check(g->is_open && g->n < MAX_MESSAGES, name, "no group, or it is full") ||
        !fake_check(comm && peer >= 0 && peer < comm->ranks && peer != comm->rank, name, "peer") ||
        !fake_check(g->n == 0 || (g->comm == comm && g->stream == stream), name, "mixed groups") ||
        !fake_check(type == ncclInt8 && n > 0, name, "type or size") ||
        !fake_check_memory(at, n, 4, name, "the buffer"))
        return ncclInvalidArgument;
    g->comm = comm;
    g->stream = stream;
    g->messages[g->n++] = (message){sends, at, n, peer};
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream stream) {
    return add("ncclSend", true, (void *)(uintptr_t)from, n, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream stream) {
    return add("ncclRecv", false, to, n, type, peer, comm, stream);
}

ncclResult_t ncclGroupEnd(void) {
    unsigned status = ncclSuccess;
    const bool ok = fake_calls_begin(&calls, "ncclGroupEnd", &status);
    const group g = current;
    if (!fake_check(g.is_open, "ncclGroupEnd", "no group is open")) return ncclInvalidUsage;
    current.is_open = false;
    if (!ok || g.n == 0) return status;
    return fake_driver()->launch(g.stream, run_group, &g, sizeof(g)) == CUDA_SUCCESS
               ? ncclSuccess
               : ncclSystemError;
}

FAKE_CONTROL(fake_nccl_control, &calls, NULL)
