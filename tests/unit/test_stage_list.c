/*
 * test_stage_list.c - lists of stages from text for any user of tables, checks, and back to text.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/stages.h>

#include "iter/core/alloc.h"
#include "tests/support/sample_ops.h"

static void no_leak(void) {
    if (iter__alloc_live() != 0) abort(); /* abort(): an assertion here would not fail the test */
}

TestSuite(stages, .fini = no_leak, .timeout = 30);

static const iter_ops plain_ops = {.struct_size = sizeof(iter_ops), .name = "plain"};
static const iter_ops *const tables[] = {&sample_ops.base, &plain_ops};

/* The stages handed over, in order. */
typedef struct seen {
    int n, fail_at;
    const iter_ops *ops[8];
    sample_options options[8];
    char word[8][16];
} seen;

static iter_status take(void *user, const iter_ops *ops, const void *options, iter_error *err) {
    seen *s = user;
    if (s->n == s->fail_at) {
        if (err) snprintf(err->message, sizeof(err->message), "%s: not wanted", ops->name);
        if (err) err->status = ITER_EINVAL;
        return ITER_EINVAL;
    }
    s->ops[s->n] = ops;
    if (options) {
        s->options[s->n] = *(const sample_options *)options;
        snprintf(s->word[s->n], sizeof(s->word[0]), "%s", s->options[s->n].word);
    }
    s->n++;
    return ITER_OK;
}

static iter_status parse(const char *text, seen *out, iter_error *err) {
    *out = (seen){.fail_at = -1};
    return iter_stages_parse(text, "layer", tables, 2, take, out, err);
}

Test(stages, are_handed_over_in_order) {
    seen s;
    iter_error err = {0};
    cr_assert_eq(
        parse(" plain | sample:64,mode=edge,mean=1;2,word=\"a|b\" |plain|sample", &s, &err),
        ITER_OK, "%s", err.message);
    cr_assert_eq(s.n, 4);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(s.ops[i], tables[!(i & 1)]);
    cr_expect_eq(s.options[1].size, 64);
    cr_expect_eq(s.options[1].mode, 2);
    cr_expect_eq(s.options[1].mean.n, 2);
    cr_expect_eq(s.options[1].mean.values[1], 2);
    cr_expect_str_eq(s.word[1], "a|b");
    cr_expect_eq(s.options[3].size, 32);
    cr_expect_eq(s.options[3].ratio, 0.5);
    cr_expect_str_eq(s.word[3], "plain");
}

Test(stages, blank_text_is_none) {
    seen s;
    cr_expect_eq(parse("", &s, NULL), ITER_OK);
    cr_expect_eq(parse(" \t\n", &s, NULL), ITER_OK);
    cr_expect_eq(s.n, 0);
}

Test(stages, refusals_say_where) {
    static const struct {
        const char *text, *says;
        int taken;
    } cases[] = {
        {"plain | plan", "column 9: no layer is called 'plan'; there are sample, plain", 1},
        {"plain || plain", "column 8: the name of a layer is missing", 1},
        {"plain |", "column 8: the name of a layer is missing", 1},
        {"| plain", "column 1: the name of a layer is missing", 0},
        {"\xc3\xa4", "column 1:", 0},
        {"plain | :3", "column 9: the name of a layer is missing", 1},
        {"plain:3", "column 7: plain: unnamed argument 1 belongs to no option; it has none", 0},
        {"sample:sise=3", "column 8: sample: unknown option 'sise'; it has size", 0},
        {"sample:size=0", "column 8: sample: size is 0, it may be 1 to 65536", 0},
        {"sample:8,size=9", "column 10: sample: option 'size' is given twice", 0},
        {"sample:word=\"x", "column 13: a quote is opened and never closed", 0},
        {"sample:word=x,ratio=2", "column 15: sample: ratio is 2, it may be 0 to 1", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        seen s;
        iter_error err = {0};
        cr_expect_eq(parse(cases[i].text, &s, &err), ITER_EINVAL, "%s", cases[i].text);
        cr_expect_eq(err.status, ITER_EINVAL);
        cr_expect(strstr(err.message, cases[i].says), "'%s' gives '%s'", cases[i].text,
                  err.message);
        cr_expect_eq(s.n, cases[i].taken);
        cr_expect_eq(parse(cases[i].text, &s, NULL), ITER_EINVAL);
    }
}

Test(stages, the_callers_error_ends_it) {
    seen s = {.fail_at = 1};
    iter_error err = {0};
    cr_expect_eq(
        iter_stages_parse("plain | sample:word=x | plain", "layer", tables, 2, take, &s, &err),
        ITER_EINVAL);
    cr_expect_eq(s.n, 1);
    cr_expect_str_eq(err.message, "column 9: sample: not wanted");
}

Test(stages, missing_arguments_are_refused) {
    seen s = {.fail_at = -1};
    iter_error err = {0};
    cr_expect_eq(iter_stages_parse(NULL, "layer", tables, 2, take, &s, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "layer"), "%s", err.message);
    cr_expect_eq(iter_stages_parse("plain", "layer", NULL, 2, take, &s, &err), ITER_EINVAL);
    cr_expect_eq(iter_stages_parse("plain", NULL, tables, 2, NULL, &s, &err), ITER_EINVAL);
    cr_expect_eq(iter_stage_check(NULL, &s, &err), ITER_EINVAL);
    cr_expect_eq(iter_stage_check(&sample_ops.base, NULL, &err), ITER_EINVAL);
}

Test(stages, values_are_checked) {
    sample_options o = sample_defaults;
    iter_error err = {0};
    cr_expect_eq(iter_stage_check(&sample_ops.base, &o, &err), ITER_OK);
    cr_expect_eq(iter_stage_check(&plain_ops, NULL, &err), ITER_OK);
    o.ratio = 1.5;
    cr_expect_eq(iter_stage_check(&sample_ops.base, &o, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "sample: ratio is 1.5, it may be 0 to 1"), "%s", err.message);
    o.ratio = 1;
    o.mode = 3;
    cr_expect_eq(iter_stage_check(&sample_ops.base, &o, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "sample: mode is 3"), "%s", err.message);
}

Test(stages, text_reads_back) {
    static const char *const texts[] = {"plain", "sample", "sample:size=5,ratio=0.1,word=\"a, b\"",
                                        "sample:flag=true,mode=reflect,mean=1;2.5,dtype=f16"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        seen s;
        char text[128], cut[8];
        cr_assert_eq(parse(texts[i], &s, NULL), ITER_OK);
        s.options[0].word = s.word[0];
        const iter_ops *ops = s.ops[0];
        const int length = iter_stage_text(ops, &s.options[0], text, sizeof(text));
        cr_expect_str_eq(text, texts[i]);
        cr_expect_eq(length, (int)strlen(texts[i]));
        cr_expect_eq(iter_stage_text(ops, &s.options[0], NULL, 0), length);
        cr_expect_eq(iter_stage_text(ops, &s.options[0], cut, sizeof(cut)), length);
        cr_expect_eq(strncmp(cut, texts[i], 7), 0);
        cr_expect_leq(strlen(cut), 7);
    }
}

Test(stages, every_failed_allocation_is_told) {
    for (long n = 0;; n++) {
        seen s;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status status = parse("sample:word=x | plain | sample:path=y,word=z", &s, &err);
        const bool failed = iter__alloc_fail_after == -1;
        iter__alloc_fail_after = -1;
        cr_expect_eq(iter__alloc_live(), 0, "allocation %ld", n);
        if (!failed) {
            cr_expect_eq(status, ITER_OK);
            cr_expect_geq(n, 8);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM, "allocation %ld", n);
        cr_expect(strstr(err.message, "memory"), "%s", err.message);
    }
}
