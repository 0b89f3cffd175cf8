/*
 * records.h - RecordIO files and many small files, against straight reading loops: the rows of
 * `numbers` that begin with records or cold.
 */
#ifndef BENCH_RECORDS_H
#define BENCH_RECORDS_H

#include <stdint.h>

/**
 * Writes a .rec with `n` raw rows of `row_bytes` bytes and the .idx beside it.
 *
 * Returns 0, or 1 with a line on stderr.
 */
int records_make(const char *path, uint64_t row_bytes, uint64_t n);

/**
 * Warm, in order: a loader over `spec` ("recordio:x.rec?raw=...") with batches of `batch` rows
 * beside two loops of pread. These read as many records at once as fit into `block_bytes`, and
 * check each head. One reads block by block into one buffer, the other batch by batch into as many
 * slots as the loader has. Each is measured as it is, and touching each line.
 */
int records_warm(const char *spec, int workers, uint64_t block_bytes, uint32_t batch,
                 uint32_t pairs);

#endif
