/*
 * test_options.c - parsing and printing numbers, option rows, copies, structs by size.
 *
 * Expected bits and texts of numbers are those of Python's float() and repr(); the others follow
 * from the rows in sample_ops.h.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/spec/options.h"
#include "tests/support/sample_ops.h"

TestSuite(options, .timeout = 30);

static const iter_ops *const base = &sample_ops.base;

/* ---- Numbers --------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    double value;
} numbers[] = {
    {"0", 0},
    {"-0", -0.0},
    {"1", 1},
    {"+1.5", 1.5},
    {".5", 0.5},
    {"5.", 5},
    {"0.1", 0x1.999999999999ap-4},
    {"1e23", 0x1.52d02c7e14af6p+76},
    {"1E+2", 100},
    {"12.5e-1", 1.25},
    {"000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "0"
     "00000000000000000000000000000000000000000000000000007.25",
     7.25},
    {"9007199254740993", 0x1p+53}, /* half-way, to even */
    {"9007199254740993.00000000000000000001", 0x1.0000000000001p+53},
    {"2.2250738585072011e-308", 0x0.fffffffffffffp-1022},
    {"1.7976931348623157e308", 0x1.fffffffffffffp+1023},
    {"4.9e-324", 0x0.0000000000001p-1022},
    {"1e-400", 0},
    {"0e999999999999999999999", 0},
    {"123456789e-9", 0.123456789},
};

static const char *const not_numbers[] = {"",      " ",     "-",       "+",        ".",   "e5",
                                          "1e",    "1e+",   "1 ",      " 1",       "1,5", "1.2.3",
                                          "0x10",  "inf",   "nan",     "1e309",    "1f",  "--1",
                                          "1e5.5", "1_000", "1.8e308", "infinity", "\t1"};

Test(options, numbers_read_exactly) {
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        double got = 42;
        cr_assert(iter__parse_number(numbers[i].text, &got), "%s", numbers[i].text);
        cr_assert(memcmp(&got, &numbers[i].value, sizeof(got)) == 0, "%s: %a is not %a",
                  numbers[i].text, got, numbers[i].value);
    }
}

Test(options, what_is_no_number_is_refused) {
    for (size_t i = 0; i < sizeof(not_numbers) / sizeof(not_numbers[0]); i++) {
        double got;
        cr_assert_not(iter__parse_number(not_numbers[i], &got), "'%s'", not_numbers[i]);
    }
    char many[200];
    double got;
    memset(many, '1', sizeof(many) - 1);
    many[sizeof(many) - 1] = 0;
    cr_assert_not(iter__parse_number(many, &got));
}

Test(options, numbers_are_written_shortest) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "-0"},
                 {1, "1"},
                 {-2.5, "-2.5"},
                 {0.1, "0.1"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {1.0 / 3, "0.3333333333333333"},
                 {1e-5, "0.00001"},
                 {1e-6, "1e-6"},
                 {1.5e300, "1.5e300"},
                 {1e17, "100000000000000000"},
                 {1e18, "1e18"},
                 {65536, "65536"},
                 {0.491, "0.491"},
                 {0x1.fffffffffffffp+1023, "1.7976931348623157e308"},
                 {-0x0.0000000000001p-1022, "-5e-324"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[32];
        cr_expect_str_eq(iter__number_text(cases[i].value, text), cases[i].text);
    }
}

Test(options, any_bits_survive_text) {
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17; /* xorshift64 */
        double value, back, ours;
        char text[32];
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value)) continue;
        iter__number_text(value, text);
        back = strtod(text, NULL);
        cr_assert(iter__parse_number(text, &ours));
        cr_assert(memcmp(&back, &value, sizeof(back)) == 0, "%a as %s", value, text);
        cr_assert(memcmp(&ours, &value, sizeof(ours)) == 0, "%a as %s", value, text);
    }
}

/* Other locales have other decimal points: German and French a comma, Persian a character of two
 * bytes. */
Test(options, numbers_mean_the_same_in_every_locale) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fa_IR.UTF-8",
                                        "de_DE"};
    int tried = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!setlocale(LC_ALL, names[i]) || strcmp(localeconv()->decimal_point, ".") == 0) continue;
        double got = 0;
        char text[32];
        tried++;
        cr_expect(iter__parse_number("12.75e-1", &got) && got == 1.275, "%s", names[i]);
        cr_expect_not(iter__parse_number("12,75", &got), "%s", names[i]);
        cr_expect_str_eq(iter__number_text(-0.25, text), "-0.25");
        cr_expect_str_eq(iter__number_text(1.5e300, text), "1.5e300");
    }
    setlocale(LC_ALL, "C");
    if (!tried) cr_skip_test("no locale with a decimal comma is installed");
}

/* ---- Rows ------------------------------------------------------------------------------------ */

typedef struct sized {
    const char *text;
    int64_t value;
} sized;

Test(options, whole_numbers_with_suffixes) {
    static const sized good[] = {{"0", 0},
                                 {"-7", -7},
                                 {"+12", 12},
                                 {"3k", 3000},
                                 {"2M", 2000000},
                                 {"1G", 1000000000},
                                 {"4KiB", 4096},
                                 {"32MiB", 33554432},
                                 {"-2GiB", -2147483648},
                                 {"9223372036854775807", INT64_MAX},
                                 {"-9223372036854775808", INT64_MIN}};
    static const char *const bad[] = {
        "",    "-",    "1.5", "1e3", "12x",           "9223372036854775808",
        "3 k", "3K",   "MiB", "0x8", "9000000000GiB", "--1",
        "1kk", "1KiBs"};
    sample_options o;
    iter_error err;
    iter__options_defaults(base, &o);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_eq(iter__options_set(base, &o, "any", 0, good[i].text, &err), ITER_OK, "%s",
                     good[i].text);
        cr_expect_eq(o.any, good[i].value, "%s", good[i].text);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(iter__options_set(base, &o, "any", 0, bad[i], &err), ITER_EINVAL, "%s",
                     bad[i]);
        cr_expect(strstr(err.message, "whole number"), "%s", err.message);
    }
}

/* If a value is nearly a known word, the message names the word. */
Test(options, values_that_are_near) {
    static const struct {
        const char *name, *text, *says;
    } cases[] = {
        {"mode", "Reflect",
         "sample: mode is 'Reflect', it must be one of zero|reflect|edge; did you "
         "mean 'reflect'?"},
        {"mode", "replicate", "one of zero|reflect|edge; did you mean 'edge'?"},
        {"mode", "f32", "one of zero|reflect|edge; did you mean dtype=f32?"},
        {"mode", "blue", "one of zero|reflect|edge"},
        {"dtype", "float", "f16, bf16 or f32; did you mean 'f32'?"},
        {"dtype", "Float32", "; did you mean 'float32'?"},
        {"dtype", "torch.uint8", "; did you mean 'uint8'?"},
        {"dtype", "EDGE", "; did you mean mode=edge?"},
        {"flag", "True", "true, false, yes, no, 1 or 0; did you mean 'true'?"},
        {"flag", "off", "; did you mean 'false'?"},
        {"mean", "0.5, 0.25", "numbers separated by ';'; did you mean 'mean=0.5;0.25'?"},
    };
    sample_options o;
    iter__options_defaults(base, &o);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_error err = {0};
        const char *says = cases[i].says;
        cr_expect_eq(iter__options_set(base, &o, cases[i].name, 0, cases[i].text, &err),
                     ITER_EINVAL);
        const size_t n = strlen(err.message), n_says = strlen(says);
        cr_expect(n >= n_says && strcmp(err.message + n - n_says, says) == 0, "'%s' gives '%s'",
                  cases[i].text, err.message);
    }
}

Test(options, every_type_is_set) {
    sample_options o;
    iter__options_defaults(base, &o);
    cr_expect_eq(o.size, 32);
    cr_expect_str_eq(o.word, "plain");
    cr_assert_eq(iter__options_set(base, &o, "size", 0, "8", NULL), ITER_OK);
    cr_assert_eq(iter__options_set(base, &o, "flag", 0, "yes", NULL), ITER_OK);
    cr_assert_eq(iter__options_set(base, &o, "ratio", 0, "0.25", NULL), ITER_OK);
    cr_assert_eq(iter__options_set(base, &o, NULL, 2, "a b.txt", NULL), ITER_OK);
    cr_assert_eq(iter__options_set(base, &o, "word", 0, "", NULL), ITER_OK);
    cr_assert_eq(iter__options_set(base, &o, "word", 0, "two", NULL), ITER_OK);
    cr_assert_eq(iter__options_set(base, &o, "mode", 0, "edge", NULL), ITER_OK);
    cr_assert_eq(iter__options_set(base, &o, "mean", 0, "1; 2.5 ;-3", NULL), ITER_OK);
    cr_assert_eq(iter__options_set(base, &o, "dtype", 0, "bf16", NULL), ITER_OK);
    cr_expect_eq(o.size, 8);
    cr_expect(o.flag);
    cr_expect_eq(o.ratio, 0.25);
    cr_expect_str_eq(o.path, "a b.txt");
    cr_expect_str_eq(o.word, "two");
    cr_expect_eq(o.mode, 2);
    cr_expect_eq(o.mean.n, 3);
    cr_expect(o.mean.values[0] == 1 && o.mean.values[1] == 2.5 && o.mean.values[2] == -3);
    cr_expect_eq(o.dtype, ITER_BF16);
    iter__options_free(base, &o);
    cr_expect_str_eq(o.word, "plain");
    cr_expect_eq(iter__alloc_live(), 0);
}

typedef struct refusal {
    const char *name;
    int positional;
    const char *text, *says;
} refusal;

Test(options, a_dash_may_be_given_as_an_underscore) {
    typedef struct two_options {
        int64_t top_left, bottom_right;
    } two_options;
    static const iter_option rows[] = {ITER_ROW_INT("top-left", "", two_options, top_left, 0, 9, 0),
                                       ITER_ROW_INT("bottom_right", "of a table that names it so",
                                                    two_options, bottom_right, 0, 9, 0),
                                       ITER_ROW_END};
    const iter_ops ops = {.struct_size = sizeof(iter_ops),
                          .name = "two",
                          .options = rows,
                          .options_size = sizeof(two_options)};
    static const struct {
        const char *first, *second;
    } given[] = {{"top-left", "bottom-right"}, {"top_left", "bottom_right"}};
    static const char *const refused[] = {"top", "top-", "top-left-", "topleft", "top left", "_"};
    char text[64];
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        two_options o = {0, 0};
        cr_expect_eq(iter__options_set(&ops, &o, given[i].first, 0, "3", NULL), ITER_OK);
        cr_expect_eq(iter__options_set(&ops, &o, given[i].second, 0, "4", NULL), ITER_OK);
        cr_expect_eq(o.top_left, 3);
        cr_expect_eq(o.bottom_right, 4);
        iter__options_text(&ops, &o, ',', text, sizeof(text));
        cr_expect_str_eq(text, "top-left=3,bottom_right=4", "the table's own spelling");
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        cr_expect_null(iter__options_find(&ops, refused[i], 0), "'%s'", refused[i]);
}

Test(options, refusals_name_option_value_and_bounds) {
    static const refusal cases[] = {
        {"size", 0, "0", "sample: size is 0, it may be 1 to 65536"},
        {"size", 0, "65537", "1 to 65536"},
        {"ratio", 0, "1.01", "ratio is 1.01, it may be 0 to 1"},
        {"ratio", 0, "half", "ratio is 'half', it must be a number"},
        {"flag", 0, "maybe", "flag is 'maybe'"},
        {"mode", 0, "mirror", "mode is 'mirror', it must be one of zero|reflect|edge"},
        {"mode", 0, "", "one of"},
        {"mode", 0, "zero|reflect", "one of"},
        {"mean", 0, "1;;2", "numbers separated by ';'"},
        {"mean", 0, "", "numbers separated by ';'"},
        {"mean", 0, "1;", "numbers separated by ';'"},
        {"mean", 0, "1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17", "more than 16"},
        {"dtype", 0, "f31", "element type"},
        {"sise", 0, "3",
         "sample: unknown option 'sise'; it has size, flag, ratio, path, word, mode, mean, dtype, "
         "any; did you mean 'size'?"},
        {NULL, 3, "3", "unnamed argument 3"},
    };
    sample_options o, before;
    memset(&o, 0, sizeof(o));
    iter__options_defaults(base, &o);
    before = o;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_error err = {0};
        const refusal *c = &cases[i];
        cr_expect_eq(iter__options_set(base, &o, c->name, c->positional, c->text, &err),
                     ITER_EINVAL);
        cr_expect_eq(err.status, ITER_EINVAL);
        cr_expect(strstr(err.message, c->says), "'%s' does not say '%s'", err.message, c->says);
        cr_expect(memcmp(&o, &before, sizeof(o)) == 0, "%s changed something", c->text);
    }
    iter_error err;
    cr_expect_eq(iter__options_set(&bare_ops.base, NULL, "x", 0, "1", &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "it has none"), "%s", err.message);
}

/* Structs that a program fills in go through the same bounds. */
Test(options, typed_values_are_checked) {
    iter_error err;
    sample_options o = sample_defaults;
    cr_expect_eq(iter__options_check(base, &o, NULL), ITER_OK);
    o.size = 70000;
    cr_expect_eq(iter__options_check(base, &o, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "size is 70000, it may be 1 to 65536"), "%s", err.message);
    o = sample_defaults, o.ratio = NAN;
    cr_expect_eq(iter__options_check(base, &o, NULL), ITER_EINVAL);
    o = sample_defaults, o.mode = 3;
    cr_expect_eq(iter__options_check(base, &o, NULL), ITER_EINVAL);
    o = sample_defaults, o.mode = -1;
    cr_expect_eq(iter__options_check(base, &o, NULL), ITER_EINVAL);
    o = sample_defaults, o.dtype = 99;
    cr_expect_eq(iter__options_check(base, &o, NULL), ITER_EINVAL);
    o = sample_defaults, o.mean.n = 17;
    cr_expect_eq(iter__options_check(base, &o, NULL), ITER_EINVAL);
    o = sample_defaults, o.mean.n = -1;
    cr_expect_eq(iter__options_check(base, &o, NULL), ITER_EINVAL);
    o = sample_defaults, o.mean.n = 1, o.mean.values[0] = INFINITY;
    cr_expect_eq(iter__options_check(base, &o, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "mean is inf, it must be finite"), "%s", err.message);
    o = sample_defaults, o.word = NULL; /* not given */
    cr_expect_eq(iter__options_check(base, &o, NULL), ITER_OK);
}

Test(options, copies_are_deep_and_give_everything_back) {
    char path[] = "here", word[] = "there";
    sample_options o = sample_defaults, copy;
    o.path = path, o.word = word, o.mean.n = 2, o.mean.values[1] = 7;
    cr_assert_eq(iter__options_dup(base, &copy, &o, NULL), ITER_OK);
    memset(path, 'x', 4), memset(word, 'y', 5);
    cr_expect_str_eq(copy.path, "here");
    cr_expect_str_eq(copy.word, "there");
    cr_expect_eq(copy.mean.values[1], 7);
    iter__options_free(base, &copy);

    o.word = NULL; /* not given: the default */
    cr_assert_eq(iter__options_dup(base, &copy, &o, NULL), ITER_OK);
    cr_expect_eq(copy.word, sample_defaults.word);
    iter__options_free(base, &copy);
    cr_expect_eq(iter__alloc_live(), 0);
}

Test(options, a_copy_survives_every_allocation_failure) {
    sample_options o = sample_defaults, copy;
    o.path = "a", o.word = "b";
    for (long n = 0;; n++) {
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status status = iter__options_dup(base, &copy, &o, &err);
        iter__alloc_fail_after = -1;
        if (status == ITER_OK) {
            cr_expect_eq(n, 2);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM);
        cr_assert_eq(iter__alloc_live(), 0, "failure %ld", n);
    }
    iter__options_free(base, &copy);
    cr_expect_eq(iter__alloc_live(), 0);
}

Test(options, text_is_what_differs) {
    char text[400];
    sample_options o = sample_defaults;
    cr_expect_eq(iter__options_text(base, &o, ',', text, sizeof(text)), 0);
    cr_expect_str_eq(text, "");
    o.size = 8, o.flag = true, o.ratio = 0.1, o.path = "a,b|c \"d\" \\e", o.word = "", o.mode = 1;
    o.mean.n = 2, o.mean.values[0] = 0.5, o.mean.values[1] = -1e30, o.dtype = ITER_F16, o.any = 0;
    const char *want = "size=8,flag=true,ratio=0.1,path=\"a,b|c \\\"d\\\" \\\\e\",word=\"\","
                       "mode=reflect,mean=0.5;-1e30,dtype=f16,any=0";
    cr_expect_eq(iter__options_text(base, &o, ',', text, sizeof(text)), (int)strlen(want));
    cr_expect_str_eq(text, want);
    cr_expect_eq(iter__options_text(base, &o, '&', text, 11), (int)strlen(want));
    cr_expect_str_eq(text, "size=8&fla");
    cr_expect_eq(iter__options_text(base, &o, ',', NULL, 0), (int)strlen(want));
}

/* ---- Structs that begin with their size ------------------------------------------------------ */

typedef struct versioned {
    size_t struct_size;
    int32_t a, b;
    int64_t later;
} versioned;

Test(options, structs_of_other_versions) {
    iter_error err;
    versioned mine, theirs = {sizeof(theirs), 1, 2, 3};
    const size_t old_size = offsetof(versioned, later);

    cr_expect_eq(iter__options_copy(&mine, sizeof(mine), &theirs, old_size, NULL), ITER_OK);
    cr_expect(mine.a == 1 && mine.b == 2 && mine.later == 3);
    theirs.struct_size = old_size; /* an older caller */
    cr_expect_eq(iter__options_copy(&mine, sizeof(mine), &theirs, old_size, NULL), ITER_OK);
    cr_expect(mine.a == 1 && mine.b == 2 && mine.later == 0);
    theirs.struct_size = old_size - 4;
    cr_expect_eq(iter__options_copy(&mine, sizeof(mine), &theirs, old_size, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "struct_size is 12, need at least 16"), "%s", err.message);

    theirs.struct_size = sizeof(theirs); /* a newer caller that sets members unknown here */
    cr_expect_eq(iter__options_copy(&mine, old_size, &theirs, old_size, &err), ITER_EUNSUPPORTED);
    cr_expect(strstr(err.message, "byte 16"), "%s", err.message);
    theirs.later = 0;
    cr_expect_eq(iter__options_copy(&mine, old_size, &theirs, old_size, NULL), ITER_OK);

    theirs.struct_size = (size_t)-1; /* never initialised */
    cr_expect_eq(iter__options_copy(&mine, sizeof(mine), &theirs, old_size, NULL), ITER_EINVAL);
    mine.a = 5;
    cr_expect_eq(iter__options_copy(&mine, sizeof(mine), NULL, old_size, NULL), ITER_OK);
    cr_expect(mine.a == 0 && mine.struct_size == 0);
}
