/*
 * records.h - RecordIO files and many small files, against straight reading loops; the rows of
 * `numbers` that begin with records or cold.
 */
#ifndef BENCH_RECORDS_H
#define BENCH_RECORDS_H

#include <stdint.h>

/**
 * Writes a .rec with `n` raw rows of `row_bytes` bytes and the .idx beside it. 0, or 1 with a line
 * on stderr.
 */
int records_make(const char *path, uint64_t row_bytes, uint64_t n);

/**
 * Warm, in order: a loader over `spec` ("recordio:x.rec?raw=...") with batches of `batch` rows beside
 * two loops of pread that read as many records at once as make `block_bytes` and look at each head:
 * into one buffer, block by block; and batch by batch into as many slots as the loader has. All of
 * them as they are, and touching each line, block by block or batch by batch.
 */
int records_warm(const char *spec, int workers, uint64_t block_bytes, uint32_t batch,
                 uint32_t pairs);

#endif
