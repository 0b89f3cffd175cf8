/*
 * alloc.h - every allocation of the library goes through here, so that tests can make each one fail
 * and count live blocks.
 */
#ifndef ITER_CORE_ALLOC_H
#define ITER_CORE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed, aligned to 64 bytes; NULL if there is no memory. n * size is checked for overflow. */
void *iter__alloc(size_t n, size_t size);
/* Grows or shrinks; the new part is not zeroed; NULL leaves `block` as it is. */
void *iter__realloc(void *block, size_t bytes);
void iter__free(void *block);
char *iter__strdup(const char *text);
/* printf into a new string; NULL if there is no memory. */
char *iter__strf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Anonymous mapping for slots, arenas and resident sets: page-aligned, zero, in huge pages if the
 * kernel gives them. */
void *iter__map(size_t bytes);
void iter__unmap(void *block, size_t bytes);

/* Memory whose size changes from sample to sample. A large block is a mapping of its own, so it
 * goes back to the system when it is freed; the C library would keep it. Not zeroed; aligned to 64
 * bytes. `bytes` must be the size that was asked for. */
void *iter__alloc_large(size_t bytes);
void iter__free_large(void *block, size_t bytes);

/* How many allocations of this thread have failed so far. It tells a lack of memory from a limit of
 * our own: both are ITER_ENOMEM. */
unsigned iter__alloc_refused(void);

/* Bytes held now and at most so far, for each kind of memory: blocks as asked for, mappings in
 * whole pages. Memory from this file is HOST. Code that allocates other memory (page-locked, on a
 * device) must book it, and book a negative number when it frees it. */
typedef enum iter__alloc_kind {
    ITER_ALLOC_HOST,
    ITER_ALLOC_PINNED,
    ITER_ALLOC_DEVICE,
    ITER_ALLOC_KINDS
} iter__alloc_kind;

typedef struct iter__alloc_bytes {
    long long now, peak;
} iter__alloc_bytes;

void iter__alloc_book(iter__alloc_kind kind, long long bytes);
iter__alloc_bytes iter__alloc_held(iter__alloc_kind kind);

/*
 * Bytes that one thread has allocated here since the account was opened and not freed, with a
 * limit: an allocation that would exceed it fails. Blocks count with their header and the heap's
 * own bytes. Accounts nest: the outer one counts what the inner one counts. Other threads do not
 * count, nor does memory from malloc().
 */
typedef struct iter__account iter__account;
struct iter__account {
    uint64_t limit; /* of `held`; 0 = find_limit() returns it when it is first needed */
    /* Called once, when more than ITER_ACCOUNT_FREE bytes are held; NULL = no limit. */
    uint64_t (*find_limit)(void);
    uint64_t held;
    /* what `held` would be if the last refused allocation had succeeded; 0 = none was refused */
    uint64_t wanted;
    iter__account *outer;
};

#define ITER_ACCOUNT_FREE ((uint64_t)64 << 20)

/* Opens an account in the calling thread; `account` must hold its limit and zeros. It must be
 * closed in that thread, the last one first. */
void iter__account_open(iter__account *account);
void iter__account_close(iter__account *account);

/* For tests. fail_after = n: the n-th allocation from now (0 = the next) fails; -1 = none. All
 * counters are atomic. */
extern long iter__alloc_fail_after;
long iter__alloc_live(void);  /* blocks and mappings that are not freed */
long iter__alloc_count(void); /* allocations so far */

#endif
