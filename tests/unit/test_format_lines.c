/* test_format_lines.c - lines of text and of JSON: what a line is, what becomes of a string, ids by
 * a word list, and every kind of broken line. Whole files are compared with Python's json module in
 * tests/python/check_tables.py. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "loaders/tables/json_scan.h"
#include "tests/support/builtin_tables.h"
#define FORMAT iter__format_jsonl
#include "tests/support/format_decode.h"
#include "tests/support/format_expect.h"

static char folder[MAKE_PATH_MAX];

static void begin(void) {
    make_folder(folder);
}

static void end(void) {
    make_folder_gone(folder);
}

TestSuite(format_lines, .timeout = 60, .init = begin, .fini = end);

static const char *path_of(const char *name) {
    static char path[MAKE_PATH_MAX];
    return make_path(path, folder, name);
}

static void open_lines(const iter_format_ops *ops, const void *text, size_t n, const char *options,
                       opened *f) {
    iter_error err = {0};
    make_file(folder, "lines", text, n);
    cr_assert_eq(format_open(ops, path_of("lines"), options, f, &err), ITER_OK, "%s", err.message);
    cr_assert_null(format_fault(f, 100), "%s", format_fault(f, 100));
}

/* Row `index` has these bytes. */
static void expect_bytes(const opened *f, uint64_t index, const void *want, size_t n) {
    static decoded row;
    iter_error err = {0};
    cr_assert_eq(format_decode(f, index, 0, &row, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(row.desc.dims[0], (int64_t)n, "%d", (int)row.desc.dims[0]);
    cr_assert(memcmp(row.bytes, want, n) == 0, "row %d", (int)index);
}

static void expect_ids(const opened *f, uint64_t index, const int32_t *want, size_t n) {
    static decoded row;
    iter_error err = {0};
    cr_assert_eq(format_decode(f, index, 0, &row, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(row.desc.dims[0], (int64_t)n, "%d", (int)row.desc.dims[0]);
    cr_assert(memcmp(row.bytes, want, n * sizeof(*want)) == 0, "row %d", (int)index);
}

static void expect_bad(const opened *f, uint64_t index, int field, const char *reason) {
    static decoded row;
    iter_error err = {0};
    cr_assert_eq(format_decode(f, index, field, &row, &err), ITER_EFORMAT, "%s", reason);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
}

/* ---- Text ------------------------------------------------------------------------------------ */

Test(format_lines, lines_are_bytes) {
    opened f;
    char place[48];
    open_lines(&iter__format_text,
               "\xef\xbb\xbf"
               "a b\n\n\r\nc\0d\xff\r\nlast",
               20, "", &f);
    cr_assert_eq(f.desc.n_samples, 5);
    expect_bytes(&f, 0, "a b", 3);
    expect_bytes(&f, 1, "", 0);
    expect_bytes(&f, 2, "", 0);
    expect_bytes(&f, 3, "c\0d\xff", 4);
    expect_bytes(&f, 4, "last", 4);
    f.ops->place(f.state, 4, place, sizeof(place));
    cr_assert_str_eq(place, "line 5");
    format_close(&f);
    open_lines(&iter__format_text, "abcdef\nxy\n", 10, "maxlen=4&pad=42&side=last&pad-side=pre",
               &f);
    expect_bytes(&f, 0, "cdef", 4);
    expect_bytes(&f, 1, "**xy", 4);
    format_close(&f);
    open_lines(&iter__format_text, "abcdef\nxy\n", 10, "maxlen=4", &f);
    expect_bytes(&f, 0, "abcd", 4);
    expect_bytes(&f, 1, "xy\0\0", 4);
    format_close(&f);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(format_lines, lines_are_ids) {
    static const int32_t first[] = {1, 4, 5, 2}, padded[] = {1, 4, 0};
    opened f;
    char options[MAKE_PATH_MAX + 40];
    make_file(folder, "words", "the\nfilm\n", 9);
    snprintf(options, sizeof(options), "vocab=%s", path_of("words"));
    open_lines(&iter__format_text, "The film, rocks\nthe\n\xff\n", 22, options, &f);
    expect_ids(&f, 0, first, 4);
    expect_ids(&f, 1, first, 2);
    expect_bad(&f, 2, 0, "invalid UTF-8");
    format_close(&f);
    strcat(options, "&maxlen=3");
    open_lines(&iter__format_text, "The film, rocks\nthe\n", 20, options, &f);
    expect_ids(&f, 0, first, 3);
    expect_ids(&f, 1, padded, 3);
    format_close(&f);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(format_lines, long_lines) {
    opened f;
    open_lines(&iter__format_text, "short\nthis line is longer than sixteen\nend\n", 43,
               "max-row=16", &f);
    cr_assert_eq(f.desc.n_samples, 3);
    expect_bytes(&f, 0, "short", 5);
    expect_bad(&f, 1, 0, "is longer than 16 bytes");
    expect_bytes(&f, 2, "end", 3);
    format_close(&f);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void open_json(const char *text, const char *options, opened *f) {
    open_lines(&iter__format_jsonl, text, strlen(text), options, f);
}

Test(format_lines, strings_and_labels) {
    opened f;
    static decoded row;
    iter_error err;
    open_json(
        "{\"text\":\"a\\nb\",\"y\":3}\r\n\n {\"y\": -1e2 , \"text\" : \"\\u00e4\\ud83d\\ude00\"}\n"
        "{\"text\":\"\\\"\\\\\\/\\b\\f\\r\\t\", \"y\":true, \"text\":\"later\"}",
        "label=y", &f);
    cr_assert_eq(f.desc.n_samples, 3);
    expect_bytes(&f, 0, "a\nb", 3);
    expect_bytes(&f, 1, "\xc3\xa4\xf0\x9f\x98\x80", 6);
    expect_bytes(&f, 2, "later", 5);
    static const int64_t labels[] = {3, -100, 1};
    for (uint64_t i = 0; i < 3; i++) {
        cr_assert_eq(format_decode(&f, i, 1, &row, &err), ITER_OK, "%s", err.message);
        cr_assert(memcmp(row.bytes, &labels[i], 8) == 0);
    }
    format_close(&f);
    open_json("{\"a\":{\"b\":[1,{\"c\":\"in\"}],\"b2\":\"no\"},\"b\":\"no\"}\n"
              "{\"\\u0061\":{\"b\":[\"x\",{\"c\":\"two\"}]}}\n",
              "text=a.b.1.c", &f);
    expect_bytes(&f, 0, "in", 2);
    expect_bytes(&f, 1, "two", 3);
    format_close(&f);
    open_json("[\"x\", \"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "text=1", &f);
    expect_bytes(&f, 0, "\"\\/\b\f\n\r\t", 8);
    format_close(&f);
}

Test(format_lines, bad_lines_are_failed_samples) {
    static const struct {
        const char *line, *reason;
        int field;
    } cases[] = {
        {"{\"text\":\"a\"", "column 12: the text ends too early", 0},
        {"{\"text\":\"a}", "the text ends too early", 0},
        {"{\"text\" \"a\"}", "column 9: expected ':'", 0},
        {"{\"text\":\"a\",}", "column 13: expected a key", 0},
        {"{\"text\":\"a\"} x", "column 14: text after the value", 0},
        {"{'text':1}", "column 2: expected a key", 0},
        {"{\"text\":\"a\\x\"}", "an escape that JSON has not", 0},
        {"{\"text\":\"a\\u12g4\"}", "\\u without four hex digits", 0},
        {"{\"text\":\"a\tb\"}", "column 11: a control character in a string", 0},
        {"{\"text\":\"\\ud800\"}", "a surrogate without its other half", 0},
        {"{\"text\":\"\\udc00\"}", "a surrogate without its other half", 0},
        {"{\"text\":\"\xff\"}", "column 10: invalid UTF-8", 0},
        {"{\"text\":7}", "'text' is not a string: 7", 0},
        {"{\"text\":null}", "'text' is not a string: null", 0},
        {"{\"txt\":\"a\"}", "has no 'text'", 0},
        {"\"text\"", "has no 'text'", 0},
        {"{\"text\":\"a\",\"y\":01}", "a number that begins with 0", 0},
        {"{\"text\":\"a\",\"y\":1.}", "expected a digit", 0},
        {"{\"text\":\"a\",\"y\":nul}", "expected a value", 0},
        {"{\"text\":\"a\",\"y\":\"1\"}", "'y' is \"1\", expected a number that i64 can hold", 1},
        {"{\"text\":\"a\",\"y\":1.5}", "'y' is 1.5, expected a number", 1},
        {"{\"text\":\"a\"}", "has no 'y'", 1},
        {"{\"text\":\"a\",\"y\":{\"y\":1}}", "expected a number", 1},
        {"{\"y\":{\"z\":1},\"y\":2,\"text\":[]}", "'text' is not a string: []", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        opened f;
        char text[200];
        snprintf(text, sizeof(text),
                 "{\"text\":\"fine\",\"y\":1}\n%s\n{\"text\":\"too\",\"y\":1}\n", cases[i].line);
        open_json(text, "label=y", &f);
        cr_assert_eq(f.desc.n_samples, 3, "%s", cases[i].line);
        expect_bytes(&f, 0, "fine", 4);
        expect_bad(&f, 1, cases[i].field, cases[i].reason);
        expect_bytes(&f, 2, "too", 3);
        format_close(&f);
    }
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(format_lines, deep_lines) {
    static char text[2000];
    opened f;
    memset(text, '[', 256);
    memset(text + 256, ']', 256);
    strcpy(text + 512, "\n");
    open_json(text, "", &f);
    expect_bad(&f, 0, 0, "has no 'text'");
    format_close(&f);
    memset(text, '[', 257);
    memset(text + 257, ']', 257);
    strcpy(text + 514, "\n");
    open_json(text, "", &f);
    expect_bad(&f, 0, 0, "nested too deeply");
    format_close(&f);
}

Test(format_lines, options_that_are_refused) {
    make_file(folder, "lines", "{}\n", 3);
    const char *path = path_of("lines");
    expect_fails(path, "text=a..b", ITER_EINVAL, "text=a..b", "expected keys between '.'");
    expect_fails(path, "label=.a", ITER_EINVAL, "label=.a", "expected keys between '.'");
    expect_fails(path, "label-dtype=bf16", ITER_EINVAL, "bf16", "expected f32, f64 or an integer");
    expect_fails(path, "pad=256", ITER_EINVAL, "pad=256", "data is bytes");
    expect_fails(path, "vocab=a&index=b", ITER_EINVAL, "vocab", "one is needed");
    expect_fails(path, "vocab=/nowhere", ITER_EIO, "/nowhere", "No such file");
    make_file(folder, "lines", "\n\n", 2);
    expect_fails(path, "", ITER_EFORMAT, "lines", "has no rows");
}

/* Every allocation of opening fails once: an error, and nothing is lost. */
Test(format_lines, without_memory) {
    make_file(folder, "words", "the\nfilm\n", 9);
    make_file(folder, "lines", "{}\n{}\n", 6);
    char options[MAKE_PATH_MAX + 40];
    snprintf(options, sizeof(options), "label=y&vocab=%s", path_of("words"));
    for (long after = 0;; after++) {
        opened f;
        iter_error err = {0};
        iter__alloc_fail_after = after;
        const iter_status s = format_open(&FORMAT, path_of("lines"), options, &f, &err);
        iter__alloc_fail_after = -1;
        if (s == ITER_OK) {
            format_close(&f);
            cr_assert(after > 8);
            break;
        }
        cr_assert_eq(s, ITER_ENOMEM, "%ld: %s", after, err.message);
        cr_assert_eq(iter__alloc_live(), 0);
    }
}
