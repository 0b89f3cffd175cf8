/*
 * source_drive.h - opens a source and drives it as a loader would, in one thread.
 */
#ifndef TESTS_SUPPORT_SOURCE_DRIVE_H
#define TESTS_SUPPORT_SOURCE_DRIVE_H

#include <stdbool.h>

#include <iter/ops.h>

typedef struct source_drive {
    const iter_source_ops *ops;
    void *state;
    uint32_t depth;
    char fallback[512];
    iter_error err;
} source_drive;

/* The built-in table of this name, or NULL where the build has none. */
const iter_source_ops *source_named(const char *name);

/* The status of ops->open(). Nothing is left behind on an error. */
iter_status source_drive_open(source_drive *d, const iter_source_ops *ops,
                              const iter_source_config *config);
void source_drive_close(source_drive *d);

/* Runs all the reads to completion, asynchronously where the source can, else by read(). Reads that the source gives up as canceled
 * come back so. Returns how many were in flight at most, 1 without an asynchronous side. */
uint32_t source_drive_run(source_drive *d, iter_read *reads, size_t n);

/* Writes the file to its disk, once; and drops it from the page cache, as far as the system does and what was written is there. */
void source_make_durable(const char *path);
void source_make_cold(const char *path);
/* 1 = the block at `offset` is in the page cache, 0 = it is not, -1 = the file system does not tell. A miss may start reading it. */
int source_is_hot(const char *path, uint64_t offset);

#endif
