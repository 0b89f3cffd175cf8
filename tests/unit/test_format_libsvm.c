/* test_format_libsvm.c - sparse rows: dense and CSR, and every kind of broken row. Whole files are
 * compared with sklearn's reader in tests/python/check_tables.py. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/builtin_tables.h"
#define FORMAT iter__format_libsvm
#include "tests/support/format_decode.h"
#include "tests/support/format_expect.h"

static char folder[MAKE_PATH_MAX];

static void begin(void) {
    make_folder(folder);
}

static void end(void) {
    make_folder_gone(folder);
}

TestSuite(format_libsvm, .timeout = 60, .init = begin, .fini = end);

static const char *rows(const char *text) {
    static char path[MAKE_PATH_MAX];
    make_file(folder, "t.libsvm", text, strlen(text));
    return make_path(path, folder, "t.libsvm");
}

static void expect_row(const opened *f, uint64_t index, int field, const void *want, size_t n) {
    static decoded row;
    iter_error err = {0};
    cr_assert_eq(format_decode(f, index, field, &row, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_desc_bytes(&row.desc), n);
    cr_assert(memcmp(row.bytes, want, n) == 0, "row %d of field %d", (int)index, field);
}

#define TEXT "# a comment\n1 1:0.5 3:-2 # more\n\n-1 qid:7 2:1e1\r\n+1\n0"

Test(format_libsvm, dense_rows) {
    static const float data[4][3] = {{0.5f, 0, -2}, {0, 10, 0}, {0, 0, 0}, {0, 0, 0}};
    static const float labels[4] = {1, -1, 1, 0};
    opened f;
    char place[48];
    expect_open(rows(TEXT), "features=3", &f);
    cr_assert(f.desc.n_samples == 4 && f.desc.n_fields == 2);
    for (uint64_t i = 0; i < 4; i++) {
        expect_row(&f, i, 0, data[i], sizeof(data[i]));
        expect_row(&f, i, 1, &labels[i], sizeof(labels[i]));
    }
    f.ops->place(f.state, 1, place, sizeof(place));
    cr_assert_str_eq(place, "line 4");
    format_close(&f);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(format_libsvm, csr_rows) {
    static const float values[] = {0.5f, -2};
    static const int32_t from_one[] = {0, 2}, from_zero[] = {1, 3};
    opened f;
    expect_open(rows(TEXT), "layout=csr", &f);
    cr_assert_eq(f.desc.n_fields, 3);
    cr_assert_str_eq(f.desc.fields[0].name, "values");
    expect_row(&f, 0, 0, values, sizeof(values));
    expect_row(&f, 0, 1, from_one, sizeof(from_one));
    expect_row(&f, 2, 0, "", 0);
    format_close(&f);
    expect_open(rows(TEXT), "layout=csr&base=0&features=4", &f);
    expect_row(&f, 0, 1, from_zero, sizeof(from_zero));
    cr_assert_eq(f.desc.fields[0].desc.capacity, 4);
    format_close(&f);
}

Test(format_libsvm, bad_rows_are_failed_samples) {
    static const struct {
        const char *line, *reason;
        int field;
    } cases[] = {
        {"1 4:1", "column 3: an index above the last of `features`", 0},
        {"1 0:1", "index 0, but indices count from 1", 0},
        {"1 2:1 2:2", "column 7: indices must ascend", 0},
        {"1 2:1 1:2", "indices must ascend", 0},
        {"1 2:x", "column 5: expected a number after ':', got 'x'", 0},
        {"1 2:", "expected a number after ':'", 0},
        {"1 2", "expected INDEX:VALUE, got '2'", 0},
        {"1 :2", "expected INDEX:VALUE", 0},
        {"1 a:2", "expected INDEX:VALUE", 0},
        {"1 -1:2", "expected INDEX:VALUE", 0},
        {"1 2:1e400", "the type cannot hold the value", 0},
        {"1 99999999999999999999:2", "expected INDEX:VALUE", 0},
        {"1:2", "column 1: expected a label before the first index", 1},
        {"1,3 1:2", "expected one label, several are not supported", 1},
        {"x 1:2", "the label must be a number", 1},
        {"1x 1:2", "the label must be a number", 1},
        {"1e99 1:2", "the type cannot hold the label", 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static decoded row;
        opened f;
        char text[200];
        iter_error err = {0};
        snprintf(text, sizeof(text), "1 1:1\n%s\n1 1:1\n", cases[i].line);
        expect_open(rows(text), "features=3", &f);
        cr_assert_eq(format_decode(&f, 1, cases[i].field, &row, &err), ITER_EFORMAT, "%s",
                     cases[i].line);
        cr_assert(strstr(err.message, cases[i].reason), "no \"%s\" in \"%s\"", cases[i].reason,
                  err.message);
        cr_assert_eq(format_decode(&f, 2, cases[i].field, &row, &err), ITER_OK, "%s", err.message);
        format_close(&f);
    }
}

Test(format_libsvm, options_that_are_refused) {
    const char *path = rows("1 1:1\n");
    expect_fails(path, "", ITER_EINVAL, "features=", "is needed");
    expect_fails(path, "features=2&dtype=f16", ITER_EINVAL, "dtype", "expected f32, f64");
    expect_fails(rows("# nothing\n\n"), "features=2", ITER_EFORMAT, "t.libsvm", "has no rows");
}
