/*
 * token_windows.h - windows of token ids through a loader, against straight loops over the same
 * rows.
 */
#ifndef BENCH_TOKEN_WINDOWS_H
#define BENCH_TOKEN_WINDOWS_H

#include <stdint.h>

/**
 * Warm, in random order, without a worker: u16 to i32, batches of `batch` rows of `length` inputs
 * and their targets. A loop over a mapping and one of pread take the loader's rows in its order,
 * with the same conversion, into as many batches as it has. They alternate with loaders that have
 * the file in memory, read it by the ring, and by pread. Both by time and by time of the processor,
 * which others on the machine disturb less. Then the same with one field of length + 1.
 *
 * Returns 0, or 1 with a line on stderr.
 */
int tokens_warm(const char *path, uint32_t length, uint32_t batch, uint32_t rounds);

#endif
