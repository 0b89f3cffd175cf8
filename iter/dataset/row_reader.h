/*
 * row_reader.h - rows of one dataset for another one: what get() of a mix or of packed rows calls.
 *
 * A loader reads bytes ahead; a row reader reads them when they are asked for, by plain reads in
 * the calling thread. It keeps the dataset's files open (a bounded number of them), and decoders
 * and buffers for as many threads as ever asked at once.
 */
#ifndef ITER_DATASET_ROW_READER_H
#define ITER_DATASET_ROW_READER_H

#include <pthread.h>

#include "iter/dataset/dataset.h"

/* What one thread needs; lent for one call. */
typedef struct iter__row_bench iter__row_bench;

typedef struct iter__row_reader {
    iter_dataset *dataset; /* counted; NULL = not open */
    const iter_source_ops *source;
    void *source_state; /* NULL = the dataset reads no files */
    void *user_state;   /* of a dataset with start(): one for all threads */
    pthread_mutex_t lock;
    iter__row_bench *idle; /* guarded by lock */
} iter__row_reader;

/* Opens a reader. `reader` must be zero and stay where it is. After an error it is closed. Errors:
 * EUNSUPPORTED (a stream, images of any size), ENOMEM, those of the decoders. */
iter_status iter__row_reader_open(iter__row_reader *reader, iter_dataset *dataset, iter_error *err);
void iter__row_reader_close(iter__row_reader *reader);
/* In a child of fork(), before it reads: makes new locks. What threads of the parent had borrowed
 * is lost. */
void iter__row_reader_adopt(iter__row_reader *reader);

/* Writes samples indices[0..n) into rows [first, first + n) of `get`, which has all fields of the
 * dataset. Any number of threads; those of a dataset that lets in one at a time take turns. Errors:
 * as iter_dataset_ops.get; EIO and EFORMAT name the file. */
iter_status iter__row_reader_get(iter__row_reader *reader, uint32_t n, const uint64_t *indices,
                                 const iter__get_rows *get, uint32_t first, iter_rng *rng,
                                 iter_error *err);

/* Reads `size` bytes of a file of the dataset. Any number of threads. Errors: EIO, with the
 * file. */
iter_status iter__row_reader_bytes(iter__row_reader *reader, uint64_t object, uint64_t offset,
                                   void *out, size_t size, iter_error *err);

#endif
