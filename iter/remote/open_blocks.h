/*
 * open_blocks.h - blocks of a cache: their files' format, and those that are open.
 *
 * A block that was read stays open for the reads that follow, with its head and with which of its
 * pieces had the right checksum. A piece is summed when it is first read, and again if the file was
 * written to since, which is looked for once a second. What was unlinked is closed then.
 */
#ifndef ITER_REMOTE_OPEN_BLOCKS_H
#define ITER_REMOTE_OPEN_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "iter/remote/cache.h"

#define ITER_BLOCK_PIECE  ((size_t)16 << 10) /* bytes that have one checksum */
#define ITER_BLOCK_PIECES (ITER_CACHE_BLOCK / ITER_BLOCK_PIECE)

_Static_assert(ITER_BLOCK_PIECES == 64, "a bit of a uint64_t for each piece");

/* A block's file begins with this; its bytes follow. */
typedef struct iter__block_head {
    char magic[8];
    uint32_t sum, n_pieces; /* `sum`: of all that follows it */
    uint8_t key[16];
    uint64_t block, bytes;
    uint32_t sums[ITER_BLOCK_PIECES];
} iter__block_head;

iter__block_head iter__block_head_of(const iter__cache_key *key, uint64_t block,
                                     const uint8_t *bytes, size_t n);

typedef struct iter__open_block {
    int fd;
    _Atomic uint64_t checked;  /* bits of the pieces whose sums were right */
    _Atomic int64_t looked_ms; /* at the file, on a coarse clock */
    _Atomic int64_t changed_ns, used_s;
    atomic_bool is_ahead; /* the kernel was asked to read all of it */
    iter__block_head head;

    /* Guarded by the table. */
    uint32_t n_users;
    int32_t next; /* of the same bucket, or -1 */
    bool is_gone; /* not to be found any more */
} iter__open_block;

/* Opens the block's file, `dir`/`name`. ITER_CACHE_NONE = there is none (*out_bytes = -1), or it is
 * not right (*out_bytes = the file's); ITER_CACHE_COLD = its head is not in memory, and it
 * `may_wait` not. */
iter__cache_answer iter__block_open(int dir, const char *name, const iter__cache_key *key,
                                    uint64_t block, bool may_wait, iter__open_block *out,
                                    int64_t *out_bytes);

/* Reads bytes that the block has. ITER_CACHE_NONE = they are not right; ITER_CACHE_COLD = not all
 * of them are in memory, and it `may_wait` not. */
iter__cache_answer iter__block_read(iter__open_block *b, size_t at, uint8_t *out, size_t n,
                                    bool may_wait);

/* Asks the kernel to read all of the block, once. */
void iter__block_read_ahead(iter__open_block *b);

/* At most a number of open blocks. Any thread. */
typedef struct iter__open_blocks iter__open_blocks;

/* As many as the process may have handles for, but at most `most`. NULL = no memory. */
iter__open_blocks *iter__open_blocks_create(uint64_t most);
void iter__open_blocks_destroy(iter__open_blocks *blocks); /* NULL is ignored; closes them */

/* In a child of fork(), before it uses the table: makes locks anew that a thread of the parent
 * held, and takes back what such threads had found. */
void iter__open_blocks_adopt(iter__open_blocks *blocks);

/* The open block, to be given back; NULL = it is not open. */
iter__open_block *iter__open_blocks_find(iter__open_blocks *blocks, const iter__cache_key *key,
                                         uint64_t block);

/* Gives it back; `is_gone` = it is closed when its last user gives it back. */
void iter__open_blocks_back(iter__open_blocks *blocks, iter__open_block *b, bool is_gone);

/* Takes over an open block, or closes it if all others are in use. */
void iter__open_blocks_add(iter__open_blocks *blocks, const iter__open_block *b);

#endif
