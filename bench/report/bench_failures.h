/* bench_failures.h - failed samples: counts by reason, and a list in a file. */
#ifndef BENCH_FAILURES_H
#define BENCH_FAILURES_H

#include <stdbool.h>
#include <stddef.h>

#include <iter/loader.h>

#define BENCH_REASONS_MAX 16
#define BENCH_REASON_MAX  160

/** Why samples failed: stage and reason, with '#' in place of a sample's own numbers. */
typedef struct bench_reason {
    char text[BENCH_REASON_MAX];
    size_t count;
} bench_reason;

/** Counts list[0..n) by reason, the most frequent first. If there are too many, the last one is
 * "other". Returns the number of reasons. */
size_t bench_failure_reasons(const iter_failure *list, size_t n,
                             bench_reason out[BENCH_REASONS_MAX]);

/** Keeps each sample's first failure of list[0..n), in order. Returns how many remain. */
size_t bench_failures_once(iter_failure *list, size_t n);

/**
 * Writes a line per sample, in the order of first failures: epoch, position, sample, status,
 * message, separated by tabs, below a line with these names.
 *
 * Errors  EIO, ENOMEM.
 */
iter_status bench_failures_write(const char *path, const iter_failure *list, size_t n,
                                 iter_error *err);

#endif
