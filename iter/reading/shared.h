/*
 * shared.h - memory that processes of one user share: the first one fills it, the others map it.
 *
 * It is a file in shared memory, named after the user and the identity of its content. Each process
 * that uses the file holds a lock on it: exclusive while it fills the file, shared after that. The
 * kernel drops a process's lock when the process ends, so a file without a lock has no user left.
 * The last process removes the file. If all are killed, the next process that shares uses or
 * removes it.
 */
#ifndef ITER_READING_SHARED_H
#define ITER_READING_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <iter/status.h>

#define ITER_SHARED_FOLDER "/dev/shm"
#define ITER_SHARED_PATH   256

typedef struct iter__shared {
    uint8_t *memory; /* [bytes] on a page of its own; NULL = not open */
    size_t bytes;
    bool must_fill; /* this process must fill it, then call iter__shared_publish() */
    int fd;
    pid_t process; /* the one that opened it */
    uint8_t *map;
    char path[ITER_SHARED_PATH];
} iter__shared;

/*
 * Opens the memory of this identity, or creates it. While another process fills it, this one waits;
 * it gives up if that process makes no progress for `patience_ms`.
 *
 * Once the memory is ready, a write to it stays in the process that writes (copy on write).
 *
 * Errors: EUNSUPPORTED with the reason, also if shared memory is full; then nothing is open.
 */
iter_status iter__shared_open(iter__shared *out, const char *folder, const uint64_t identity[2],
                              size_t bytes, int patience_ms, iter_error *err);

/* Adds `bytes` to the progress that other processes see. Any thread of the process that fills. */
void iter__shared_progress(const iter__shared *shared, uint64_t bytes);

/* Lets other processes use the memory, which must be complete, and maps it again. Errors: ENOMEM;
 * then it is closed. */
iter_status iter__shared_publish(iter__shared *shared, iter_error *err);

/* Keeps the memory, which must be complete, for this process alone. */
void iter__shared_withdraw(iter__shared *shared);

/* Does nothing if it is not open. Removes memory that was not published. */
void iter__shared_close(iter__shared *shared);

#endif
