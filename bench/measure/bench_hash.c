/*
 * bench_hash.c - the hash of everything that a run delivers.
 *
 * FNV-1a-64 (Fowler, Noll, Vo) of each row of each field, after a head that tells where the row
 * belongs. The hashes are summed modulo 2^64, so parts of a run, ranks and batches of any size add
 * up to the same number. FNV-1a multiplies once for each byte: about 1.6 ns a byte. Hashing eight
 * rows at once hides most of that latency; still, a run with --hash measures the hash.
 */
#include "bench/measure/bench_hash.h"

#include <stdlib.h>

#include "bench/common/bench_row.h"
#include "bench/common/bench_util.h"

#define FNV_BASIS 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u
#define LANES     8

static uint64_t hash_bytes(uint64_t hash, const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * FNV_PRIME;
    return hash;
}

/* Little-endian on every machine. */
static uint64_t hash_number(uint64_t hash, uint64_t number, int size) {
    for (int i = 0; i < size; i++)
        hash = (hash ^ (number >> 8 * i & 0xff)) * FNV_PRIME;
    return hash;
}

static void hash_lanes(uint64_t hash[LANES], const uint8_t *const bytes[LANES], size_t size) {
    uint64_t h[LANES];
    for (int k = 0; k < LANES; k++)
        h[k] = hash[k];
    for (size_t i = 0; i < size; i++)
        for (int k = 0; k < LANES; k++)
            h[k] = (h[k] ^ bytes[k][i]) * FNV_PRIME;
    for (int k = 0; k < LANES; k++)
        hash[k] = h[k];
}

static uint64_t hash_head(const bench_row *row, uint64_t epoch, uint64_t position, int32_t field) {
    uint64_t h = hash_number(FNV_BASIS, epoch, 8);
    h = hash_number(h, position, 8);
    h = hash_number(h, (uint64_t)field, 4);
    h = hash_number(h, (uint64_t)row->dtype, 4);
    h = hash_number(h, (uint64_t)row->n_dims, 4);
    for (int32_t i = 0; i < row->n_dims; i++)
        h = hash_number(h, (uint64_t)row->dims[i], 8);
    return h;
}

static iter_status hash_one(bench_hash *hash, const bench_row *row, uint64_t head,
                            iter_error *err) {
    size_t bytes = bench_row_bytes(row);
    const uint8_t *data = row->data;
    if (!bench_row_dense(row)) {
        if (bytes > hash->scratch_bytes) {
            free(hash->scratch);
            hash->scratch = malloc(bytes);
            hash->scratch_bytes = hash->scratch != NULL ? bytes : 0;
            if (hash->scratch == NULL)
                return bench_fail(err, ITER_ENOMEM, "no memory for a row of %zu bytes", bytes);
        }
        bench_row_copy(row, hash->scratch);
        data = hash->scratch;
    }
    hash->sum += hash_bytes(head, data, bytes);
    return ITER_OK;
}

static iter_status hash_field(bench_hash *hash, const iter_batch *batch, const iter_tensor *tensor,
                              int32_t field, uint32_t n_rows, iter_error *err) {
    const int32_t *lengths = iter_batch_lengths(batch, field);
    const uint64_t *position = iter_batch_position(batch);
    const uint32_t *epoch = iter_batch_row_epoch(batch);
    uint32_t i = 0;
    bench_row first = bench_row_at(tensor, 0, NULL);
    if (lengths == NULL && bench_row_dense(&first))
        for (; i + LANES <= n_rows; i += LANES) {
            uint64_t lanes[LANES];
            const uint8_t *bytes[LANES];
            for (uint32_t k = 0; k < LANES; k++) {
                bench_row row = bench_row_at(tensor, i + k, NULL);
                lanes[k] = hash_head(&row, epoch[i + k], position[i + k], field);
                bytes[k] = row.data;
            }
            hash_lanes(lanes, bytes, bench_row_bytes(&first));
            for (int k = 0; k < LANES; k++)
                hash->sum += lanes[k];
        }
    for (; i < n_rows; i++) {
        bench_row row = bench_row_at(tensor, i, lengths);
        iter_status s = hash_one(hash, &row, hash_head(&row, epoch[i], position[i], field), err);
        if (s < 0) return s;
    }
    hash->rows += n_rows;
    return ITER_OK;
}

iter_status bench_hash_batch(bench_hash *hash, const iter_batch *batch, int32_t n_fields,
                             uint32_t n_rows, iter_error *err) {
    if (n_rows == 0) return ITER_OK;
    for (int32_t field = 0; field < n_fields; field++) {
        iter_status s =
            hash_field(hash, batch, iter_batch_tensor(batch, field), field, n_rows, err);
        if (s < 0) return s;
    }
    return ITER_OK;
}

iter_status bench_hash_tensors(bench_hash *hash, const iter_batch *batch,
                               const iter_tensor *tensors, int32_t n_fields, uint32_t n_rows,
                               iter_error *err) {
    iter_status s = ITER_OK;
    for (int32_t field = 0; s == ITER_OK && n_rows > 0 && field < n_fields; field++)
        s = hash_field(hash, batch, &tensors[field], field, n_rows, err);
    return s;
}

void bench_hash_free(bench_hash *hash) {
    free(hash->scratch);
    *hash = (bench_hash){0};
}
