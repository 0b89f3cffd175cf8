/* test_alloc.c - alignment, zeroes, impossible sizes, counters, failures on demand, mappings. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "iter/core/alloc.h"

TestSuite(alloc, .timeout = 30);

#define MIB ((size_t)1 << 20)

static int is_zero(const void *block, size_t n) {
    const unsigned char *bytes = block;
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return 0;
    return 1;
}

Test(alloc, blocks_are_aligned_and_zero) {
    for (size_t bytes = 0; bytes < 5000; bytes += 1 + bytes / 3) {
        unsigned char *block = iter__alloc(1, bytes);
        cr_assert(block);
        cr_expect_eq((uintptr_t)block % 64, 0);
        cr_expect(is_zero(block, bytes));
        memset(block, 0xff, bytes); /* so that the next one finds used memory */
        iter__free(block);
    }
    iter__free(NULL);
}

Test(alloc, sizes_that_cannot_be_are_refused) {
    const long live = iter__alloc_live();
    volatile size_t huge = SIZE_MAX; /* hidden from the compiler's warnings */
    cr_expect_null(iter__alloc(huge / 2, 3));
    cr_expect_null(iter__alloc(huge, 1));
    cr_expect_null(iter__alloc(1, huge - 32));
    cr_expect_null(iter__realloc(NULL, huge - 32));
    cr_expect_null(iter__map(huge));
    cr_expect_null(iter__map(huge - 5 * MIB));
    cr_expect_eq(iter__alloc_live(), live);
}

Test(alloc, realloc_keeps_contents) {
    unsigned char *block = iter__realloc(NULL, 10);
    cr_assert(block);
    memcpy(block, "0123456789", 10);
    for (size_t bytes = 20; bytes < 100000; bytes *= 3) {
        block = iter__realloc(block, bytes);
        cr_assert(block);
        cr_expect_eq((uintptr_t)block % 64, 0);
        cr_expect(memcmp(block, "0123456789", 10) == 0);
    }
    block = iter__realloc(block, 4);
    cr_expect(memcmp(block, "0123", 4) == 0);
    iter__alloc_fail_after = 0;
    cr_expect_null(iter__realloc(block, 1000));
    cr_expect(memcmp(block, "0123", 4) == 0, "a failure leaves the block");
    iter__free(block);
}

Test(alloc, texts) {
    char *copy = iter__strdup("shard-0007.tar");
    char *text = iter__strf("%s:%d", copy, 4711);
    cr_expect_str_eq(copy, "shard-0007.tar");
    cr_expect_str_eq(text, "shard-0007.tar:4711");
    iter__free(copy);
    iter__free(text);
}

Test(alloc, counters) {
    const long live = iter__alloc_live(), count = iter__alloc_count();
    void *a = iter__alloc(1, 1), *b = iter__strdup("b"), *c = iter__map(100);
    cr_expect_eq(iter__alloc_live(), live + 3);
    cr_expect_eq(iter__alloc_count(), count + 3);
    a = iter__realloc(a, 100);
    cr_expect_eq(iter__alloc_live(), live + 3);
    cr_expect_eq(iter__alloc_count(), count + 4);
    iter__free(a);
    iter__free(b);
    iter__unmap(c, 100);
    cr_expect_eq(iter__alloc_live(), live);
    cr_expect_eq(iter__alloc_count(), count + 4);
}

static void *allocate(int how) {
    switch (how) {
    case 0: return iter__alloc(1, 8);
    case 1: return iter__realloc(NULL, 8);
    case 2: return iter__strdup("8");
    case 3: return iter__strf("%d", 8);
    default: return iter__map(8);
    }
}

static void release(int how, void *block) {
    if (how < 4)
        iter__free(block);
    else
        iter__unmap(block, 8);
}

Test(alloc, the_nth_allocation_fails_once) {
    for (int how = 0; how < 5; how++)
        for (long n = 0; n < 3; n++) {
            iter__alloc_fail_after = n;
            for (long i = 0; i < 5; i++) {
                void *block = allocate(how);
                cr_expect_eq(block == NULL, i == n, "way %d, %ld of %ld", how, i, n);
                release(how, block);
            }
            cr_expect_eq(iter__alloc_fail_after, -1);
        }
}

Test(alloc, mappings) {
    static const size_t some[] = {0,       1,           4096,           4097, 4 * MIB - 4096,
                                  4 * MIB, 4 * MIB + 1, 9 * MIB + 12345};
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        unsigned char *block = iter__map(some[i]);
        cr_assert(block);
        cr_expect_eq((uintptr_t)block % (size_t)sysconf(_SC_PAGESIZE), 0);
        if (some[i] >= 4 * MIB) cr_expect_eq((uintptr_t)block % (2 * MIB), 0);
        cr_expect(is_zero(block, some[i]));
        memset(block, 1, some[i]);
        iter__unmap(block, some[i]);
    }
    iter__unmap(NULL, 5);
}

Test(alloc, large_blocks_are_counted_however_they_lie) {
    static const size_t some[] = {0, 1, 4096, 256 << 10, (256 << 10) - 1, 3 * MIB};
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        const long live = iter__alloc_live();
        const long long now = iter__alloc_held(ITER_ALLOC_HOST).now;
        unsigned char *block = iter__alloc_large(some[i]);
        cr_assert(block);
        cr_expect_eq((uintptr_t)block % 64, 0);
        cr_expect_eq(iter__alloc_live(), live + 1);
        cr_expect(iter__alloc_held(ITER_ALLOC_HOST).now >= now + (long long)some[i]);
        memset(block, 1, some[i]);
        iter__free_large(block, some[i]);
        cr_expect_eq(iter__alloc_live(), live);
        cr_expect_eq(iter__alloc_held(ITER_ALLOC_HOST).now, now);
        iter__alloc_fail_after = 0;
        cr_expect_null(iter__alloc_large(some[i]));
    }
}

/* ---- Accounts -------------------------------------------------------------------------------- */

Test(alloc, an_account_counts_what_is_held) {
    iter__account account = {0};
    void *before = iter__alloc(1, 1000);
    iter__account_open(&account);
    void *a = iter__alloc(1, 1000), *b = iter__map(5 * MIB), *c = iter__alloc_large(100);
    cr_expect_geq(account.held, 1000 + 5 * MIB + 100 + 2 * 64);
    cr_expect_leq(account.held, 1000 + 5 * MIB + 100 + 4 * 128);
    a = iter__realloc(a, 100000);
    cr_expect_geq(account.held, 100000 + 5 * MIB);
    cr_expect_leq(account.held, 100000 + 5 * MIB + 100 + 4 * 128);
    iter__free(a);
    iter__unmap(b, 5 * MIB);
    iter__free_large(c, 100);
    cr_expect_eq(account.held, 0);
    iter__free(before); /* allocated before the account began: the count must not go below zero */
    cr_expect_eq(account.held, 0);
    iter__account_close(&account);
    iter__free(iter__alloc(1, 1));
    cr_expect_eq(account.held, 0);
    cr_expect_eq(account.wanted, 0);
}

Test(alloc, an_account_has_a_limit) {
    iter__account account = {.limit = MIB};
    const long live = iter__alloc_live();
    iter__account_open(&account);
    void *half = iter__alloc(1, MIB / 2);
    cr_expect(half);
    cr_expect_null(iter__alloc(1, MIB));
    cr_expect_geq(account.wanted, MIB + MIB / 2);
    cr_expect_leq(account.wanted, MIB + MIB / 2 + 512);
    cr_expect_null(iter__map(MIB));
    cr_expect_null(iter__realloc(half, MIB / 2 + 1), "both are there while it is copied");
    void *small = iter__alloc(1, MIB / 4);
    cr_expect(small, "what fits still does");
    iter__free(half);
    iter__free(small);
    iter__account_close(&account);
    void *much = iter__alloc(1, 2 * MIB);
    cr_expect(much, "no account, no limit");
    iter__free(much);
    cr_expect_eq(iter__alloc_live(), live);
}

static int n_asked;

static uint64_t eighty_mib(void) {
    n_asked++;
    return 80 * MIB;
}

Test(alloc, an_account_asks_for_its_limit_when_it_holds_much) {
    iter__account account = {.find_limit = eighty_mib};
    iter__account_open(&account);
    void *some = iter__map(60 * MIB);
    cr_expect(some);
    cr_expect_eq(n_asked, 0);
    void *more = iter__map(10 * MIB);
    cr_expect(more);
    cr_expect_eq(n_asked, 1);
    cr_expect_null(iter__map(11 * MIB));
    cr_expect_eq(n_asked, 1);
    cr_expect_eq(account.wanted, 81 * MIB);
    iter__unmap(some, 60 * MIB);
    iter__unmap(more, 10 * MIB);
    iter__account_close(&account);
}

Test(alloc, accounts_nest) {
    iter__account outer = {.limit = MIB}, inner = {0};
    iter__account_open(&outer);
    iter__account_open(&inner);
    void *block = iter__alloc(1, MIB / 2);
    cr_expect_null(iter__alloc(1, MIB));
    cr_expect_eq(inner.wanted, 0, "it is the outer one that has no room");
    cr_expect_gt(outer.wanted, 0);
    iter__account_close(&inner);
    cr_expect_eq(inner.held, outer.held);
    iter__free(block);
    cr_expect_eq(outer.held, 0);
    iter__account_close(&outer);
}
