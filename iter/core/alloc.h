/*
 * alloc.h - every allocation of the library goes through here, so that tests can fail each one and
 * count what is live.
 */
#ifndef ITER_CORE_ALLOC_H
#define ITER_CORE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed, aligned to 64 bytes; NULL when there is no memory. n * size is checked for overflow. */
void *iter__alloc(size_t n, size_t size);
/* Grows or shrinks; the new part is not zeroed; NULL leaves `block` as it is. */
void *iter__realloc(void *block, size_t bytes);
void iter__free(void *block);
char *iter__strdup(const char *text);
/* printf into a new string; NULL when there is no memory. */
char *iter__strf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Anonymous mapping for slots, arenas and resident sets: page-aligned, zero, in huge pages where
 * the kernel gives them. */
void *iter__map(size_t bytes);
void iter__unmap(void *block, size_t bytes);

/* Memory whose size changes from sample to sample. What is large is a mapping of its own, which goes
 * back to the system at once when it is freed: the C library would keep it, beside what comes next.
 * Not zeroed; aligned to 64 bytes. `bytes` is what was asked for. */
void *iter__alloc_large(size_t bytes);
void iter__free_large(void *block, size_t bytes);

/* How often this thread was refused memory so far. It tells a lack of memory from a limit that code of
 * ours keeps to: both are ITER_ENOMEM. */
unsigned iter__alloc_refused(void);

/* Bytes held now and at most so far, by where they lie: blocks as asked for, mappings in whole
 * pages. All from here are HOST; what comes from elsewhere (page-locked, on a device) is booked by
 * whoever takes it, and taken off with a negative number. */
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
 * What one thread holds of all that it allocated here since the account was opened, and a limit for
 * it: an allocation that would pass the limit fails. Blocks count with their header and the heap's
 * own bytes. Accounts nest: the outer one counts what the inner one counts. Other threads do not
 * count, nor does memory from malloc().
 */
typedef struct iter__account iter__account;
struct iter__account {
    uint64_t limit; /* bytes held at a time; 0 = find_limit says it when it is first needed */
    /* Called once, when more than ITER_ACCOUNT_FREE bytes are held; NULL = there is no limit. */
    uint64_t (*find_limit)(void);
    uint64_t held;
    uint64_t wanted; /* bytes held if the last refused allocation had not been; 0 = none was */
    iter__account *outer;
};

#define ITER_ACCOUNT_FREE ((uint64_t)64 << 20)

/* Opens in the calling thread; `account` has its limit and zeros. Must be closed there, the last one
 * first. */
void iter__account_open(iter__account *account);
void iter__account_close(iter__account *account);

/* For tests. fail_after = n: the n-th allocation from now (0 = the next) fails; -1 = none. All
 * counters are atomic. */
extern long iter__alloc_fail_after;
long iter__alloc_live(void);  /* blocks and mappings that are not freed */
long iter__alloc_count(void); /* allocations so far */

#endif
