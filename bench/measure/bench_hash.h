/* bench_hash.h - the hash of everything that a run delivers. Equal rows give an equal sum, in any
 * order and any batches. */
#ifndef BENCH_HASH_H
#define BENCH_HASH_H

#include <iter/loader.h>

typedef struct bench_hash {
    uint64_t sum;  /* modulo 2^64 */
    uint64_t rows; /* rows of fields added so far */
    uint8_t *scratch;
    size_t scratch_bytes;
} bench_hash;

/**
 * Adds rows [0, n_rows) of every field of `batch`. docs/json.md defines what is hashed.
 *
 * Errors  ENOMEM.
 */
iter_status bench_hash_batch(bench_hash *hash, const iter_batch *batch, int32_t n_fields,
                             uint32_t n_rows, iter_error *err);
/** The same for tensors that the host can read, if the batch's own are not on the host:
 * tensors[n_fields]. */
iter_status bench_hash_tensors(bench_hash *hash, const iter_batch *batch,
                               const iter_tensor *tensors, int32_t n_fields, uint32_t n_rows,
                               iter_error *err);

/** Frees its scratch. */
void bench_hash_free(bench_hash *hash);

#endif
