/*
 * shared.h - memory that the processes of one user share by what it holds: the first one fills it, the
 * others map it.
 *
 * It is a file in shared memory that is named after the user and the identity of its content. Every
 * process that uses it has a lock on it: exclusive while it fills the file, shared after that. So the
 * kernel says who lives. A file without a lock belongs to nobody: the last process removes it, and after
 * a kill the next process that shares uses or removes it.
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
    bool must_fill; /* this process fills it, then calls iter__shared_publish() */
    int fd;
    pid_t process; /* that opened it */
    uint8_t *map;
    char path[ITER_SHARED_PATH];
} iter__shared;

/*
 * Opens the memory of this identity, or makes it. Waits while another process fills it, as long as that
 * one makes progress: `patience_ms` without any ends the wait.
 *
 * Memory that is ready is private to the process where it writes to it, and common where it does not.
 *
 * Errors: EUNSUPPORTED with the reason, a lack of shared memory too; then nothing is open.
 */
iter_status iter__shared_open(iter__shared *out, const char *folder, const uint64_t identity[2],
                              size_t bytes, int patience_ms, iter_error *err);

/* Says that more was filled; any thread of the process that fills. */
void iter__shared_progress(const iter__shared *shared, uint64_t bytes);

/* The memory is whole: others may use it, and it is mapped anew. Errors: ENOMEM; then it is closed. */
iter_status iter__shared_publish(iter__shared *shared, iter_error *err);

/* The memory is whole, and nobody else may use it. */
void iter__shared_withdraw(iter__shared *shared);

/* Does nothing if it is not open. Memory that was not published is removed. */
void iter__shared_close(iter__shared *shared);

#endif
