/* test_bench_cache.c - the size of the last-level cache, from folders as the kernel's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "bench/limits/yardstick.h"
#include "tests/support/make_data.h"

TestSuite(bench_cache, .timeout = 60);

static void make_level(const char *folder, int i, const char *level, const char *size) {
    char name[32], inner[MAKE_PATH_MAX];
    snprintf(name, sizeof(name), "index%d", i);
    make_subfolder(folder, name);
    make_path(inner, folder, name);
    make_file(inner, "level", level, strlen(level));
    make_file(inner, "size", size, strlen(size));
}

Test(bench_cache, the_highest_level_counts) {
    char folder[MAKE_PATH_MAX];
    make_folder(folder);
    cr_assert_eq(yardstick_cache_in(folder), 0);
    make_level(folder, 0, "1\n", "32K\n");
    cr_assert_eq(yardstick_cache_in(folder), 32768);
    make_level(folder, 1, "3\n", "32768K\n");
    make_level(folder, 2, "2\n", "1M\n");
    cr_assert_eq(yardstick_cache_in(folder), 32 << 20);
    make_level(folder, 3, "what\n", "9999999K\n"); /* ends the list */
    cr_assert_eq(yardstick_cache_in(folder), 32 << 20);
    make_folder_gone(folder);
}

Test(bench_cache, this_machine_has_one) {
    cr_assert_geq(yardstick_cache_bytes(), 0);
    cr_assert_lt(yardstick_cache_bytes(), 1e11);
}
