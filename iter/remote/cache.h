/*
 * cache.h - blocks of objects elsewhere, kept in a folder of this machine.
 *
 * A block is ITER_CACHE_BLOCK bytes of an object, or what is left at its end, and has a file of its
 * own, named by a hash of the object's URL and ETag and by the block's number. Blocks are written
 * under another name and renamed, and their bytes have checksums. So a file that a crash, a full
 * disk or a failing disk left wrong costs a block, and is never delivered.
 *
 * Any number of processes and threads may use a folder. The bytes in it are counted in a file that
 * all of them map. The first process that opens the folder counts anew, and drops what others left
 * half written.
 *
 * A full cache drops blocks of objects that this process has not named by iter__cache_uses(), the
 * longest unused ones first. Blocks of its own set stay, and what does not fit is not kept: under a
 * shuffle a part of the set that stays is hit as often as it is large, while the least recently
 * used order drops most blocks shortly before they are wanted.
 */
#ifndef ITER_REMOTE_CACHE_H
#define ITER_REMOTE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

#define ITER_CACHE_BLOCK ((size_t)1 << 20)

typedef struct iter__cache iter__cache;

/* Makes the folder (mode 0700) if it is missing. `limit` bytes at most are kept in it, 0 = nine
 * tenths of what the file system has free. Errors: EINVAL (the limit is less than a block), EIO
 * (the folder), ENOMEM. */
iter_status iter__cache_open(const char *folder, uint64_t limit, iter__cache **out,
                             iter_error *err);
void iter__cache_close(iter__cache *cache); /* NULL is ignored */

/* In a child of fork(), before it uses the cache: makes locks anew that a thread of the parent
 * held. NULL is ignored. */
void iter__cache_adopt(iter__cache *cache);

/* A version of an object. */
typedef struct iter__cache_key {
    uint8_t hash[16]; /* of its URL and its ETag, SHA-256's first half */
} iter__cache_key;

iter__cache_key iter__cache_key_of(const char *url, const char *etag);

/* The blocks of this object are the last ones to be dropped by this process. */
void iter__cache_uses(iter__cache *cache, const iter__cache_key *key);

/* Whether a block is kept. */
bool iter__cache_has(iter__cache *cache, const iter__cache_key *key, uint64_t block);

typedef enum iter__cache_answer {
    ITER_CACHE_NONE, /* it is not kept, or was damaged (then it is dropped), or ends before */
    ITER_CACHE_READ,
    ITER_CACHE_COLD /* it is kept, and must be read from the disk */
} iter__cache_answer;

/* Reads n bytes of a block from byte `at` of it on. Never ITER_CACHE_COLD if it `may_wait`. */
iter__cache_answer iter__cache_read(iter__cache *cache, const iter__cache_key *key, uint64_t block,
                                    size_t at, void *out, size_t n, bool may_wait);

/* Whether a block that is fetched now would be kept. May drop others to make room. */
bool iter__cache_has_room(iter__cache *cache);

/* A block that this process fetches. Other processes see that it is being fetched; if this one
 * dies, they do not. */
typedef struct iter__cache_claim {
    int fd; /* -1 = none */
    char name[64];
} iter__cache_claim;

/* True = claimed, or claims are not possible (fd -1); the block is to be fetched. False = another
 * process or thread is fetching it. */
bool iter__cache_claim_block(iter__cache *cache, const iter__cache_key *key, uint64_t block,
                             iter__cache_claim *out);

/* Keeps the whole block, if there is room, and ends the claim. `bytes` NULL ends the claim alone.
 * What cannot be written is not kept; that is no error. */
void iter__cache_keep(iter__cache *cache, const iter__cache_key *key, uint64_t block,
                      iter__cache_claim *claim, const void *bytes, size_t n);

/* A file of another kind about an object, with any contents, is counted and dropped like a block.
 * Opens it for reading, and notes its use; -1 = there is none. `what` is less than 2^63. */
int iter__cache_other_open(iter__cache *cache, const iter__cache_key *key, uint64_t what,
                           uint64_t *out_bytes);

/* Begins one of about `bytes` bytes: `out->fd` is to be written to. False = there is no room, it
 * cannot be written, or another process or thread writes it. */
bool iter__cache_other_begin(iter__cache *cache, const iter__cache_key *key, uint64_t what,
                             uint64_t bytes, iter__cache_claim *out);

/* Ends it: it takes the place of one that was there, or it is dropped. */
void iter__cache_other_end(iter__cache *cache, iter__cache_claim *claim, bool is_complete);

#endif
