/*
 * bench_cache.c - makes the page cache hot or cold for a set's files, and proves its state.
 *
 * The proof looks at up to 64 places, drawn anew each time, spread over the bytes of all files. If
 * the kernel has cachestat (Linux 6.5), it answers without touching anything. If not, a 4 KiB read
 * with RWF_NOWAIT fails with EAGAIN when the page is not cached. That read also starts loading the
 * page, so no place is used twice. A file system that supports neither, such as tmpfs, has no cold
 * state. Files that cannot be opened are skipped: no run can read them either, and the loader
 * reports them.
 */
#include "bench/common/bench_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bench/common/bench_util.h"

#define PROBES       64
#define PAGE         4096u
#define READ_BYTES   ((size_t)1 << 20)
#define TMPFS_ID     0x01021994
#define NR_CACHESTAT 451

typedef enum page_state { PAGE_IN, PAGE_OUT, PAGE_UNKNOWN, PAGE_NONE } page_state;

/* ---- One page -------------------------------------------------------------------------------- */

static page_state by_cachestat(int file, uint64_t offset) {
    struct {
        uint64_t offset, size;
    } range = {offset, PAGE};
    struct {
        uint64_t cache, dirty, writeback, evicted, recently_evicted;
    } answer = {0, 0, 0, 0, 0};
    if (syscall(NR_CACHESTAT, file, &range, &answer, 0) != 0) return PAGE_UNKNOWN;
    return answer.cache > 0 ? PAGE_IN : PAGE_OUT;
}

static page_state by_nowait(int file, uint64_t offset) {
    uint8_t bytes[PAGE];
    struct iovec part = {bytes, sizeof(bytes)};
    ssize_t n = preadv2(file, &part, 1, (off_t)offset, RWF_NOWAIT);
    if (n > 0) return PAGE_IN;
    return n < 0 && errno == EAGAIN ? PAGE_OUT : PAGE_UNKNOWN;
}

static page_state look(const char *path, uint64_t offset) {
    struct statfs fs;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return PAGE_NONE;
    page_state state = PAGE_UNKNOWN;
    if (fstatfs(file, &fs) == 0 && fs.f_type != TMPFS_ID) {
        state = by_cachestat(file, offset);
        if (state == PAGE_UNKNOWN) state = by_nowait(file, offset);
    }
    close(file);
    return state;
}

/* ---- All files ------------------------------------------------------------------------------- */

static uint64_t total_bytes(const iter_description *set) {
    uint64_t total = 0;
    for (uint64_t i = 0; i < set->n_files; i++)
        total += set->files[i].bytes != ITER_UNKNOWN ? set->files[i].bytes : 0;
    return total;
}

static bench_cache_proof prove(const iter_description *set) {
    bench_cache_proof proof = {BENCH_CACHE_NO_FILES, 0, 0};
    uint64_t total = total_bytes(set);
    if (total == 0) return proof;
    for (int i = 0; i < PROBES; i++) {
        uint64_t at, place = 0;
        if (getrandom(&at, sizeof(at), 0) != sizeof(at)) break;
        at %= total;
        while (set->files[place].bytes == ITER_UNKNOWN || at >= set->files[place].bytes) {
            at -= set->files[place].bytes != ITER_UNKNOWN ? set->files[place].bytes : 0;
            place++;
        }
        page_state state = look(set->files[place].path, at / PAGE * PAGE);
        if (state == PAGE_NONE) continue;
        if (state == PAGE_UNKNOWN) {
            proof.state = BENCH_CACHE_UNKNOWN;
            return proof;
        }
        proof.probes++;
        proof.resident += state == PAGE_IN;
    }
    proof.state = proof.probes == 0                ? BENCH_CACHE_UNKNOWN
                  : proof.resident == proof.probes ? BENCH_CACHE_IS_HOT
                  : proof.resident == 0            ? BENCH_CACHE_IS_COLD
                                                   : BENCH_CACHE_UNKNOWN;
    return proof;
}

static iter_status drop_file(const char *path, iter_error *err) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return ITER_OK;
    int answer = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
    return answer == 0 ? ITER_OK : bench_fail(err, ITER_EIO, "%s: %s", path, strerror(answer));
}

static iter_status warm_file(const char *path, uint8_t *buffer, iter_error *err) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    if (file < 0) return ITER_OK;
    do
        n = read(file, buffer, READ_BYTES);
    while (n > 0 || (n < 0 && errno == EINTR));
    iter_status s = n < 0 ? bench_fail(err, ITER_EIO, "%s: %s", path, strerror(errno)) : ITER_OK;
    close(file);
    return s;
}

static iter_status warm_all(const iter_description *set, iter_error *err) {
    uint8_t *buffer = malloc(READ_BYTES);
    iter_status s = buffer != NULL ? ITER_OK : bench_fail(err, ITER_ENOMEM, "no memory");
    for (uint64_t i = 0; s == ITER_OK && i < set->n_files; i++)
        s = warm_file(set->files[i].path, buffer, err);
    free(buffer);
    return s;
}

/* ---- Public ---------------------------------------------------------------------------------- */

const char *bench_cache_text(bench_cache_state state) {
    static const char *const texts[] = {"unknown", "hot", "cold", "none"};
    return texts[state];
}

iter_status bench_cache_drop(const iter_description *set, iter_error *err) {
    iter_status s = ITER_OK;
    sync();
    for (uint64_t i = 0; s == ITER_OK && i < set->n_files; i++)
        s = drop_file(set->files[i].path, err);
    return s;
}

iter_status bench_cache_prepare(const bench_options *options, bench_cache_proof *out,
                                iter_error *err) {
    iter_dataset *dataset;
    iter_status s = bench_dataset_open(options, &dataset, err);
    if (s < 0) return s;
    const iter_description *set = iter_dataset_describe(dataset);
    if (options->cache == BENCH_CACHE_HOT)
        s = warm_all(set, err);
    else if (options->cache == BENCH_CACHE_COLD)
        s = bench_cache_drop(set, err);
    if (s == ITER_OK) *out = prove(set);
    if (s == ITER_OK && options->cache == BENCH_CACHE_COLD && out->probes == 0)
        s = bench_fail(err, ITER_EUNSUPPORTED, "--cache cold: %s",
                       out->state == BENCH_CACHE_NO_FILES ? "the set reads no files"
                       : strstr(set->files[0].path, "://")
                           ? "its files are at URLs, which no page cache of this machine has"
                           : "this file system has no cold state, or does not tell (tmpfs?)");
    iter_dataset_unref(dataset);
    return s;
}
