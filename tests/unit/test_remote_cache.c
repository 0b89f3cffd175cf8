/* test_remote_cache.c - blocks in a folder: what is delivered is what was kept, whatever happens
 * to the files. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "iter/core/error.h"
#include "iter/remote/cache.h"

#define HEAD 304 /* bytes of a block's file before the block's own */

static char folder[64];

static void begin(void) {
    strcpy(folder, "/tmp/iter-cache-XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
}

static void end(void) {
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(remote_cache, .init = begin, .fini = end);

static iter__cache *open_cache(uint64_t limit) {
    iter__cache *cache = NULL;
    iter_error err = {.status = ITER_OK};
    cr_assert_eq(iter__cache_open(folder, limit, &cache, &err), ITER_OK, "%s", err.message);
    return cache;
}

static void fill(uint8_t *out, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)((i * 2654435761u + seed * 40503u) >> 13);
}

/* Keeps a block of n bytes made from `seed`; whether it is there then. */
static bool keep(iter__cache *cache, const iter__cache_key *key, uint64_t block, size_t n,
                 unsigned seed) {
    static uint8_t bytes[ITER_CACHE_BLOCK];
    iter__cache_claim claim;
    fill(bytes, n, seed);
    if (!iter__cache_claim_block(cache, key, block, &claim)) return false;
    iter__cache_keep(cache, key, block, &claim, bytes, n);
    return iter__cache_has(cache, key, block);
}

static bool is_right(iter__cache *cache, const iter__cache_key *key, uint64_t block, size_t at,
                     size_t n, unsigned seed) {
    static uint8_t want[ITER_CACHE_BLOCK], got[ITER_CACHE_BLOCK];
    if (iter__cache_read(cache, key, block, at, got, n, true) != ITER_CACHE_READ) return false;
    fill(want, at + n, seed);
    cr_assert_eq(memcmp(got, want + at, n), 0, "wrong bytes at %zu", at);
    return true;
}

static void path_of(const iter__cache_key *key, uint64_t block, char out[160]) {
    char hash[33] = "";
    for (int i = 0; i < 16; i++)
        snprintf(hash + (size_t)2 * i, 3, "%02x", key->hash[i]);
    snprintf(out, 160, "%s/%.2s/%s-%llx", folder, hash, hash, (unsigned long long)block);
}

Test(remote_cache, keeps) {
    iter__cache *cache = open_cache((uint64_t)64 << 20);
    const iter__cache_key a = iter__cache_key_of("s3://b/a", "\"1\""),
                          b = iter__cache_key_of("s3://b/a", "\"2\"");
    cr_expect(memcmp(&a, &b, sizeof(a)) != 0);
    cr_expect(!is_right(cache, &a, 0, 0, 1, 1));
    const size_t sizes[] = {1, 16383, 16384, 16385, 100000, ITER_CACHE_BLOCK};
    for (unsigned i = 0; i < 6; i++) {
        cr_assert(keep(cache, &a, i, sizes[i], i));
        for (unsigned j = 0; j < 200; j++) {
            const size_t at = (j * 7919u) % sizes[i], n = 1 + (j * 104729u) % (sizes[i] - at);
            cr_expect(is_right(cache, &a, i, at, n, i));
        }
        cr_expect(!is_right(cache, &a, i, 1, sizes[i], i), "read past the end");
        cr_expect(iter__cache_has(cache, &a, i), "a read past the end dropped it");
        cr_expect(!is_right(cache, &b, i, 0, 1, i));
    }
    iter__cache_close(cache);
    cache = open_cache((uint64_t)64 << 20);
    cr_expect(is_right(cache, &a, 5, 0, ITER_CACHE_BLOCK, 5));
    char path[160];
    struct stat st;
    path_of(&a, 5, path);
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 0777u, 0600u);
    iter__cache_close(cache);
}

/* Drops a file from the page cache. False = this file system keeps it. The kernel passes over pages
 * that it uses at this moment, so several tries are made. */
static bool make_cold(const char *path) {
    const struct timespec pause = {.tv_nsec = 20000000};
    uint8_t byte;
    struct iovec part = {&byte, 1};
    bool cold = false;
    const int fd = open(path, O_RDONLY);
    cr_assert_geq(fd, 0);
    for (int i = 0; i < 50 && !cold; i++) {
        if (i > 0) nanosleep(&pause, NULL);
        cr_assert_eq(fsync(fd), 0);
        cr_assert_eq(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        cold = preadv2(fd, &part, 1, 0, RWF_NOWAIT) < 0 && errno == EAGAIN;
    }
    close(fd);
    return cold;
}

/* Whether a read that may not wait says that a file must be read from the disk. Now and then the
 * kernel reads a fast disk all the same, so several tries are made. */
static bool says_cold(iter__cache *cache, const iter__cache_key *key, uint64_t block,
                      const char *path) {
    static uint8_t got[100000];
    for (int i = 0; i < 100; i++) {
        if (!make_cold(path)) cr_skip_test("/tmp keeps files in the page cache");
        const iter__cache_answer answer =
            iter__cache_read(cache, key, block, 50000, got, sizeof(got), false);
        if (answer == ITER_CACHE_COLD) return true;
        cr_assert_eq(answer, ITER_CACHE_READ);
    }
    return false;
}

/* Whether a block that was just read is read again by one that may not wait. A busy kernel may have
 * dropped it, so several tries are made. */
static bool says_read(iter__cache *cache, const iter__cache_key *key, uint64_t block) {
    static uint8_t got[100000];
    for (int i = 0; i < 100; i++) {
        if (iter__cache_read(cache, key, block, 50000, got, sizeof(got), false) == ITER_CACHE_READ)
            return true;
        cr_assert(is_right(cache, key, block, 50000, sizeof(got), (unsigned)block));
    }
    return false;
}

/* What is on the disk alone is not read unless the reader may wait, and is summed when it is. */
Test(remote_cache, cold) {
    enum { N = 300000 };
    static uint8_t got[N];
    char path[160];
    const iter__cache_key key = iter__cache_key_of("https://h/cold", "\"1\"");
    iter__cache *cache = open_cache((uint64_t)64 << 20);
    for (unsigned block = 0; block < 2; block++)
        cr_assert(keep(cache, &key, block, N, block));
    cr_expect(is_right(cache, &key, 0, 0, 100, 0)); /* this one is open */
    for (unsigned block = 0; block < 2; block++) {
        path_of(&key, block, path);
        cr_expect(says_cold(cache, &key, block, path));
        cr_expect(is_right(cache, &key, block, 50000, 100000, block));
        cr_expect(says_read(cache, &key, block));
        cr_expect(is_right(cache, &key, block, 0, N, block));
    }
    cr_expect_eq(iter__cache_read(cache, &key, 2, 0, got, 1, false), ITER_CACHE_NONE);
    const int fd = open(path, O_WRONLY);
    cr_assert_eq(pwrite(fd, "?", 1, HEAD + 200000), 1);
    close(fd);
    iter__cache_close(cache);
    if (!make_cold(path)) cr_skip_test("/tmp keeps files in the page cache");
    cache = open_cache((uint64_t)64 << 20);
    cr_expect_neq(iter__cache_read(cache, &key, 1, 0, got, N, false), ITER_CACHE_READ);
    cr_expect_eq(iter__cache_read(cache, &key, 1, 0, got, N, true), ITER_CACHE_NONE);
    cr_expect(!iter__cache_has(cache, &key, 1));
    iter__cache_close(cache);
}

/* Each byte of a small block's file is changed, and the file is cut at each length: what is read is
 * right, or it is not read, and the block can be kept again. */
Test(remote_cache, damage) {
    enum { N = 40 };
    iter__cache *cache = open_cache((uint64_t)64 << 20);
    const iter__cache_key key = iter__cache_key_of("https://h/x", "W/\"q\"");
    char path[160];
    path_of(&key, 3, path);
    for (int i = 0; i < 2 * (HEAD + N); i++) {
        cr_assert(keep(cache, &key, 3, N, 9));
        const bool cut = i >= HEAD + N;
        const off_t at = cut ? i - HEAD - N : i;
        const int fd = open(path, O_RDWR);
        uint8_t byte;
        cr_assert(fd >= 0 && pread(fd, &byte, 1, at) == 1);
        byte ^= (uint8_t)(1u << (i % 8));
        cr_assert(cut ? ftruncate(fd, at) == 0 : pwrite(fd, &byte, 1, at) == 1);
        close(fd);
        cr_expect(!is_right(cache, &key, 3, 0, N, 9), "byte %d", (int)at);
        cr_expect(!iter__cache_has(cache, &key, 3));
    }
    /* A block under another's name. */
    char other[160];
    cr_assert(keep(cache, &key, 3, N, 9));
    path_of(&key, 4, other);
    cr_assert_eq(rename(path, other), 0);
    cr_expect(!is_right(cache, &key, 4, 0, N, 9));
    iter__cache_close(cache);
}

/* Blocks stay open. One that was written to is summed again, one that was unlinked is closed; both
 * are looked for once a second. */
Test(remote_cache, open_blocks) {
    iter__cache *cache = open_cache((uint64_t)64 << 20);
    const iter__cache_key key = iter__cache_key_of("https://h/x", "1");
    char path[160];
    const struct timespec second = {.tv_sec = 1, .tv_nsec = 100000000},
                          tick = {.tv_nsec = 20000000};
    cr_assert(keep(cache, &key, 0, 50000, 1) && keep(cache, &key, 1, 50000, 2));
    for (int i = 0; i < 3; i++) {
        cr_expect(is_right(cache, &key, 0, 20000, 9000, 1)); /* pieces 1, then 0 and 2 as well */
        cr_expect(is_right(cache, &key, 0, 16383, 33000, 1));
        cr_expect(is_right(cache, &key, 1, 49999, 1, 2));
        cr_expect(!is_right(cache, &key, 1, 49999, 2, 2));
    }
    nanosleep(&tick, NULL); /* times of files are often this coarse */
    path_of(&key, 0, path);
    const int fd = open(path, O_WRONLY);
    cr_assert(fd >= 0 && pwrite(fd, "flip", 4, HEAD + 20500) == 4);
    close(fd);
    path_of(&key, 1, path);
    cr_assert_eq(unlink(path), 0);
    nanosleep(&second, NULL);
    cr_expect(!is_right(cache, &key, 0, 20400, 200, 1));
    cr_expect(!is_right(cache, &key, 1, 0, 1, 2));
    cr_expect(keep(cache, &key, 0, 50000, 1) && is_right(cache, &key, 0, 20400, 200, 1));
    iter__cache_close(cache);
}

enum { N_MANY = 64, N_READERS = 4 };

static void *read_many(void *user) {
    iter__cache *cache = ((void **)user)[0];
    const iter__cache_key *key = ((void **)user)[1];
    unsigned state = (unsigned)(uintptr_t)pthread_self();
    static _Thread_local uint8_t got[600], want[600];
    for (int i = 0; i < 20000; i++) {
        state = state * 1664525u + 1013904223u;
        const unsigned block = state >> 26, at = state >> 8 & 255;
        fill(want, 600, block);
        if (iter__cache_read(cache, key, block, at, got, 300, true) != ITER_CACHE_READ ||
            memcmp(got, want + at, 300) != 0)
            return user;
    }
    return NULL;
}

static int handles(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* More blocks than may stay open, and several readers. */
Test(remote_cache, open_blocks_change) {
    iter__cache *cache = open_cache((uint64_t)64 << 20);
    iter__cache_key key = iter__cache_key_of("https://h/y", "1");
    pthread_t readers[N_READERS];
    void *user[2] = {cache, &key}, *failed;
    const int before = handles();
    for (unsigned i = 0; i < N_MANY; i++)
        cr_assert(keep(cache, &key, i, 600, i));
    for (int i = 0; i < N_READERS; i++)
        cr_assert_eq(pthread_create(&readers[i], NULL, read_many, user), 0);
    for (int i = 0; i < N_READERS; i++) {
        pthread_join(readers[i], &failed);
        cr_expect_null(failed);
    }
    cr_expect(handles() - before > 8 && handles() - before <= 16, "%d", handles() - before);
    iter__cache_close(cache);
    cr_expect(handles() < before);
}

static uint64_t bytes_in_folder(void) {
    char command[192];
    unsigned long long bytes = 0;
    snprintf(command, sizeof(command),
             "find %s -mindepth 2 -type f -printf '%%s\\n' | awk '{n+=$1} END{print n+0}'", folder);
    FILE *out = popen(command, "r");
    cr_assert(out && fscanf(out, "%llu", &bytes) == 1);
    pclose(out);
    return bytes;
}

/* The limit holds; blocks of other objects go first, the longest unused ones before; those of this
 * process's set stay. */
Test(remote_cache, room) {
    const uint64_t limit = (uint64_t)5 << 20;
    iter_error err = {.status = ITER_OK};
    iter__cache *cache = NULL;
    cr_expect_eq(iter__cache_open(folder, 1000, &cache, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "1000 bytes hold no block, which takes 1048880"), "%s",
              err.message);
    cache = open_cache(limit);
    const iter__cache_key old = iter__cache_key_of("s3://b/old", "\"1\""),
                          set = iter__cache_key_of("s3://b/set", "\"1\"");
    for (unsigned i = 0; i < 4; i++) {
        cr_assert(keep(cache, &old, i, ITER_CACHE_BLOCK, i));
        char path[160];
        path_of(&old, i, path);
        const struct timespec used[2] = {{.tv_sec = 1000000 + (time_t)(7 * i % 4)},
                                         {.tv_sec = 1000000 + (time_t)(7 * i % 4)}};
        cr_assert_eq(utimensat(AT_FDCWD, path, used, 0), 0);
    }
    iter__cache_uses(cache, &set);
    cr_assert(keep(cache, &set, 0, ITER_CACHE_BLOCK, 10));
    cr_expect(iter__cache_has(cache, &old, 1) + iter__cache_has(cache, &old, 2) +
                      iter__cache_has(cache, &old, 3) ==
                  3,
              "the longest unused one is block 0");
    cr_expect(!iter__cache_has(cache, &old, 0));
    for (unsigned i = 1; i < 4; i++)
        cr_assert(keep(cache, &set, i, ITER_CACHE_BLOCK, 10 + i));
    cr_expect(!iter__cache_has_room(cache));
    cr_expect(!keep(cache, &set, 4, ITER_CACHE_BLOCK, 14));
    for (unsigned i = 0; i < 4; i++)
        cr_expect(is_right(cache, &set, i, 0, ITER_CACHE_BLOCK, 10 + i));
    cr_expect_leq(bytes_in_folder(), limit);
    iter__cache_close(cache);
    cache = open_cache(limit); /* counts anew */
    cr_expect(iter__cache_has_room(cache), "blocks of no set make room");
    iter__cache_close(cache);
}

Test(remote_cache, claims) {
    iter__cache *one = open_cache((uint64_t)64 << 20), *two = open_cache((uint64_t)64 << 20);
    const iter__cache_key key = iter__cache_key_of("s3://b/a", "\"1\"");
    iter__cache_claim a, b;
    cr_assert(iter__cache_claim_block(one, &key, 0, &a) && a.fd >= 0);
    cr_expect(!iter__cache_claim_block(two, &key, 0, &b));
    iter__cache_keep(one, &key, 0, &a, NULL, 0);
    cr_assert(iter__cache_claim_block(two, &key, 0, &b) && b.fd >= 0);
    iter__cache_keep(two, &key, 0, &b, "x", 1);
    cr_expect(iter__cache_has(one, &key, 0));
    /* A process that dies holds nothing. */
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        if (!iter__cache_claim_block(one, &key, 1, &a)) _exit(1);
        (void)raise(SIGKILL);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status));
    cr_assert(iter__cache_claim_block(two, &key, 1, &b) && b.fd >= 0);
    iter__cache_keep(two, &key, 1, &b, "y", 1);
    cr_expect(iter__cache_has(one, &key, 1));
    iter__cache_close(one);
    iter__cache_close(two);
}

/* The holder of a claim was stopped for long, so another process took it, and goes on now. */
Test(remote_cache, claims_are_taken) {
    iter__cache *one = open_cache((uint64_t)64 << 20), *two = open_cache((uint64_t)64 << 20);
    const iter__cache_key key = iter__cache_key_of("s3://b/a", "\"1\"");
    const struct timespec old[2] = {{.tv_sec = time(NULL) - 60}, {.tv_sec = time(NULL) - 60}};
    static uint8_t bytes[4000];
    fill(bytes, sizeof(bytes), 1);
    for (uint64_t block = 0; block < 2; block++) {
        const bool has_bytes = block == 0;
        iter__cache_claim a, b;
        cr_assert(iter__cache_claim_block(one, &key, block, &a) && a.fd >= 0);
        cr_assert_eq(futimens(a.fd, old), 0);
        cr_assert(iter__cache_claim_block(two, &key, block, &b) && b.fd >= 0);
        iter__cache_keep(one, &key, block, &a, has_bytes ? bytes : NULL, has_bytes ? 4000 : 0);
        cr_expect(!iter__cache_has(two, &key, block), "the other one's file is not done");
        iter__cache_keep(two, &key, block, &b, bytes, sizeof(bytes));
        cr_expect(is_right(one, &key, block, 0, sizeof(bytes), 1));
    }
    iter__cache_close(one);
    iter__cache_close(two);
}

/* As on a full disk, a write comes to an end in the middle. */
Test(remote_cache, no_space) {
    iter__cache *cache = open_cache((uint64_t)64 << 20);
    const iter__cache_key key = iter__cache_key_of("s3://b/a", "\"1\"");
    struct rlimit before, small;
    (void)signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 300000;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    cr_expect(!keep(cache, &key, 0, ITER_CACHE_BLOCK, 1));
    cr_expect_eq(bytes_in_folder(), 0u);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    cr_expect(!iter__cache_has_room(cache), "it rests for a while");
    iter__cache_close(cache);
    cache = open_cache((uint64_t)64 << 20);
    cr_expect(keep(cache, &key, 0, ITER_CACHE_BLOCK, 1));
    iter__cache_close(cache);
}

Test(remote_cache, folders) {
    iter__cache *cache = NULL;
    iter_error err = {.status = ITER_OK};
    cr_expect_eq(iter__cache_open("/proc/none", 0, &cache, &err), ITER_EIO);
    cr_expect(strstr(err.message, "cache: /proc/none: "), "%s", err.message);
    char path[128];
    snprintf(path, sizeof(path), "%s/new", folder);
    cr_expect_eq(iter__cache_open(path, 0, &cache, &err), ITER_OK);
    struct stat st;
    cr_expect(stat(path, &st) == 0 && (st.st_mode & 0777u) == 0700u);
    iter__cache_close(cache);
}
