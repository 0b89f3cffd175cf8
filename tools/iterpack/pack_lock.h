/* pack_lock.h - lets only one process write a file. */
#ifndef PACK_LOCK_H
#define PACK_LOCK_H

/* A lock that is held; nothing if path is NULL. */
typedef struct pack_lock {
    char *path;
    int fd;
} pack_lock;

/* Takes the lock for writing `path`. If another process has it, returns PACK_FAILED with a message
 * that names that process and its host. The kernel drops the lock when the process ends, however it
 * ends. On a file system without locks it warns, and goes on. */
int pack_lock_take(pack_lock *lock, const char *path);
void pack_lock_give(pack_lock *lock);

#endif
