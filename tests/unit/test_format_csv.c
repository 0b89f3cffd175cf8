/* test_format_csv.c - tables: RFC 4180's examples, headers, columns, and every kind of broken row.
 * Whole files are compared with Python's csv module, pandas and numpy in
 * tests/python/check_tables.py. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/builtin_tables.h"
#define FORMAT iter__format_csv
#include "tests/support/format_decode.h"
#include "tests/support/format_expect.h"

static char folder[MAKE_PATH_MAX];

static void begin(void) {
    make_folder(folder);
}

static void end(void) {
    make_folder_gone(folder);
}

TestSuite(format_csv, .timeout = 60, .init = begin, .fini = end);

static const char *path_of(const char *name) {
    static char path[MAKE_PATH_MAX];
    return make_path(path, folder, name);
}

static const char *table(const char *text) {
    make_file(folder, "t.csv", text, strlen(text));
    return path_of("t.csv");
}

/* Compares data of every row, up to an END. */
#define END 1e300
static void expect_rows(const char *text, const char *options, const double *want) {
    opened f;
    expect_open(table(text), options, &f);
    size_t at = 0;
    for (uint64_t i = 0; i < f.desc.n_samples; i++) {
        static decoded row;
        iter_error err = {0};
        cr_assert_eq(format_decode(&f, i, 0, &row, &err), ITER_OK, "row %d: %s", (int)i,
                     err.message);
        for (int64_t k = 0; k < iter_desc_elements(&row.desc); k++, at++) {
            float value;
            memcpy(&value, row.bytes + 4 * (size_t)k, sizeof(value));
            cr_assert(want[at] != END, "more than %d values", (int)at);
            cr_assert(value == (float)want[at] || (isnan(value) && isnan(want[at])),
                      "value %d: %g, expected %g", (int)at, (double)value, want[at]);
        }
    }
    cr_assert(want[at] == END, "%d values", (int)at);
    format_close(&f);
    cr_assert_eq(iter__alloc_live(), 0);
}

#define EXPECT_ROWS(text, options, ...) \
    expect_rows(text, options, (const double[]){__VA_ARGS__, END})

/* Row `index` must fail with this reason, at this place. */
static void expect_bad(const char *text, const char *options, uint64_t index, const char *place,
                       const char *reason) {
    opened f;
    static decoded row;
    char got[48];
    iter_error err = {0};
    expect_open(table(text), options, &f);
    cr_assert(index < f.desc.n_samples, "%d rows", (int)f.desc.n_samples);
    const iter_status s = format_decode(&f, index, 0, &row, &err);
    cr_assert_eq(s, ITER_EFORMAT, "%s: %d %s", reason, s, err.message);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
    f.ops->place(f.state, index, got, sizeof(got));
    cr_assert_str_eq(got, place);
    format_close(&f);
}

/* ---- What RFC 4180 says, rule by rule -------------------------------------------------------- */

Test(format_csv, rules_of_rfc_4180) {
    EXPECT_ROWS("1,2,3\r\n4,5,6\r\n", "", 1, 2, 3, 4, 5, 6);                               /* 1 */
    EXPECT_ROWS("1,2,3\r\n4,5,6", "", 1, 2, 3, 4, 5, 6);                                   /* 2 */
    EXPECT_ROWS("a,b,c\r\n1,2,3\r\n4,5,6\r\n", "", 1, 2, 3, 4, 5, 6);                      /* 3 */
    EXPECT_ROWS("\"1\",\"2\",\"3\"\r\n4,5,6", "", 1, 2, 3, 4, 5, 6);                       /* 5 */
    EXPECT_ROWS("\"1\",\"b \r\nbb\",\"3\"\r\n4,y,6", "columns=1;3&header=no", 1, 3, 4, 6); /* 6 */
    EXPECT_ROWS("\"1\",\"b\"\"b\"\"\",3\r\n", "columns=1;3", 1, 3);                        /* 7 */
    EXPECT_ROWS("\"a\nb\",\"c,\"\"d\"\r\n1,2\r\n", "header=yes", 1, 2);
}

Test(format_csv, line_ends_blank_lines_and_marks) {
    EXPECT_ROWS("\xef\xbb\xbf"
                "1,2\n3,4\n",
                "", 1, 2, 3, 4);
    EXPECT_ROWS("\xef\xbb\xbf"
                "a,b\n3,4\n",
                "columns=a", 3);
    EXPECT_ROWS("\n\r\n1,2\n\n\n3,4\r\n\r\n\n", "", 1, 2, 3, 4);
    EXPECT_ROWS("a,b\n\n1,2", "", 1, 2);
    EXPECT_ROWS("5", "", 5);
    EXPECT_ROWS("5\r", "", 5);
    EXPECT_ROWS("5\n6\n7", "", 5, 6, 7);
    EXPECT_ROWS(" 1 ,\t2\n3, 4 \r\n", "", 1, 2, 3, 4);
    EXPECT_ROWS("\" 1\",2\n", "", 1, 2);
    EXPECT_ROWS("1\t2\n3\t4\n", "delimiter=tab", 1, 2, 3, 4);
    EXPECT_ROWS("1;2\n3;4\n", "delimiter=semicolon", 1, 2, 3, 4);
    EXPECT_ROWS("1|2\n3|4\n", "delimiter=|", 1, 2, 3, 4);
    EXPECT_ROWS("1,\"\n2,\"\n", "quotes=no&columns=1", 1, 2);
    make_file(folder, "t.tsv", "1\t2\n", 4);
    opened f;
    expect_open(path_of("t.tsv"), "", &f);
    cr_assert_eq(f.desc.fields[0].desc.dims[0], 2);
    format_close(&f);
}

Test(format_csv, headers_and_columns) {
    EXPECT_ROWS("a,b\n1,2\n", "header=auto", 1, 2);
    EXPECT_ROWS("1,b\n1,2\n", "header=yes", 1, 2);
    EXPECT_ROWS("1,2\n3,4\n", "header=yes", 3, 4);
    EXPECT_ROWS("id,1\n1,2\n", "header=no&columns=2", 1, 2); /* one of it is a number */
    EXPECT_ROWS("a,b,c\n1,2,3\n", "columns=c;a", 3, 1);
    EXPECT_ROWS("a,b,c\n1,2,3\n", "columns=3;1", 3, 1);
    EXPECT_ROWS("a,b,c,d\n1,2,3,4\n", "columns=2-4", 2, 3, 4);
    EXPECT_ROWS("2,1\n5,6\n", "header=yes&columns=1", 6); /* a name goes before a number */
    EXPECT_ROWS("a,b,c\n1,2,3\n", "label=b", 1, 3);
    EXPECT_ROWS("a,x,c\n1,text,3\n", "columns=a;c", 1, 3);
    EXPECT_ROWS("a-b,c\n1,2\n", "columns=a-b", 1);
    const char *path = table("a,b\n1,2\n");
    expect_fails(path, "columns=x", ITER_EINVAL, "t.csv", "has no column 'x'");
    expect_fails(path, "columns=3", ITER_EINVAL, "t.csv", "has no column '3' (2 columns");
    expect_fails(path, "columns=0", ITER_EINVAL, "t.csv", "has no column '0'");
    expect_fails(path, "columns=2-1", ITER_EINVAL, "t.csv", "has no column '2-1'");
    expect_fails(path, "columns=a;", ITER_EINVAL, "t.csv", "has no column ''");
    expect_fails(path, "columns=a;1", ITER_EINVAL, "columns", "column 1 is listed twice");
    expect_fails(path, "columns=a&header=no", ITER_EINVAL, "t.csv", "it has no header");
    expect_fails(path, "label=a;b", ITER_EINVAL, "t.csv", "all of its columns are labels");
    expect_fails(path, "delimiter=.", ITER_EINVAL, "delimiter", "expected one ASCII character");
    expect_fails(path, "delimiter=ab", ITER_EINVAL, "delimiter", "expected one ASCII character");
    expect_fails(path, "dtype=f16", ITER_EINVAL, "dtype=f16", "expected f32, f64 or an integer");
    expect_fails(path, "shape=3", ITER_EINVAL, "shape=3", "data has 2 columns");
    expect_fails(path, "missing=x", ITER_EINVAL, "missing=x", "expected error, zero, nan");
    expect_fails(path, "missing=nan&dtype=i32", ITER_EINVAL, "missing=nan", "i32 cannot hold it");
}

Test(format_csv, types_labels_and_shapes) {
    opened f;
    static decoded row;
    iter_error err;
    int64_t label;
    double d;
    expect_open(table("a,b,y\n0.1,2,-7\n3,4,9223372036854775807\n"), "label=y&dtype=f64&shape=1x2",
                &f);
    cr_assert(f.desc.n_fields == 2 && f.desc.fields[0].desc.n_dims == 2);
    cr_assert_eq(f.desc.fields[1].desc.n_dims, 0);
    cr_assert_eq(format_decode(&f, 0, 0, &row, &err), ITER_OK);
    memcpy(&d, row.bytes, sizeof(d));
    cr_assert(d == 0.1);
    cr_assert_eq(format_decode(&f, 1, 1, &row, &err), ITER_OK);
    memcpy(&label, row.bytes, sizeof(label));
    cr_assert_eq(label, INT64_MAX);
    format_close(&f);
    expect_open(table("1,2,3\n4,5,6\n"), "label=3;1&label-dtype=i32", &f);
    cr_assert_eq(format_decode(&f, 1, 1, &row, &err), ITER_OK);
    int32_t two[2];
    memcpy(two, row.bytes, sizeof(two));
    cr_assert(row.desc.dims[0] == 2 && two[0] == 6 && two[1] == 4);
    format_close(&f);
}

Test(format_csv, missing_values) {
    EXPECT_ROWS("1,,3\n", "missing=zero", 1, 0, 3);
    EXPECT_ROWS("1,,\n", "missing=-2.5", 1, -2.5, -2.5);
    EXPECT_ROWS("1,NA,nan\n,N/A,Null\n", "missing=nan", 1, NAN, NAN, NAN, NAN, NAN);
    EXPECT_ROWS("1,\"\", \n", "missing=7", 1, 7, 7);
    EXPECT_ROWS("inf,-Infinity,+INF\n", "header=no", INFINITY, -(double)INFINITY, INFINITY);
    expect_bad("1,2\n3,\n", "", 1, "line 2", "column 2: has no value");
    expect_bad("a,b\n1,2\nNA,4\n", "", 1, "line 3", "column 1 (a): has no value");
    expect_bad("1,2\n3,inf\n", "dtype=i32", 1, "line 2", "column 2: a whole number expected");
}

/* ---- Bad rows -------------------------------------------------------------------------------- */

Test(format_csv, bad_rows_are_failed_samples) {
    expect_bad("a,b\n1,2\n1,x\n", "", 1, "line 3", "column 2 (b): a number expected, got 'x'");
    expect_bad("1,2\n1,2x\n", "", 1, "line 2", "column 2: a number expected, got '2x'");
    expect_bad("1,2\n1,1 2\n", "", 1, "line 2", "got '1 2'");
    expect_bad("1,2\n3\n", "", 1, "line 2", "has 1 columns, expected 2");
    expect_bad("1,2\n3,4,5\n", "", 1, "line 2", "has more than 2 columns");
    expect_bad("1,2\n3,4,\n", "", 1, "line 2", "has more than 2 columns");
    expect_bad("1,2\n3,1e400\n", "", 1, "line 2", "f32 cannot hold '1e400'");
    expect_bad("1,2\n3,300\n", "dtype=u8", 1, "line 2", "u8 cannot hold '300'");
    expect_bad("1,2\n3,1.5\n", "dtype=u8", 1, "line 2", "a whole number expected, got '1.5'");
    expect_bad("1,2\n3,\"4\" \n", "", 1, "line 2", "text comes after its closing quotation mark");
    expect_bad("1,2\n3,4\"\n5,6\"\n7,8\n", "", 1, "line 2", "does not begin with one");
    expect_bad("a,b\n\"1\n\",2\n\n3,x\n", "columns=b", 1, "line 5", "got 'x'");
}

Test(format_csv, bytes_of_zero) {
    opened f;
    static decoded row;
    iter_error err = {0};
    make_file(folder, "t.csv", "1,2\n3,\0\n5,6\n", 12);
    expect_open(path_of("t.csv"), "", &f);
    cr_assert_eq(f.desc.n_samples, 3);
    cr_assert_eq(format_decode(&f, 1, 0, &row, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "column 2: a number expected"), "%s", err.message);
    cr_assert_eq(format_decode(&f, 2, 0, &row, &err), ITER_OK);
    format_close(&f);
}

/* A quotation that never ends costs one row, wherever it is. */
Test(format_csv, open_quotation) {
    opened f;
    static decoded row;
    expect_open(table("1,2\n3,\"4\n5,6\n7,8\n"), "", &f);
    cr_assert_eq(f.desc.n_samples, 4);
    for (uint64_t i = 0; i < 4; i++) {
        iter_error err = {0};
        const iter_status s = format_decode(&f, i, 0, &row, &err);
        cr_assert_eq(s, i == 1 ? ITER_EFORMAT : ITER_OK, "%s", err.message);
        if (i == 1) cr_assert(strstr(err.message, "column 2: the quotation mark at its start"));
    }
    format_close(&f);
    /* with more lines than max-row has room for, and quoted fields after them */
    FILE *file = fopen(path_of("t.csv"), "wb");
    fputs("1,2\n\"1,2\n", file);
    for (int i = 0; i < 300000; i++)
        fprintf(file, "%d,\"%d\"\n", i, i);
    fputs("1,\"2\n", file);
    for (int i = 0; i < 300000; i++)
        fprintf(file, "%d,%d\n", i, i);
    fclose(file);
    expect_open(path_of("t.csv"), "header=no&max-row=4096", &f);
    cr_assert_eq(f.desc.n_samples, 600003);
    cr_assert(f.desc.max_extent_bytes[0] < 100);
    for (uint64_t i = 0; i < f.desc.n_samples;
         i += i < 99 || (i > 290000 && i < 310000) ? 1 : 299) {
        iter_error err = {0};
        char place[48], want[48];
        const iter_status s = format_decode(&f, i, 0, &row, &err);
        cr_assert_eq(s, i == 1 || i == 300002 ? ITER_EFORMAT : ITER_OK, "%d: %s", (int)i,
                     err.message);
        snprintf(want, sizeof(want), "line %d", (int)i + 1);
        if (i % 37) continue;
        f.ops->place(f.state, i, place, sizeof(place));
        cr_assert_str_eq(place, want);
    }
    format_close(&f);
}

Test(format_csv, long_rows) {
    static char text[6000];
    opened f;
    static decoded row;
    iter_error err = {0};
    memset(text, '1', sizeof(text));
    memcpy(text, "1,2\n3,", 6);
    memcpy(text + 5000, "\n5,6\n", 6);
    make_file(folder, "t.csv", text, 5005);
    expect_open(path_of("t.csv"), "max-row=100", &f);
    cr_assert(f.desc.n_samples == 3 && f.desc.max_extent_bytes[0] == 102);
    cr_assert_eq(format_decode(&f, 1, 0, &row, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "is longer than 100 bytes (max-row)"), "%s", err.message);
    cr_assert_eq(format_decode(&f, 2, 0, &row, &err), ITER_OK, "%s", err.message);
    format_close(&f);
    expect_open(path_of("t.csv"), "", &f);
    cr_assert_eq(format_decode(&f, 1, 0, &row, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "too long for a number"), "%s", err.message);
    format_close(&f);
    /* a short row with many blank lines after it is no long row */
    memset(text + 4, '\n', 4996);
    make_file(folder, "t.csv", text, 5005);
    expect_open(path_of("t.csv"), "max-row=100", &f);
    cr_assert_eq(f.desc.n_samples, 2);
    cr_assert_eq(format_decode(&f, 0, 0, &row, &err), ITER_OK, "%s", err.message);
    format_close(&f);
}

/* ---- Files ----------------------------------------------------------------------------------- */

Test(format_csv, files_that_cannot_be_opened) {
    expect_fails(table(""), "", ITER_EFORMAT, "t.csv", "has no rows");
    expect_fails(table("\n\r\n\n"), "", ITER_EFORMAT, "t.csv", "has no rows");
    expect_fails(table("a,b\n"), "", ITER_EFORMAT, "t.csv", "has no rows");
    expect_fails(table("\xff\xfe"
                       "1"),
                 "", ITER_EFORMAT, "t.csv", "is UTF-16");
    expect_fails(table("\x1f\x8b\x08"), "", ITER_EFORMAT, "t.csv", "is gzipped");
    expect_fails(table("a,\"b\nc,d\n"), "", ITER_EFORMAT, "t.csv", "first row does not end");
    expect_fails(table("a,b\"c\n1,2\n"), "", ITER_EFORMAT, "t.csv", "first row does not end");
    expect_fails(table("a,\"b\"c\n1,2\n"), "", ITER_EFORMAT, "t.csv", "first row, column 2");
    expect_fails(path_of("none.csv"), "", ITER_EIO, "none.csv", "No such file");
}

Test(format_csv, many_files) {
    opened f;
    static decoded row;
    iter_error err = {0};
    char place[48];
    make_file(folder, "a.csv", "x,y\n1,2\n", 8);
    make_file(folder, "b.csv", "x,y\n", 4);
    make_file(folder, "c.csv", "", 0);
    make_file(folder, "d.csv", "x,y\n3,4\n5,6", 11);
    expect_open(folder, "", &f);
    cr_assert_eq(f.desc.n_samples, 3);
    cr_assert_eq(format_decode(&f, 2, 0, &row, &err), ITER_OK, "%s", err.message);
    float two[2];
    memcpy(two, row.bytes, sizeof(two));
    cr_assert(two[0] == 5 && two[1] == 6);
    f.ops->place(f.state, 2, place, sizeof(place));
    cr_assert_str_eq(place, "line 3");
    format_close(&f);
    make_file(folder, "d.csv", "x,z\n3,4\n", 8);
    expect_fails(folder, "", ITER_EFORMAT, "d.csv", "its header is not that of");
}

/* A file that is large enough for several threads, on machines with several cores. Line ends lie in
 * quotation marks everywhere, so that most parts begin inside; empty lines and short rows fill the
 * lists of a part before its bytes end. */
Test(format_csv, large_file_against_a_loop) {
    const size_t most = (size_t)20 << 20;
    char *text = malloc(most + 4096);
    size_t n = 0, begin = 0;
    for (uint64_t i = 0; n < most; i++) {
        if (i / 1000 % 20 == 7)
            n += (size_t)sprintf(text + n, "\n5\n\r\n");
        else if (i % 997 == 0)
            n += (size_t)sprintf(text + n, "\"%*s\n\"\"\n%*s\"\n", (int)(i % 3000), "",
                                 (int)(i % 50), "");
        else
            n += (size_t)sprintf(text + n, "\"%d\n\"\n", (int)i);
    }
    make_file(folder, "t.csv", text, n);
    opened f;
    expect_open(path_of("t.csv"), "header=no", &f);
    uint64_t index = 0, n_lines = 0, line = 0;
    bool inside = false;
    for (size_t i = 0; i < n; i++) {
        inside ^= text[i] == '"';
        n_lines += text[i] == '\n';
        if (text[i] != '\n' || inside) continue;
        if (i > begin && !(i == begin + 1 && text[begin] == '\r')) {
            iter_extent x;
            f.ops->locate(f.state, index, &x);
            cr_assert_eq(x.offset, begin, "row %d", (int)index);
            if (index % 50000 == 0) {
                char place[48], want[48];
                f.ops->place(f.state, index, place, sizeof(place));
                snprintf(want, sizeof(want), "line %d", (int)line + 1);
                cr_assert_str_eq(place, want);
            }
            index++;
        }
        begin = i + 1;
        line = n_lines;
    }
    cr_assert_eq(index, f.desc.n_samples);
    format_close(&f);
    free(text);
}

/* The index from a cache gives the same rows and the same lines. */
Test(format_csv, index_that_is_kept) {
    for (int i = 0; i < 3; i++) {
        opened f;
        char place[48];
        if (i == 0) {
            table("a,b\n\"1\n\",2\n\n3,4\n5,6\n");
            usleep(50000); /* a file that has just changed gets no cache */
        }
        expect_open(path_of("t.csv"), "index-cache=yes&columns=b", &f);
        cr_assert_eq(f.desc.n_samples, 3);
        f.ops->place(f.state, 2, place, sizeof(place));
        cr_assert_str_eq(place, "line 6");
        format_close(&f);
        cr_assert_eq(access(path_of("t.csv.iteridx"), F_OK), 0);
    }
    opened f; /* other options, another index */
    expect_open(path_of("t.csv"), "index-cache=yes&columns=2&header=no", &f);
    cr_assert_eq(f.desc.n_samples, 4);
    format_close(&f);
}

/* Every allocation of opening fails once: an error, and nothing is lost. */
Test(format_csv, without_memory) {
    const char *path = table("a,b,y\n1,2,3\n4,5,6\n");
    for (long after = 0;; after++) {
        opened f;
        iter_error err = {0};
        iter__alloc_fail_after = after;
        const iter_status s = format_open(&FORMAT, path, "label=y", &f, &err);
        iter__alloc_fail_after = -1;
        if (s == ITER_OK) {
            format_close(&f);
            cr_assert(after > 8);
            break;
        }
        cr_assert_eq(s, ITER_ENOMEM, "%ld: %s", after, err.message);
        cr_assert_eq(iter__alloc_live(), 0);
    }
    cr_assert_eq(iter__alloc_live(), 0);
}
