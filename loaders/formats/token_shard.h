/*
 * token_shard.h - one file of tokens: what it is, and where its tokens begin.
 *
 * Known by their first bytes: llm.c's files, a head of 256 i32 (magic, version, number of tokens)
 * and then u16 (magic 20240520, version 1) or u32 (20240801, version 1 or 7); .npy files of one
 * dimension; Megatron's .idx, whose .bin has the same name. A .bin beside such an .idx is the
 * same set. Everything else is tokens from the first byte to the last, as nanoGPT writes them.
 *
 * Source: llm.c, dev/data/data_common.py and llmc/dataloader.h; modded-nanogpt and nanoGPT,
 * data/.../prepare.py.
 */
#ifndef ITER_LOADERS_FORMATS_TOKEN_SHARD_H
#define ITER_LOADERS_FORMATS_TOKEN_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include <iter/tensor.h>

typedef struct iter__token_shard {
    char *path; /* of the tokens; owned: iter__free() */
    char *idx;  /* Megatron's index, or NULL; owned, too */
    uint64_t file_bytes;
    uint64_t offset, n_tokens; /* not known, if there is an index */
    iter_dtype dtype;
    bool swapped; /* tokens have the other byte order */
} iter__token_shard;

/* Looks at the file `path`. Without a head that says what tokens are, they are of type `dtype`;
 * ITER_DTYPE_NONE = u16. If `raw`, no file has a head or an index. Errors: EIO, EINVAL (`dtype` is
 * not that of the head), EFORMAT, EUNSUPPORTED, ENOMEM; messages begin with a path. There is
 * nothing to free after an error. */
iter_status iter__token_shard_open(const char *path, iter_dtype dtype, bool raw,
                                   iter__token_shard *out, iter_error *err);

/* Fails unless `dtype` is ITER_DTYPE_NONE or the shard's. */
iter_status iter__token_shard_expect(const iter__token_shard *shard, iter_dtype dtype,
                                     iter_error *err);

void iter__token_shard_free(iter__token_shard *shard);

#endif
