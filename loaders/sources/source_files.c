/*
 * source_files.c - see source_files.h.
 *
 * try_read() reads with RWF_NOWAIT (preadv2(2)), which only reads from the page cache. If files are
 * not kept open, openat2(2) with RESOLVE_CACHED does the same for the path. If the file system can
 * never do this, os_error is EOPNOTSUPP, and the caller must remember that: any number of threads
 * call try_read(), so it keeps no state.
 */
#include "loaders/sources/source_files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"

#define ITER_DEFAULT_BLOCK 4096u

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_path(const char *path, int flags) {
    int fd;
    do {
        fd = open(path, flags);
    } while (fd < 0 && errno == EINTR);
    return fd >= 0 ? fd : -errno;
}

/* Adds the alignment that O_DIRECT needs on this file to that of earlier ones. False if the file
 * system has no O_DIRECT. */
static bool ask_blocks(int fd, iter__blocks *blocks) {
    uint32_t offset_align = ITER_DEFAULT_BLOCK;
    uint32_t memory_align = ITER_DEFAULT_BLOCK;
#ifdef STATX_DIOALIGN
    struct statx info;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
        (info.stx_mask & STATX_DIOALIGN) != 0) {
        if (info.stx_dio_offset_align == 0) return false;
        offset_align = info.stx_dio_offset_align;
        memory_align = info.stx_dio_mem_align;
    }
#else
    (void)fd;
#endif
    blocks->offset_align = iter__max_u32(blocks->offset_align, offset_align);
    blocks->memory_align = iter__max_u32(blocks->memory_align, memory_align);
    blocks->bounce_bytes = iter__max_u32(
        ITER_SOURCE_BOUNCE_BYTES, iter__max_u32(2 * blocks->offset_align, blocks->memory_align));
    return true;
}

/* Tests, with the first file that can be opened, if O_DIRECT is available. */
static void choose_direct(iter__source_files *files, char *fallback, size_t capacity) {
    int fd = -ENOENT;
    const char *path = "";
    const uint64_t n = iter__min_u64(files->n_files, 16);
    for (uint64_t i = 0; i < n && fd < 0 && fd != -EINVAL; i++) {
        path = files->files[i].path;
        fd = open_path(path, files->open_flags | O_DIRECT);
    }
    if (fd == -EINVAL || (fd >= 0 && !ask_blocks(fd, &files->blocks))) {
        (void)snprintf(fallback, capacity,
                       "O_DIRECT is not supported for %s: reading through the page cache", path);
    } else {
        files->open_flags |= O_DIRECT;
        if (fd < 0) /* no file can be opened: assume the usual alignment */
            (void)ask_blocks(-1, &files->blocks);
    }
    if (fd >= 0) close(fd);
}

/* A file descriptor that give_fd() takes back, or -errno. */
static int take_fd(const iter__source_files *files, uint64_t object) {
    assert(object < files->n_files);
    if (files->fds != NULL) return files->fds[object];
    const char *path = files->files[object].path;
    int fd = open_path(path, files->open_flags);
    if (fd == -EINVAL && (files->open_flags & O_DIRECT) != 0)
        fd = open_path(path, files->open_flags & ~O_DIRECT);
    return fd;
}

static void give_fd(const iter__source_files *files, int fd) {
    if (files->fds == NULL && fd >= 0) close(fd);
}

static void close_all(int32_t *fds, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        if (fds[i] >= 0) close(fds[i]);
    }
    iter__free(fds);
}

iter_status iter__source_files_open(iter__source_files *files, const iter_source_config *config,
                                    char *fallback, size_t capacity, iter_error *err) {
    *files = (iter__source_files){.files = config->files, .n_files = config->n_files};
    files->open_flags = O_RDONLY | O_CLOEXEC;
    if (capacity > 0) fallback[0] = '\0';
    if (config->o_direct) choose_direct(files, fallback, capacity);
    if (config->n_files > ITER_SOURCE_OPEN_MAX) return ITER_OK;

    int32_t *fds = iter__alloc(config->n_files + 1, sizeof *fds);
    if (fds == NULL) {
        return iter__fail(err, ITER_ENOMEM, "out of memory for %d files", (int)config->n_files);
    }
    for (uint64_t i = 0; i < config->n_files; i++) {
        fds[i] = take_fd(files, i);
        if (fds[i] == -EMFILE || fds[i] == -ENFILE) { /* too many to keep open: opened one by one */
            close_all(fds, i);
            return ITER_OK;
        }
        if (fds[i] >= 0 && (files->open_flags & O_DIRECT) != 0) ask_blocks(fds[i], &files->blocks);
    }
    files->fds = fds;
    return ITER_OK;
}

void iter__source_files_close(iter__source_files *files) {
    if (files->fds != NULL) close_all(files->fds, files->n_files);
    files->fds = NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int64_t ask(int fd, const iter__source_step *step, void *bounce) {
    ssize_t got;
    if (step->kind == ITER_STEP_MANY) {
        got = preadv(fd, (const struct iovec *)(const void *)step->parts, step->n_parts,
                     (off_t)step->offset);
    } else {
        got = pread(fd, step->kind == ITER_STEP_BOUNCE ? bounce : step->base, step->length,
                    (off_t)step->offset);
    }
    return got >= 0 ? (int64_t)got : -(int64_t)errno;
}

static iter_status end_with(iter_read *read, int32_t os_error) {
    iter__step_end(read, os_error);
    return read->status;
}

iter_status iter__source_files_read(const iter__source_files *files, iter_read *read) {
    read->path = ITER_PATH_PREAD;
    const int fd = take_fd(files, read->object);
    if (fd < 0) return end_with(read, -fd);

    void *block = NULL;
    uint8_t *bounce = NULL;
    iter__blocks blocks = files->blocks;
    blocks.in_place = true; /* a bounce buffer would be allocated for each read */
    iter__step_end(read, 0);
    for (iter__after after = ITER_AFTER_NEXT; after != ITER_AFTER_DONE;) {
        iter__source_step step;
        iter__step_plan(read, &blocks, &step);
        if (step.kind == ITER_STEP_NONE) break;
        if (step.kind == ITER_STEP_BOUNCE && block == NULL) {
            const size_t align = files->blocks.memory_align;
            block = iter__alloc(1, files->blocks.bounce_bytes + align);
            if (block == NULL) {
                iter__step_end(read, ENOMEM);
                break;
            }
            bounce = (uint8_t *)block + (align - (uintptr_t)block % align) % align;
        }
        const int64_t answer = ask(fd, &step, bounce);
        after = iter__step_book(read, &step, bounce, answer);
        if (after == ITER_AFTER_LOST) { /* a pread is never canceled: a bad address */
            iter__step_end(read, (int32_t)-answer);
            break;
        }
    }
    iter__free(block);
    give_fd(files, fd);
    return read->status;
}

/* Opens the file only if that does not block; else -errno. */
static int take_cached_fd(const iter__source_files *files, uint64_t object) {
    if (files->fds != NULL) return files->fds[object];
    struct open_how how;
    memset(&how, 0, sizeof how);
    how.flags = (uint64_t)files->open_flags;
    how.resolve = RESOLVE_CACHED;
    const long fd = syscall(SYS_openat2, AT_FDCWD, files->files[object].path, &how, sizeof how);
    if (fd >= 0) return (int)fd;
    return errno == ENOSYS || errno == EINVAL ? -EOPNOTSUPP : -errno;
}

iter_status iter__source_files_try_read(const iter__source_files *files, iter_read *read) {
    read->path = ITER_PATH_PREAD;
    read->os_error = EOPNOTSUPP;
    if ((files->open_flags & O_DIRECT) != 0) return ITER_AGAIN;
    const int fd = take_cached_fd(files, read->object);
    if (fd < 0) {
        read->os_error = -fd;
        return ITER_AGAIN;
    }
    iter_status status = ITER_OK;
    iter__step_end(read, 0);
    for (iter__after after = ITER_AFTER_NEXT; after == ITER_AFTER_NEXT;) {
        iter__source_step step;
        iter__step_plan(read, &files->blocks, &step);
        if (step.kind == ITER_STEP_NONE) break;
        struct iovec one = {.iov_base = step.base, .iov_len = step.length};
        const bool many = step.kind == ITER_STEP_MANY;
        const ssize_t got =
            preadv2(fd, many ? (const struct iovec *)(const void *)step.parts : &one,
                    many ? step.n_parts : 1, (off_t)step.offset, RWF_NOWAIT);
        if (got < 0) { /* read() will report a real error */
            read->os_error = errno == ENOSYS ? EOPNOTSUPP : errno;
            status = ITER_AGAIN;
            break;
        }
        after = iter__step_book(read, &step, NULL, got);
    }
    give_fd(files, fd);
    return status;
}
