/*
 * megatron_index.h - the .idx file of Megatron's indexed datasets: documents in a .bin of tokens.
 *
 * Layout, little-endian and packed: 9 bytes "MMIDIDX\0\0"; u64 version, 1; u8 type; u64 sequences;
 * u64 n, documents and one more; i32 tokens[sequences]; i64 bytes from the .bin's start to each
 * sequence [sequences]; i64 first sequence of each document, and the end [n]; in sets of several
 * kinds of data also i8 kinds[sequences]. A document is one sequence or more. The sequences lie in
 * the .bin one after the other and fill it.
 *
 * Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py (0.16).
 */
#ifndef ITER_LOADERS_FORMATS_MEGATRON_INDEX_H
#define ITER_LOADERS_FORMATS_MEGATRON_INDEX_H

#include <iter/tensor.h>

#include "loaders/formats/token_rows.h"

#define ITER_MEGATRON_MAGIC       "MMIDIDX\0"
#define ITER_MEGATRON_MAGIC_BYTES 9u

typedef struct iter__megatron_index {
    iter_dtype dtype;
    uint64_t n_tokens, n_sequences, n_documents;
} iter__megatron_index;

/* Reads the index of a .bin of bin_bytes bytes from end to end and checks it. If rows->by_document,
 * its documents are added to `rows`. Errors: EIO; EFORMAT (file, offset, reason; also if the .bin
 * has another size than the index says); EUNSUPPORTED (version, type, a document of 2^32 tokens);
 * ENOMEM. */
iter_status iter__megatron_index_read(const char *path, const char *bin, uint64_t bin_bytes,
                                      iter__token_rows *rows, iter__megatron_index *out,
                                      iter_error *err);

#endif
