/*
 * test_source_uring.c - what the ring promises beyond bytes: full queues, waiting, waking,
 * canceling, threads that exit, refusals.
 *
 * If a test keeps a named pipe open, reads of it do not end before the test writes to it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/support/make_data.h"
#include "tests/support/source_drive.h"

TestSuite(source_uring, .timeout = 60);

#define N_FILES 3 /* a file, an empty file, a pipe */

typedef struct fixture {
    char folder[MAKE_PATH_MAX];
    char paths[N_FILES][MAKE_PATH_MAX];
    iter_file files[N_FILES];
    int pipe; /* its writing end */
    source_drive drive;
} fixture;

static void need_ring(void) {
    if (source_named("ring") == NULL) cr_skip_test("this build has no io_uring");
}

static void make_files(fixture *f) {
    static const char *names[N_FILES] = {"file", "empty", "pipe"};
    make_folder(f->folder);
    for (int i = 0; i < N_FILES; i++)
        f->files[i] =
            (iter_file){.path = make_path(f->paths[i], f->folder, names[i]), .bytes = ITER_UNKNOWN};
    make_file(f->folder, "file", "0123456789", 10);
    make_file(f->folder, "empty", "", 0);
    cr_assert_eq(mkfifo(f->paths[2], 0600), 0);
    /* read and write, so that open() does not wait for the other end */
    f->pipe = open(f->paths[2], O_RDWR);
    cr_assert_geq(f->pipe, 0);
}

/* With an arena: O_DIRECT, otherwise it is not registered. */
static iter_status open_ring(fixture *f, uint32_t depth, void *arena, size_t arena_bytes) {
    const iter_source_config config = {.files = f->files,
                                       .n_files = N_FILES,
                                       .depth = depth,
                                       .o_direct = arena != NULL,
                                       .arena = arena,
                                       .arena_bytes = arena_bytes};
    return source_drive_open(&f->drive, source_named("ring"), &config);
}

static void begin(fixture *f, uint32_t depth) {
    need_ring();
    memset(f, 0, sizeof *f);
    make_files(f);
    const iter_status status = open_ring(f, depth, NULL, 0);
    if (status == ITER_EUNSUPPORTED) cr_skip_test("%s", f->drive.err.message);
    cr_assert_eq(status, ITER_OK, "%s", f->drive.err.message);
}

static void finish(fixture *f) {
    source_drive_close(&f->drive);
    close(f->pipe);
    make_folder_gone(f->folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static iter_read *reap_one(source_drive *d) {
    iter_read *done = NULL;
    for (const uint64_t end = now_ms() + 5000; now_ms() < end;) {
        if (d->ops->reap(d->state, &done, 1) == 1) return done;
        cr_assert_eq(d->ops->wait(d->state, 100000000), ITER_OK);
    }
    cr_assert_fail("nothing came");
    return NULL;
}

static iter_read make_read(uint64_t object, const iter_iovec *part) {
    return (iter_read){.object = object, .parts = part, .n_parts = 1, .size = part->size};
}

Test(source_uring, queue_is_full_at_depth) {
    fixture f;
    begin(&f, 16);
    const iter_source_ops *ops = f.drive.ops;
    char memory[17];
    iter_iovec part = {memory, 1};
    iter_read reads[17];
    for (int i = 0; i < 17; i++) {
        reads[i] = make_read(0, &part);
        cr_assert_eq(ops->submit(f.drive.state, &reads[i]), i < 16 ? ITER_PENDING : ITER_AGAIN);
    }
    cr_assert_eq(ops->commit(f.drive.state), ITER_OK);
    iter_read *out[17];
    int32_t n = 0;
    while (n < 16) {
        const int32_t got = ops->reap(f.drive.state, out, 3);
        cr_assert_leq(got, 3);
        n += got;
        if (got == 0) cr_assert_eq(ops->wait(f.drive.state, -1), ITER_OK);
    }
    cr_assert_eq(ops->reap(f.drive.state, out, 17), 0);
    cr_assert_eq(ops->submit(f.drive.state, &reads[16]), ITER_PENDING);
    cr_assert_eq(ops->commit(f.drive.state), ITER_OK);
    cr_assert_eq(reap_one(&f.drive), &reads[16]);
    finish(&f);
}

Test(source_uring, reads_of_nothing_complete_too) {
    fixture f;
    begin(&f, 8);
    char byte;
    const iter_iovec parts[3] = {{&byte, 1}, {&byte, 0}, {NULL, 0}};
    iter_read reads[4] = {make_read(1, &parts[0]), make_read(0, &parts[1]),
                          make_read(2, &parts[2])};
    source_drive_run(&f.drive, reads, 4); /* the last one has no parts */
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(reads[i].status, ITER_OK);
        cr_assert_eq(reads[i].done, 0);
    }
    finish(&f);
}

Test(source_uring, wait_ends_in_time) {
    fixture f;
    begin(&f, 8);
    const uint64_t start = now_ms();
    cr_assert_eq(f.drive.ops->wait(f.drive.state, 0), ITER_OK);
    cr_assert_eq(f.drive.ops->wait(f.drive.state, 50000000), ITER_OK);
    const uint64_t took = now_ms() - start;
    cr_assert(took >= 45 && took < 5000, "%u ms", (unsigned)took);
    iter_read *out;
    cr_assert_eq(f.drive.ops->reap(f.drive.state, &out, 1), 0);
    finish(&f);
}

static void *wake_later(void *drive) {
    const source_drive *d = drive;
    const struct timespec t = {.tv_nsec = 50000000};
    nanosleep(&t, NULL);
    d->ops->wake(d->state);
    return NULL;
}

Test(source_uring, wake_ends_a_wait) {
    fixture f;
    begin(&f, 8);
    pthread_t thread;
    iter_read *out;
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(pthread_create(&thread, NULL, wake_later, &f.drive), 0);
        cr_assert_eq(f.drive.ops->wait(f.drive.state, -1), ITER_OK);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        cr_assert_eq(f.drive.ops->reap(f.drive.state, &out, 1), 0);
    }
    /* Before the wait; any number of wakes counts as one. */
    for (int i = 0; i < 10000; i++)
        f.drive.ops->wake(f.drive.state);
    cr_assert_eq(f.drive.ops->wait(f.drive.state, -1), ITER_OK);
    cr_assert_eq(f.drive.ops->reap(f.drive.state, &out, 1), 0);
    const uint64_t start = now_ms();
    cr_assert_eq(f.drive.ops->wait(f.drive.state, 30000000), ITER_OK);
    cr_assert_geq(now_ms() - start, 25, "a wake was left over");
    finish(&f);
}

Test(source_uring, cancel_ends_what_hangs) {
    fixture f;
    begin(&f, 8);
    const iter_source_ops *ops = f.drive.ops;
    char memory[8][4];
    iter_iovec parts[8];
    iter_read reads[8];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++) {
            parts[i] = (iter_iovec){memory[i], 4};
            reads[i] = make_read(2, &parts[i]);
            cr_assert_eq(ops->submit(f.drive.state, &reads[i]), ITER_PENDING);
        }
        if (round != 1) cr_assert_eq(ops->commit(f.drive.state), ITER_OK);
        ops->cancel(f.drive.state);
        ops->cancel(f.drive.state);
        for (int i = 0; i < 8; i++) {
            const iter_read *read = reap_one(&f.drive);
            cr_assert_eq(read->status, ITER_ECANCELED);
            cr_assert_eq(read->done, 0);
        }
    }
    /* Reads that are submitted afterwards are not canceled. */
    reads[0] = make_read(0, &parts[0]);
    source_drive_run(&f.drive, reads, 1);
    cr_assert_eq(reads[0].status, ITER_OK);
    cr_assert_eq(memcmp(memory[0], "0123", 4), 0);
    finish(&f);
}

Test(source_uring, short_reads_go_on) {
    fixture f;
    begin(&f, 8);
    char memory[6] = {0};
    const iter_iovec parts[3] = {{memory, 1}, {memory + 1, 3}, {memory + 4, 2}};
    iter_read read = {.object = 2, .parts = parts, .n_parts = 3, .size = 6};
    cr_assert_eq(f.drive.ops->submit(f.drive.state, &read), ITER_PENDING);
    cr_assert_eq(f.drive.ops->commit(f.drive.state), ITER_OK);
    /* A read of a pipe returns the bytes that are there. */
    for (int i = 0; i < 3; i++) {
        static const char *pieces[3] = {"ab", "c", "def"};
        iter_read *out;
        cr_assert_eq(f.drive.ops->reap(f.drive.state, &out, 1), 0);
        cr_assert_eq(write(f.pipe, pieces[i], strlen(pieces[i])), (ssize_t)strlen(pieces[i]));
        cr_assert_eq(f.drive.ops->wait(f.drive.state, 2000000000), ITER_OK);
    }
    cr_assert_eq(reap_one(&f.drive), &read);
    cr_assert_eq(read.status, ITER_OK);
    cr_assert_eq(memcmp(memory, "abcdef", 6), 0);
    finish(&f);
}

typedef struct thread_job {
    source_drive *drive;
    iter_read *read; /* to submit, or NULL = reap */
    int32_t reaped;
} thread_job;

static void *use_and_exit(void *job) {
    thread_job *j = job;
    const iter_source_ops *ops = j->drive->ops;
    iter_read *out;
    if (j->read == NULL) {
        j->reaped = ops->reap(j->drive->state, &out, 1);
    } else {
        (void)ops->submit(j->drive->state, j->read);
        (void)ops->commit(j->drive->state);
    }
    return NULL;
}

/* Submits, or reaps one, in a thread that then exits. Returns what it reaped. */
static int32_t in_a_thread(source_drive *drive, iter_read *read) {
    pthread_t thread;
    thread_job job = {drive, read, 0};
    cr_assert_eq(pthread_create(&thread, NULL, use_and_exit, &job), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    return job.reaped;
}

/* Completes the read of the pipe, in a thread that has exited, and takes the bytes out again. */
static void lose_read(fixture *f) {
    char bytes[4];
    cr_assert_eq(write(f->pipe, "lost", 4), 4);
    cr_assert_eq(f->drive.ops->wait(f->drive.state, 2000000000), ITER_OK);
    cr_assert_eq(read(f->pipe, bytes, 4), 4, "the read was served");
}

Test(source_uring, reads_outlive_the_thread_that_submitted_them) {
    fixture f;
    begin(&f, 8);
    char memory[4] = {0};
    const iter_iovec part = {memory, 4};
    iter_read read = make_read(2, &part);
    in_a_thread(&f.drive, &read);
    lose_read(&f);
    iter_read *out;
    cr_assert_eq(f.drive.ops->reap(f.drive.state, &out, 1), 0); /* retried in this thread */
    cr_assert_eq(write(f.pipe, "here", 4), 4);
    cr_assert_eq(reap_one(&f.drive), &read);
    cr_assert_eq(read.status, ITER_OK);
    cr_assert_eq(read.done, 4);
    cr_assert_eq(memcmp(memory, "here", 4), 0);
    finish(&f);
}

Test(source_uring, a_read_is_given_up_after_eight_threads) {
    fixture f;
    begin(&f, 8);
    char memory[4];
    const iter_iovec part = {memory, 4};
    iter_read read = make_read(2, &part);
    in_a_thread(&f.drive, &read);
    for (int i = 0; i < 8; i++) {
        lose_read(&f);
        cr_assert_eq(in_a_thread(&f.drive, NULL), 0, "given up after %d", i);
    }
    /* On a loaded machine a completion may come after its reap: such a loss does not count. */
    int32_t ended = 0;
    for (int i = 0; i < 8 && ended == 0; i++) {
        lose_read(&f);
        ended = in_a_thread(&f.drive, NULL);
    }
    cr_assert_eq(ended, 1);
    cr_assert_eq(read.status, ITER_ECANCELED);
    cr_assert(read.os_error == ECANCELED || read.os_error == EFAULT);
    finish(&f);
}

Test(source_uring, arena_is_registered_as_far_as_allowed) {
    fixture f;
    need_ring();
    memset(&f, 0, sizeof f);
    const uid_t me = geteuid();
    if (me == 0) cr_assert_eq(seteuid(65534), 0); /* root may lock any amount */
    const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    if (faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) != 0)
        cr_skip_test("%s: only root may write there", folder);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    limit.rlim_cur = (rlim_t)2 << 20;
    cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    make_files(&f);
    const size_t bytes = (size_t)16 << 20;
    uint8_t *arena = iter__map(bytes);
    cr_assert_not_null(arena);
    const iter_status status = open_ring(&f, 8, arena, bytes);
    if (status == ITER_EUNSUPPORTED) cr_skip_test("%s", f.drive.err.message);
    cr_assert_eq(status, ITER_OK, "%s", f.drive.err.message);
    if (strstr(f.drive.fallback, "O_DIRECT")) cr_skip_test("%s", f.drive.fallback);
    cr_assert(strstr(f.drive.fallback, "of 16384 KiB"), "\"%s\"", f.drive.fallback);
    const size_t places[4] = {0, ((size_t)1 << 20) - 5, ((size_t)8 << 20) - 5, bytes - 10};
    for (int i = 0; i < 4; i++) {
        const iter_iovec part = {arena + places[i], i == 0 ? 4096 : 10};
        iter_read read = make_read(0, &part);
        source_drive_run(&f.drive, &read, 1);
        cr_assert_eq(read.status, ITER_OK);
        cr_assert_eq(read.done, 10);
        cr_assert_eq(memcmp(arena + places[i], "0123456789", 10), 0);
    }
    source_drive_close(&f.drive);
    iter__unmap(arena, bytes);
    close(f.pipe);
    make_folder_gone(f.folder);
    cr_assert_eq(seteuid(me), 0);
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* for the leak checker */
}

/* Container runtimes do the same. */
static void forbid_io_uring(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        cr_skip_test("no seccomp: %s", strerror(errno));
}

Test(source_uring, a_forbidden_ring_says_why) {
    fixture f;
    need_ring();
    memset(&f, 0, sizeof f);
    make_files(&f);
    forbid_io_uring();
    cr_assert_eq(open_ring(&f, 8, NULL, 0), ITER_EUNSUPPORTED);
    cr_assert(strstr(f.drive.err.message, "io_uring_setup"), "%s", f.drive.err.message);
    cr_assert(strstr(f.drive.err.message, "not permitted"), "%s", f.drive.err.message);
    finish(&f);
}
