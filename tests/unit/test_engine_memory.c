/*
 * test_engine_memory.c - the engine's memory: zeroed, aligned, counted, failing on demand, and
 * mapped before it is used.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/engine_memory.h"

TestSuite(engine_memory, .timeout = 30);

static const size_t sizes[] = {
    1, 63, 64, 4096, ((size_t)4 << 20) - 1, (size_t)4 << 20, ((size_t)9 << 20) + 5};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

Test(engine_memory, is_zeroed_aligned_and_counted) {
    unsigned char *blocks[N_SIZES];
    const long count = iter__engine_count();
    for (size_t i = 0; i < N_SIZES; i++) {
        blocks[i] = iter__engine_alloc(sizes[i], 1);
        cr_assert_not_null(blocks[i]);
        cr_expect_eq((uintptr_t)blocks[i] % 64, 0);
        for (size_t b = 0; b < sizes[i]; b++)
            cr_assert_eq(blocks[i][b], 0);
        memset(blocks[i], 0xa5, sizes[i]);
        cr_expect_eq(iter__engine_live(), (long)i + 1);
    }
    cr_expect_eq(iter__engine_count() - count, (long)N_SIZES);
    for (size_t i = 0; i < N_SIZES; i++)
        iter__engine_free(blocks[i]);
    iter__engine_free(NULL);
    cr_expect_eq(iter__engine_live(), 0);
}

Test(engine_memory, large_blocks_are_there_before_they_are_used) {
    const size_t bytes = (size_t)64 << 20;
    struct rusage before, after;
    char *block = iter__engine_alloc(bytes, 1);
    cr_assert_not_null(block);
    getrusage(RUSAGE_SELF, &before);
    for (size_t i = 0; i < bytes; i += 4096)
        block[i] = 1;
    getrusage(RUSAGE_SELF, &after);
    cr_expect_lt(after.ru_minflt - before.ru_minflt, 64); /* 16,384 small pages */
    iter__engine_free(block);
}

Test(engine_memory, too_much_is_refused) {
    cr_expect_null(iter__engine_alloc(SIZE_MAX / 2, 4));
    cr_expect_null(iter__engine_alloc(SIZE_MAX, 1));
    cr_expect_null(iter__engine_alloc((size_t)1 << 62, 1));
    cr_expect_eq(iter__engine_live(), 0);
}

Test(engine_memory, fails_when_told) {
    iter__engine_fail_after = 1;
    void *first = iter__engine_alloc(8, 8), *second = iter__engine_alloc(8, 8);
    void *third = iter__engine_alloc(8, 8);
    cr_expect_not_null(first);
    cr_expect_null(second);
    cr_expect_not_null(third);
    cr_expect_eq(iter__engine_fail_after, -1);
    iter__engine_free(first);
    iter__engine_free(third);
    cr_expect_eq(iter__engine_live(), 0);
}
