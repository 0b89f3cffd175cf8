/*
 * alloc.c - aligned, zeroed memory, counted, and failing on demand.
 *
 * A block is preceded by one 64-byte header with its size, so that iter__realloc can copy and so
 * that AddressSanitizer still guards the bytes after the block. Mappings of 2 MiB and more begin at
 * a multiple of 2 MiB, because the kernel backs only such stretches with huge pages. The address
 * space before and after them is unmapped again.
 *
 * The counters are relaxed atomics: they order nothing, and tests read them after all threads are
 * joined.
 *
 * An account belongs to the thread that opened it, so it needs neither locks nor atomics, and
 * threads without one only test a pointer. If a block is freed by another thread, or was allocated
 * before the account was opened, the account counts it wrongly; opening a dataset does neither.
 */
#include "iter/core/alloc.h"
#include "iter/core/arith.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT      64
#define HUGE_PAGE      ((size_t)2 << 20)
#define HUGE_FROM      HUGE_PAGE
#define LARGE          ((size_t)256 << 10) /* a mapping costs what filling a few pages does */
#define BLOCK_IS_ALIVE 0x69746572u

typedef struct header {
    size_t bytes; /* that the caller asked for */
    uint32_t alive;
    char rest[ALIGNMENT - sizeof(size_t) - sizeof(uint32_t)];
} header;

_Static_assert(sizeof(header) == ALIGNMENT, "the block behind the header is aligned as the header");

long iter__alloc_fail_after = -1;
static _Thread_local unsigned n_refused;
static long n_live;
static long n_allocations;
static iter__alloc_bytes held[ITER_ALLOC_KINDS];
static _Thread_local iter__account *account; /* the innermost one of this thread */

/* Counts one allocation; false = this one must fail. */
static bool may_allocate(void) {
    __atomic_add_fetch(&n_allocations, 1, __ATOMIC_RELAXED);
    long left = __atomic_load_n(&iter__alloc_fail_after, __ATOMIC_RELAXED);
    while (left >= 0) {
        if (__atomic_compare_exchange_n(&iter__alloc_fail_after, &left, left - 1, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return left > 0;
    }
    return true;
}

static void count_live(long change) {
    __atomic_add_fetch(&n_live, change, __ATOMIC_RELAXED);
}

void iter__alloc_book(iter__alloc_kind kind, long long bytes) {
    const long long now = __atomic_add_fetch(&held[kind].now, bytes, __ATOMIC_RELAXED);
    long long peak = __atomic_load_n(&held[kind].peak, __ATOMIC_RELAXED);
    while (now > peak && !__atomic_compare_exchange_n(&held[kind].peak, &peak, now, true,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

iter__alloc_bytes iter__alloc_held(iter__alloc_kind kind) {
    return (iter__alloc_bytes){__atomic_load_n(&held[kind].now, __ATOMIC_RELAXED),
                               __atomic_load_n(&held[kind].peak, __ATOMIC_RELAXED)};
}

/* ---- Accounts -------------------------------------------------------------------------------- */

/* Bytes of the heap that a block takes: itself, its header, the C library's own word, alignment. */
static uint64_t block_cost(size_t bytes) {
    return iter__align_up_u64((uint64_t)bytes + sizeof(header) + sizeof(size_t), ALIGNMENT);
}

/* Charges every account of this thread, or none: false = one of them has no room. */
static bool charge(uint64_t bytes) {
    for (iter__account *a = account; a; a = a->outer) {
        if (!a->limit && a->find_limit && a->held + bytes > ITER_ACCOUNT_FREE) {
            a->limit = a->find_limit();
            a->find_limit = NULL;
        }
        if (!a->limit || (bytes <= a->limit && a->held <= a->limit - bytes)) continue;
        a->wanted = a->held + bytes;
        return false;
    }
    for (iter__account *a = account; a; a = a->outer)
        a->held += bytes;
    return true;
}

static void discharge(uint64_t bytes) {
    for (iter__account *a = account; a; a = a->outer)
        a->held -= bytes < a->held ? bytes : a->held;
}

void iter__account_open(iter__account *opened) {
    opened->outer = account;
    account = opened;
}

void iter__account_close(iter__account *closed) {
    assert(account == closed);
    account = closed->outer;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static header *header_of(const void *block) {
    header *h = (header *)((uintptr_t)block - sizeof(header));
    assert(h->alive == BLOCK_IS_ALIVE);
    return h;
}

unsigned iter__alloc_refused(void) {
    return n_refused;
}

static void *refuse(void) {
    n_refused++;
    return NULL;
}

/* A block that is not zeroed. */
static void *allocate(size_t bytes) {
    if (!may_allocate() || bytes > PTRDIFF_MAX - sizeof(header)) return refuse();
    void *memory;
    if (!charge(block_cost(bytes))) return refuse();
    if (posix_memalign(&memory, ALIGNMENT, sizeof(header) + bytes) != 0) {
        discharge(block_cost(bytes));
        return refuse();
    }
    header *h = memory;
    h->bytes = bytes;
    h->alive = BLOCK_IS_ALIVE;
    count_live(1);
    iter__alloc_book(ITER_ALLOC_HOST, (long long)bytes);
    return h + 1;
}

void *iter__alloc(size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        may_allocate();
        return refuse();
    }
    void *block = allocate(bytes);
    if (block) memset(block, 0, bytes);
    return block;
}

void *iter__realloc(void *block, size_t bytes) {
    void *grown = allocate(bytes);
    if (!grown || !block) return grown;
    const size_t old_bytes = header_of(block)->bytes;
    memcpy(grown, block, old_bytes < bytes ? old_bytes : bytes);
    iter__free(block);
    return grown;
}

void iter__free(void *block) {
    if (!block) return;
    header *h = header_of(block);
    h->alive = 0;
    discharge(block_cost(h->bytes));
    count_live(-1);
    iter__alloc_book(ITER_ALLOC_HOST, -(long long)h->bytes);
    free(h);
}

char *iter__strdup(const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *copy = allocate(bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

char *iter__strf(const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) return NULL;
    char *text = allocate((size_t)length + 1);
    if (!text) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

/* ---- Mappings -------------------------------------------------------------------------------- */

/* Bytes of whole pages; 0 = too many. */
static size_t whole_pages(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > PTRDIFF_MAX - HUGE_PAGE - page) return 0;
    return bytes ? (bytes + page - 1) / page * page : page;
}

void *iter__map(size_t bytes) {
    const size_t wanted = whole_pages(bytes);
    if (!may_allocate() || wanted == 0 || !charge(wanted)) return refuse();
    const bool huge = wanted >= HUGE_FROM;
    const size_t mapped = huge ? wanted + HUGE_PAGE : wanted;
    char *at = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        discharge(wanted);
        return refuse();
    }
    if (huge) {
        const size_t before = (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
        if (before > 0) munmap(at, before);
        if (HUGE_PAGE - before > 0) munmap(at + before + wanted, HUGE_PAGE - before);
        at += before;
        madvise(at, wanted, MADV_HUGEPAGE); /* a hint: if ignored, the pages are small */
    }
    count_live(1);
    iter__alloc_book(ITER_ALLOC_HOST, (long long)wanted);
    return at;
}

void iter__unmap(void *block, size_t bytes) {
    if (!block) return;
    const int failed = munmap(block, whole_pages(bytes));
    assert(failed == 0);
    (void)failed;
    discharge(whole_pages(bytes));
    count_live(-1);
    iter__alloc_book(ITER_ALLOC_HOST, -(long long)whole_pages(bytes));
}

void *iter__alloc_large(size_t bytes) {
    return bytes < LARGE ? allocate(bytes) : iter__map(bytes);
}

void iter__free_large(void *block, size_t bytes) {
    if (bytes < LARGE)
        iter__free(block);
    else
        iter__unmap(block, bytes);
}

/* ---- Counters -------------------------------------------------------------------------------- */

long iter__alloc_live(void) {
    return __atomic_load_n(&n_live, __ATOMIC_RELAXED);
}
long iter__alloc_count(void) {
    return __atomic_load_n(&n_allocations, __ATOMIC_RELAXED);
}
