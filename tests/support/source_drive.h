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

/* The built-in table of this name, or NULL if the build has none. */
const iter_source_ops *source_named(const char *name);

/* Returns the status of ops->open(). On an error nothing stays allocated. */
iter_status source_drive_open(source_drive *d, const iter_source_ops *ops,
                              const iter_source_config *config);
void source_drive_close(source_drive *d);

/* Runs all reads to completion, asynchronously if the source can, otherwise by read(). Reads that
 * the source gives up come back as canceled. Returns the largest number in flight, 1 without an
 * asynchronous side. */
uint32_t source_drive_run(source_drive *d, iter_read *reads, size_t n);

/* Writes the file to its disk, and drops it from the page cache as far as the system does that. */
void source_make_durable(const char *path);
void source_make_cold(const char *path);
/* Returns 1 if the block at `offset` is in the page cache, 0 if it is not, -1 if the file system
 * does not tell. A miss may start reading it. */
int source_is_hot(const char *path, uint64_t offset);

#endif
