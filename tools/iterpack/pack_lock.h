/* pack_lock.h - one process at a time for a file that is being written. */
#ifndef BENCH_PACK_LOCK_H
#define BENCH_PACK_LOCK_H

/* Held, or nothing: path NULL. */
typedef struct pack_lock {
    char *path;
    int fd;
} pack_lock;

/* Takes the lock for writing `path`. PACK_FAILED with a message that names the process which has it,
 * and its host. It ends with the process, however that ends. On a file system without locks it
 * warns, and goes on. */
int pack_lock_take(pack_lock *lock, const char *path);
void pack_lock_give(pack_lock *lock);

#endif
