/*
 * format_expect.h - checks of opening a format, for Criterion. Define FORMAT as the format's table
 * before including this.
 */
#ifndef TESTS_SUPPORT_FORMAT_EXPECT_H
#define TESTS_SUPPORT_FORMAT_EXPECT_H

#include <criterion/criterion.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "tests/support/make_data.h"

static inline void expect_fails(const char *path, const char *options, iter_status want,
                                const char *file, const char *reason) {
    opened f;
    iter_error err = {0};
    const iter_status got = format_open(&FORMAT, path, options, &f, &err);
    cr_assert_eq(got, want, "%s: got %d \"%s\"", reason, got, err.message);
    cr_assert(strstr(err.message, file), "no \"%s\" in \"%s\"", file, err.message);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
    cr_assert_eq(iter__alloc_live(), 0);
}

static inline void expect_open(const char *path, const char *options, opened *f) {
    iter_error err = {0};
    const iter_status s = format_open(&FORMAT, path, options, f, &err);
    cr_assert_eq(s, ITER_OK, "%s: %s", path, err.message);
    cr_assert_null(format_fault(f, 1000), "%s", format_fault(f, 1000));
}

#endif
