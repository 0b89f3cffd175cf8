/*
 * engine_memory.c - zeroed memory; counts allocations, and can make one fail on demand.
 *
 * Each block is preceded by its header, which takes one cache line before a small block and one
 * page before a mapping, so both keep their alignment. Mappings begin at a multiple of 2 MiB,
 * because the kernel backs only such ranges with huge pages. They are written once, page by page,
 * so that the first step does not fault.
 *
 * The counters are relaxed atomics: they order nothing, and tests read them between calls.
 */
#include "engine/engine_memory.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT      64
#define PAGE           4096
#define HUGE_PAGE      ((size_t)2 << 20)
#define HUGE_FROM      ((size_t)4 << 20)
#define BLOCK_IS_ALIVE 0x656e6769u

typedef struct header {
    size_t mapped; /* bytes of the mapping, including the header's page; 0 = from the heap */
    size_t asked;  /* bytes of the block after the header */
    uint32_t alive;
    char rest[ALIGNMENT - 2 * sizeof(size_t) - sizeof(uint32_t)];
} header;

_Static_assert(sizeof(header) == ALIGNMENT, "the block behind the header is aligned as the header");

long iter__engine_fail_after = -1;
static long n_live;
static long n_live_bytes;
static long n_allocations;

/* Counts one allocation; false = this one must fail. */
static bool may_allocate(void) {
    __atomic_add_fetch(&n_allocations, 1, __ATOMIC_RELAXED);
    long left = __atomic_load_n(&iter__engine_fail_after, __ATOMIC_RELAXED);
    while (left >= 0) {
        if (__atomic_compare_exchange_n(&iter__engine_fail_after, &left, left - 1, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return left > 0;
    }
    return true;
}

/* The header of a new mapping with room for `bytes` after the header's page; NULL = no memory. */
static header *map_block(size_t bytes) {
    const size_t wanted = (PAGE + bytes + PAGE - 1) / PAGE * PAGE;
    char *at =
        mmap(NULL, wanted + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    const size_t before = (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0) munmap(at, before);
    if (HUGE_PAGE - before > 0) munmap(at + before + wanted, HUGE_PAGE - before);
    at += before;
    madvise(at, wanted, MADV_HUGEPAGE); /* a hint: if it is ignored, the pages are small */
    for (size_t i = 0; i < wanted; i += PAGE)
        *(volatile char *)(at + i) = 0;
    header *h = (header *)(void *)(at + PAGE - sizeof(header));
    h->mapped = wanted;
    return h;
}

static header *heap_block(size_t bytes) {
    void *memory;
    if (posix_memalign(&memory, ALIGNMENT, sizeof(header) + bytes) != 0) return NULL;
    memset(memory, 0, sizeof(header) + bytes);
    return memory;
}

void *iter__engine_alloc(size_t n, size_t size) {
    size_t bytes;
    const bool fits = !__builtin_mul_overflow(n, size, &bytes) && bytes < PTRDIFF_MAX - HUGE_PAGE;
    if (!may_allocate() || !fits) return NULL;
    header *h = bytes >= HUGE_FROM ? map_block(bytes) : heap_block(bytes);
    if (!h) return NULL;
    h->alive = BLOCK_IS_ALIVE;
    h->asked = bytes;
    __atomic_add_fetch(&n_live, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&n_live_bytes, (long)bytes, __ATOMIC_RELAXED);
    return h + 1;
}

void iter__engine_free(void *block) {
    if (!block) return;
    header *h = (header *)((uintptr_t)block - sizeof(header));
    assert(h->alive == BLOCK_IS_ALIVE);
    h->alive = 0;
    __atomic_sub_fetch(&n_live, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&n_live_bytes, (long)h->asked, __ATOMIC_RELAXED);
    if (h->mapped)
        munmap((char *)block - PAGE, h->mapped);
    else
        free(h);
}

long iter__engine_live(void) {
    return __atomic_load_n(&n_live, __ATOMIC_RELAXED);
}

long iter__engine_live_bytes(void) {
    return __atomic_load_n(&n_live_bytes, __ATOMIC_RELAXED);
}

long iter__engine_count(void) {
    return __atomic_load_n(&n_allocations, __ATOMIC_RELAXED);
}
