/*
 * cold_reads.h - threads that read kept blocks of a cache from the disk, so that a disk has many
 * requests at once.
 *
 * A read whose blocks are in the page cache is served at once, by the thread that submits it. One
 * whose blocks are not is put here. The threads are started by the first such read.
 */
#ifndef ITER_REMOTE_COLD_READS_H
#define ITER_REMOTE_COLD_READS_H

#include <stdbool.h>

#include <iter/ops.h>

typedef struct iter__cold_reads iter__cold_reads;

typedef struct iter__cold_calls {
    void *user;
    /* Reads what it can of the read's bytes; may block. In a thread of this pool. */
    void (*serve)(void *user, iter_read *read);
    /* There is a read to take. In a thread of this pool. */
    void (*wake)(void *user);
} iter__cold_calls;

/* `calls` is copied; link: the member of iter_read.reserved that this may use. NULL = no memory. */
iter__cold_reads *iter__cold_reads_create(const iter__cold_calls *calls, int link);
/* Serves what was put, and ends the threads. NULL is ignored. */
void iter__cold_reads_destroy(iter__cold_reads *cold);

/* Queues a read; serves it in the calling thread if no other can be started. One caller at a time
 * calls put() and take(). */
void iter__cold_reads_put(iter__cold_reads *cold, iter_read *read);
/* A read that was served; NULL = there is none. */
iter_read *iter__cold_reads_take(iter__cold_reads *cold);
/* Whether take() has one. Any thread. */
bool iter__cold_reads_has(const iter__cold_reads *cold);

#endif
