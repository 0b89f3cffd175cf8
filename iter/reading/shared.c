/*
 * shared.c - memory that processes of one user share, as a file with locks by flock().
 *
 * The file begins with a page that identifies it; the shared bytes come after that page. A lock by
 * flock() belongs to the open file, so it disappears with the process, however that ends. The file
 * may lose its name between open() and flock(); then the name is opened again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "iter/core/error.h"
#include "iter/reading/shared.h"

#define MAGIC    UINT64_C(0x3164657261687369)
#define HEADER   4096 /* bytes before the memory */
#define STEP     ((off_t)256 << 20)
#define POLL_MS  3
#define NAME_ALL "libiter-%u-"

typedef struct header {
    uint64_t magic, identity[2], bytes;
    atomic_uint_least64_t progress;
    atomic_uint_least32_t ready;
} header;

typedef enum lock_state { LOCK_READY, LOCK_FILL, LOCK_BUSY, LOCK_LOST, LOCK_OTHER } lock_state;

/* ---- Its file -------------------------------------------------------------------------------- */

static bool has_name(int fd, const char *path) {
    struct stat file, named;
    return fstat(fd, &file) == 0 && lstat(path, &named) == 0 && file.st_dev == named.st_dev &&
           file.st_ino == named.st_ino;
}

static bool read_header(int fd, header *out) {
    return pread(fd, out, sizeof(*out), 0) == (ssize_t)sizeof(*out);
}

/* Removes the name of a file that has the exclusive lock of `fd`. */
static void remove_name(int fd, const char *path) {
    if (has_name(fd, path)) unlink(path);
}

/* Removes the files of processes that were killed. */
static void sweep(const char *folder, const char *keep) {
    char begin[32], path[ITER_SHARED_PATH];
    snprintf(begin, sizeof(begin), NAME_ALL, (unsigned)geteuid());
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        const int n = snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (strncmp(e->d_name, begin, strlen(begin)) != 0 || n >= (int)sizeof(path)) continue;
        if (strcmp(path, keep) == 0) continue;
        const int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) remove_name(fd, path);
        close(fd);
    }
    if (dir) closedir(dir);
}

static iter_status open_file(iter__shared *s, iter_error *err) {
    char reason[128];
    struct stat file;
    s->fd = open(s->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->fd < 0)
        return iter__fail(err, ITER_EUNSUPPORTED, "%s: %s", s->path,
                          iter__os_error(errno, reason, sizeof(reason)));
    if (fstat(s->fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
        (file.st_mode & 077) == 0)
        return ITER_OK;
    close(s->fd);
    return iter__fail(err, ITER_EUNSUPPORTED, "%s: it is not this user's own file", s->path);
}

/* ---- Its lock -------------------------------------------------------------------------------- */

static lock_state state_of(const iter__shared *s, const header *wanted) {
    header found;
    struct stat file;
    if (!has_name(s->fd, s->path)) return LOCK_LOST;
    if (!read_header(s->fd, &found) || !atomic_load(&found.ready)) return LOCK_FILL;
    const bool same = found.magic == wanted->magic && found.bytes == wanted->bytes &&
                      memcmp(found.identity, wanted->identity, sizeof(found.identity)) == 0;
    const bool whole = fstat(s->fd, &file) == 0 && (uint64_t)file.st_size == HEADER + wanted->bytes;
    return same && whole ? LOCK_READY : LOCK_OTHER;
}

/* Takes a shared lock if the memory is ready, an exclusive one if this process must fill it. */
static lock_state take_lock(const iter__shared *s, const header *wanted) {
    lock_state state = LOCK_BUSY;
    if (flock(s->fd, LOCK_SH | LOCK_NB) == 0) state = state_of(s, wanted);
    if (state != LOCK_FILL) return state;
    flock(s->fd, LOCK_UN);
    if (flock(s->fd, LOCK_EX | LOCK_NB) != 0) return LOCK_BUSY;
    state = state_of(s, wanted); /* another may have filled it in between */
    if (state == LOCK_READY) flock(s->fd, LOCK_SH);
    return state;
}

/* A number that changes while another process fills the memory. */
static uint64_t sign_of_life(const iter__shared *s) {
    header found;
    struct stat file;
    if (fstat(s->fd, &file) != 0) return 0;
    const uint64_t room = (uint64_t)file.st_size + (uint64_t)file.st_blocks;
    return read_header(s->fd, &found) ? room + atomic_load(&found.progress) : room;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Opens the file until this process has a lock on the file of that name. */
static iter_status open_locked(iter__shared *s, const header *wanted, int patience_ms,
                               iter_error *err) {
    const struct timespec pause = {.tv_nsec = (POLL_MS * 1000 + getpid() % 1000) * 1000};
    uint64_t seen = 0;
    int64_t since = now_ms();
    ITER_TRY(open_file(s, err));
    for (;;) {
        const lock_state state = take_lock(s, wanted);
        s->must_fill = state == LOCK_FILL;
        if (state == LOCK_READY || state == LOCK_FILL) return ITER_OK;
        if (state == LOCK_OTHER) {
            close(s->fd);
            return iter__fail(err, ITER_EUNSUPPORTED, "%s holds another set", s->path);
        }
        if (state == LOCK_LOST) {
            close(s->fd);
            ITER_TRY(open_file(s, err));
            continue;
        }
        const uint64_t sign = sign_of_life(s);
        if (sign != seen) since = now_ms();
        seen = sign;
        if (now_ms() - since > patience_ms) {
            close(s->fd);
            return iter__fail(err, ITER_EUNSUPPORTED,
                              "%s: the process that fills it made no progress for %d s", s->path,
                              patience_ms / 1000);
        }
        nanosleep(&pause, NULL);
    }
}

/* ---- Its memory ------------------------------------------------------------------------------ */

/* Allocates all pages now: a lack of them is an error here, but a signal later. Memory that cannot
 * fit is not even begun, because other processes would lack those pages for a while. */
static int take_room(int fd, off_t bytes) {
    struct statvfs room;
    if (ftruncate(fd, 0) != 0) return errno; /* pages that a killed process left */
    if (fstatvfs(fd, &room) != 0) return errno;
    if ((uint64_t)bytes / room.f_frsize >= room.f_bavail) return ENOSPC;
    for (off_t at = 0; at < bytes; at += STEP) {
        const int failed = posix_fallocate(fd, at, bytes - at < STEP ? bytes - at : STEP);
        if (failed) return failed;
    }
    return 0;
}

static bool map_to_fill(iter__shared *s, const header *wanted) {
    s->map = mmap(NULL, HEADER + s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (s->map == MAP_FAILED) return false;
    header *begin = (header *)s->map;
    begin->bytes = wanted->bytes;
    begin->magic = wanted->magic;
    memcpy(begin->identity, wanted->identity, sizeof(begin->identity));
    return true;
}

/* Maps all pages before the mapping may be written; otherwise MAP_POPULATE would copy each. */
static bool map_ready(iter__shared *s) {
    const size_t bytes = HEADER + s->bytes;
    s->map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE | MAP_NORESERVE, s->fd, 0);
    if (s->map == MAP_FAILED) return false;
    if (mprotect(s->map, bytes, PROT_READ | PROT_WRITE) == 0) return true;
    munmap(s->map, bytes);
    return false;
}

static iter_status give_up(iter__shared *s, const char *what, int error, iter_error *err) {
    char reason[128];
    iter__fail(err, ITER_EUNSUPPORTED, "%s: %s %zu bytes: %s", s->path, what, s->bytes,
               iter__os_error(error, reason, sizeof(reason)));
    if (s->must_fill) remove_name(s->fd, s->path);
    close(s->fd);
    s->memory = NULL;
    return ITER_EUNSUPPORTED;
}

iter_status iter__shared_open(iter__shared *out, const char *folder, const uint64_t identity[2],
                              size_t bytes, int patience_ms, iter_error *err) {
    const header wanted = {.magic = MAGIC, .identity = {identity[0], identity[1]}, .bytes = bytes};
    *out = (iter__shared){.bytes = bytes, .process = getpid()};
    if (snprintf(out->path, sizeof(out->path), "%s/" NAME_ALL "%016llx%016llx", folder,
                 (unsigned)geteuid(), (unsigned long long)identity[0],
                 (unsigned long long)identity[1]) >= (int)sizeof(out->path))
        return iter__fail(err, ITER_EUNSUPPORTED, "%s: its name is too long", folder);
    sweep(folder, out->path);
    ITER_TRY(open_locked(out, &wanted, patience_ms, err));
    if (out->must_fill) {
        const int failed = take_room(out->fd, (off_t)(HEADER + bytes));
        if (failed) return give_up(out, "no room for", failed, err);
        if (!map_to_fill(out, &wanted)) return give_up(out, "cannot map", errno, err);
    } else if (!map_ready(out)) {
        return give_up(out, "cannot map", errno, err);
    }
    out->memory = out->map + HEADER;
    return ITER_OK;
}

void iter__shared_progress(const iter__shared *shared, uint64_t bytes) {
    if (shared->memory && shared->must_fill)
        atomic_fetch_add(&((header *)shared->map)->progress, bytes);
}

iter_status iter__shared_publish(iter__shared *s, iter_error *err) {
    atomic_store(&((header *)s->map)->ready, 1);
    s->must_fill = false;
    munmap(s->map, HEADER + s->bytes);
    flock(s->fd, LOCK_SH);
    if (map_ready(s)) {
        s->memory = s->map + HEADER;
        return ITER_OK;
    }
    s->memory = NULL;
    if (flock(s->fd, LOCK_EX | LOCK_NB) == 0) remove_name(s->fd, s->path);
    close(s->fd);
    return iter__fail(err, ITER_ENOMEM, "%s: cannot map %zu bytes", s->path, s->bytes);
}

void iter__shared_withdraw(iter__shared *s) {
    s->must_fill = false;
    remove_name(s->fd, s->path);
    flock(s->fd, LOCK_UN);
}

/* A child of fork() has its parent's lock and must leave it alone. */
void iter__shared_close(iter__shared *s) {
    if (!s->memory) return;
    munmap(s->map, HEADER + s->bytes);
    if (s->process == getpid() && flock(s->fd, LOCK_EX | LOCK_NB) == 0) remove_name(s->fd, s->path);
    close(s->fd);
    s->memory = NULL;
}
