/*
 * pack_lock.c - see pack_lock.h.
 *
 * The lock is on a file of its own, PATH.part.lock: the parts are renamed at the end, and a lock on
 * them would go with them to the finished file. It is an open file description lock. The kernel
 * drops it when the process ends, even by kill -9, and NFS passes it on to other hosts. Such a lock
 * has no owner that could be queried, so the file names the process that has it.
 *
 * The file is removed while it is locked. So the file that was locked may be gone from its folder,
 * or replaced by another: then the lock is worthless, and is taken again.
 */
#include "tools/iterpack/pack_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/iterpack/iterpack.h"

#define TRIES_MAX  100
#define OWNER_MAX  320
#define HOST_BYTES 256

static int set_lock(int fd) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int answer;
    do {
        answer = fcntl(fd, F_OFD_SETLK, &whole);
    } while (answer < 0 && errno == EINTR);
    return answer < 0 ? errno : 0;
}

/* Whether the open file is the one that the path names. */
static bool is_there(int fd, const char *path) {
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

static int fail_taken(int fd, const char *path) {
    char owner[OWNER_MAX];
    const ssize_t n = pread(fd, owner, sizeof(owner) - 1, 0);
    owner[n > 0 ? n : 0] = '\0';
    owner[strcspn(owner, "\n")] = '\0';
    return pack_fail("%s: is being written by another iterpack%s%s", path,
                     *owner ? ", " : ", which has not given its name so far", owner);
}

static void write_owner(int fd) {
    char host[HOST_BYTES] = "an unknown host";
    if (gethostname(host, sizeof(host)) == 0) host[sizeof(host) - 1] = '\0';
    char *text = pack_text("process %ld on %s\n", (long)getpid(), host);
    /* if this fails, the lock still holds, but its owner is not named */
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, strlen(text), 0) < 0) (void)ftruncate(fd, 0);
    free(text);
}

int pack_lock_take(pack_lock *lock, const char *path) {
    *lock = (pack_lock){.path = pack_text("%s.part.lock", path), .fd = -1};
    for (int i = 0; i < TRIES_MAX; i++) {
        lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (lock->fd < 0) break;
        const int os_error = set_lock(lock->fd);
        if (os_error == 0 && is_there(lock->fd, lock->path)) {
            write_owner(lock->fd);
            return PACK_DONE;
        }
        if (os_error == EAGAIN || os_error == EACCES) {
            const int status = fail_taken(lock->fd, path);
            close(lock->fd);
            free(lock->path);
            *lock = (pack_lock){.fd = -1};
            return status;
        }
        if (os_error != 0) {
            pack_warn("%s: cannot be locked here (%s): make sure that no other iterpack writes it",
                      path, strerror(os_error));
            return PACK_DONE;
        }
        close(lock->fd);
    }
    const int status = pack_fail_os("%s", lock->path);
    free(lock->path);
    *lock = (pack_lock){.fd = -1};
    return status;
}

void pack_lock_give(pack_lock *lock) {
    if (!lock->path) return;
    (void)unlink(lock->path); /* before another process may lock it */
    close(lock->fd);
    free(lock->path);
    *lock = (pack_lock){.fd = -1};
}
