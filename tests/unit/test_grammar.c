/*
 * test_grammar.c - docs/grammar.md, both ways: what is accepted, and what is refused at which
 * column.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/spec/grammar.h"
#include "iter/spec/options.h"
#include "tests/support/sample_ops.h"
#include <iter/option_rows.h>

TestSuite(grammar, .timeout = 30);

/* The call as one line: name<path>[column:key=value]... */
static void flatten(const iter__grammar_call *call, char *out, size_t capacity) {
    size_t n = (size_t)snprintf(out, capacity, "%s", call->name);
    if (call->path) n += (size_t)snprintf(out + n, capacity - n, "<%s>", call->path);
    for (int i = 0; i < call->n_args && n < capacity; i++)
        n += (size_t)snprintf(out + n, capacity - n, "[%d:%s=%s]", call->args[i].column,
                              call->args[i].key ? call->args[i].key : "", call->args[i].value);
}

typedef struct reading {
    const char *text, *means;
} reading;

static const reading datasets[] = {
    {"cifar10:", "cifar10<>"},
    {"synthetic:cifar10", "synthetic<cifar10>"},
    {"cifar10:data/cifar-10-batches-bin?split=train",
     "cifar10<data/cifar-10-batches-bin>[35:split=train]"},
    {"npy:a:b=c&d|e,f.npy", "npy<a:b=c&d|e,f.npy>"},
    {"npy:C:\\x\\y", "npy<C:\\x\\y>"},
    {"npy: a b ?label= c d &n=1", "npy< a b >[11:label= c d ][23:n=1]"},
    {"npy:\"what?.npy\"?label=\"a&b\\\"\\\\\"&n=3", "npy<what?.npy>[17:label=a&b\"\\][33:n=3]"},
    {"npy:\"\"", "npy<>"},
    {"npy:x?label=", "npy<x>[7:label=]"},
    {"npy:x?label=a?b=c", "npy<x>[7:label=a?b=c]"},
    {"CIFAR10:x", "CIFAR10<x>"}, /* accepted, so that the caller can suggest what is meant */
    {"imdb:\xc3\xa4\xe2\x82\xac?num_words=5", "imdb<\xc3\xa4\xe2\x82\xac>[9:num_words=5]"},
};

static const reading stages[] = {
    {"random-flip", "random-flip"},
    {"  random-flip \n", "random-flip"},
    {"to:f32,nchw", "to[4:=f32][8:=nchw]"},
    {"crop : size = 32 , pad=4 ", "crop[8:size=32][20:pad=4]"},
    {"normalize:mean=0.491;0.482,std=0.2", "normalize[11:mean=0.491;0.482][28:std=0.2]"},
    {"a:b=c=d", "a[3:b=c=d]"},
    {"a:\"x|y,z\", k = \"q\"", "a[3:=x|y,z][12:k=q]"},
    {"a:\"\"", "a[3:=]"},
    {"a:k=", "a[3:k=]"},
    {"a:two words", "a[3:=two words]"},
    {"a:=5", "a[3:==5]"},
    {"random_crop:3", "random_crop[13:=3]"},
    {"transforms.RandomCrop:3", "transforms.RandomCrop[23:=3]"},
};

static const reading bad_datasets[] = {
    {"", "column 1: the name of a dataset is missing"},
    {":x", "column 1: the name of a dataset is missing"},
    {"?CIFAR10:x", "column 1: the name"},
    {"train.npy", "column 10: expected ':'"},
    {"cifar10", "column 8: expected ':'"},
    {"data/cifar", "column 5: expected ':'"},
    {"npy:x?", "column 7: npy: an option is written key=value"},
    {"npy:x?n=1&", "column 11: npy: an option is written key=value"},
    {"npy:x?n=1&&m=2", "column 11: npy: an option"},
    {"npy:x?shuffle", "column 7: npy: an option is written key=value"},
    {"npy:\"x", "column 5: a quote is opened and never closed"},
    {"npy:x?n=\"abc", "column 9: a quote is opened and never closed"},
    {"npy:\"x\"y", "column 8: npy: expected '?' or the end after a quoted path"},
    {"npy:x\"y\"", "column 6: a quote inside a value"},
    {"npy:x?n=\"a\"b", "column 12: npy: expected '&' or the end after a quoted value"},
    {"npy:\"a\\n\"", "column 7: in quotes"},
    {"npy:\"a\\", "column 7: in quotes"},
    {"npy:\xc3\xa4?n", "column 7: npy: an option"},
};

static const reading bad_stages[] = {
    {"", "column 1: the name of a stage is missing"},
    {"  ", "column 3: the name of a stage is missing"},
    {"| a", "column 1: the name of a stage is missing"},
    {"random+crop", "column 7: random: expected ':', '|' or the end after the name"},
    {"RandomCrop(32, padding=4)", "column 11: RandomCrop: options follow ':', without brackets"},
    {"a b", "column 3: a: expected ':'"},
    {"a:", "column 3: a: an argument is missing"},
    {"a:1,", "column 5: a: an argument is missing"},
    {"a:1,,2", "column 5: a: an argument is missing"},
    {"a:\"x\"y", "column 6: a: expected ',' or the end after a quoted value"},
    {"a:k=\"x", "column 5: a quote is opened and never closed"},
    {"a:x\"y\"", "column 4: a quote inside a value"},
};

static iter_status parse(const reading *r, bool stage, iter__grammar_call *call, char **block,
                         iter_error *err) {
    const char *cursor = r->text;
    if (!stage) return iter__grammar_dataset(r->text, call, block, err);
    return iter__grammar_stage(r->text, &cursor, call, block, err);
}

static void check_good(const reading *r, bool stage) {
    iter__grammar_call call;
    iter_error err = {0};
    char *block, line[400];
    cr_assert_eq(parse(r, stage, &call, &block, &err), ITER_OK, "%s: %s", r->text, err.message);
    flatten(&call, line, sizeof(line));
    cr_expect_str_eq(line, r->means);
    iter__free(block);
    cr_assert_eq(iter__alloc_live(), 0);
}

static void check_bad(const reading *r, bool stage) {
    iter__grammar_call call;
    iter_error err = {0};
    char *block;
    cr_expect_eq(parse(r, stage, &call, &block, &err), ITER_EINVAL, "%s", r->text);
    cr_expect_null(block);
    cr_expect(strncmp(err.message, r->means, strlen(r->means)) == 0, "'%s' gives '%s', not '%s'",
              r->text, err.message, r->means);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(grammar, datasets) {
    for (size_t i = 0; i < sizeof(datasets) / sizeof(datasets[0]); i++)
        check_good(&datasets[i], false);
    for (size_t i = 0; i < sizeof(bad_datasets) / sizeof(bad_datasets[0]); i++)
        check_bad(&bad_datasets[i], false);
}

Test(grammar, stages) {
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        check_good(&stages[i], true);
    for (size_t i = 0; i < sizeof(bad_stages) / sizeof(bad_stages[0]); i++)
        check_bad(&bad_stages[i], true);
}

Test(grammar, a_cursor_walks_the_stages) {
    const char *text = "a:1 | b:\"|\",k=2|c", *cursor = text;
    static const char *const want[] = {"a[3:=1]", "b[9:=|][13:k=2]", "c"};
    static const int columns[] = {1, 7, 17};
    for (int i = 0; i < 3; i++) {
        iter__grammar_call call;
        char *block, line[100];
        cr_assert_not_null(cursor);
        cr_assert_eq(iter__grammar_stage(text, &cursor, &call, &block, NULL), ITER_OK);
        flatten(&call, line, sizeof(line));
        cr_expect_str_eq(line, want[i]);
        cr_expect_eq(call.column, columns[i]);
        iter__free(block);
    }
    cr_expect_null(cursor);
}

Test(grammar, arguments_are_limited) {
    char text[200] = "a:1", *block;
    iter__grammar_call call;
    iter_error err;
    for (int i = 1; i < ITER_GRAMMAR_ARGS; i++)
        strcat(text, ",1");
    const char *cursor = text;
    cr_assert_eq(iter__grammar_stage(text, &cursor, &call, &block, NULL), ITER_OK);
    cr_expect_eq(call.n_args, ITER_GRAMMAR_ARGS);
    iter__free(block);
    strcat(text, ",1");
    cursor = text;
    cr_assert_eq(iter__grammar_stage(text, &cursor, &call, &block, &err), ITER_EINVAL);
    cr_expect_str_eq(err.message, "column 67: a: more than 32 arguments");
}

static iter_status apply(const char *text, const iter_ops *ops, void *values, const char *skip,
                         iter_error *err) {
    iter__grammar_call call;
    const char *cursor = text;
    char *block;
    const iter_status status = iter__grammar_stage(text, &cursor, &call, &block, err);
    if (status < 0) return status;
    const iter_status applied = iter__grammar_apply(&call, ops, values, skip, err);
    iter__free(block);
    return applied;
}

Test(grammar, arguments_become_options) {
    sample_options o;
    cr_assert_eq(apply("sample:mode=edge,64,field=x,\"a, b\",ratio=.25", &sample_ops.base, &o,
                       "field", NULL),
                 ITER_OK);
    cr_expect_eq(o.size, 64);
    cr_expect_str_eq(o.path, "a, b");
    cr_expect_eq(o.mode, 2);
    cr_expect_eq(o.ratio, 0.25);
    cr_expect_str_eq(o.word, "plain");
    iter__options_free(&sample_ops.base, &o);
    cr_expect_eq(iter__alloc_live(), 0);
}

Test(grammar, refused_arguments_name_their_column) {
    static const reading cases[] = {
        {"sample:size=3, sise=4", "column 16: sample: unknown option 'sise'; it has size, flag"},
        {"sample:field=x", "column 8: sample: unknown option 'field'"},
        {"sample:size=3,size=3", "column 15: sample: option 'size' is given twice"},
        {"sample:3,word=a,size=3", "column 17: sample: option 'size' is given twice"},
        {"sample:size=3,3", "column 15: sample: option 'size' is given twice"},
        {"sample:path=a,word=b,size=0", "column 22: sample: size is 0, it may be 1 to 65536"},
        {"sample:1,b,c", "column 12: sample: unnamed argument 3 belongs to no option"},
        {"sample:mean=0.5,0.5,0.25",
         "column 8: sample: the numbers of a list are separated by ';': mean=0.5;0.5;0.25"},
        {"sample:3,mean=(1, 2 ,-3),ratio=0.5",
         "column 10: sample: the numbers of a list are separated by ';': mean=1;2;-3"},
        {"sample:mean=[1],size=0", "column 8: sample: mean is '[1]', it must be numbers separated "
                                   "by ';'; did you mean 'mean=1'?"},
        {"sample:mean=1,x", "column 15: sample: size is 'x'"}, /* not a number, so not a list */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sample_options o;
        iter_error err = {0};
        cr_expect_eq(apply(cases[i].text, &sample_ops.base, &o, NULL, &err), ITER_EINVAL);
        cr_expect(strncmp(err.message, cases[i].means, strlen(cases[i].means)) == 0,
                  "'%s' gives '%s'", cases[i].text, err.message);
        cr_expect_eq(iter__alloc_live(), 0, "%s", cases[i].text);
    }
    iter_error err;
    sample_options o;
    cr_expect_eq(apply("sample:field=a,field=b", &sample_ops.base, &o, "field", &err), ITER_EINVAL);
    cr_expect_str_eq(err.message, "column 16: sample: option 'field' is given twice");
    cr_expect_eq(apply("sample:size=0", &sample_ops.base, &o, NULL, NULL), ITER_EINVAL);
    cr_expect_eq(apply("sample:filed=a", &sample_ops.base, &o, "field", &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "; did you mean 'field'?"), "%s", err.message);
}

/* Unnamed numbers, one more than there are options for them. */
typedef struct lists {
    iter_option_list mean, std;
} lists;

Test(grammar, lists_take_semicolons) {
    static const iter_option rows[] = {
        {"mean", "", ITER_OPTION_LIST, offsetof(lists, mean), 0, 0, NULL, 1},
        {"std", "", ITER_OPTION_LIST, offsetof(lists, std), 0, 0, NULL, 2},
        {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0},
    };
    const iter_ops ops = {.struct_size = sizeof(ops),
                          .name = "lists",
                          .options = rows,
                          .options_size = sizeof(lists)};
    static const reading bad[] = {
        {"lists:1,2,3",
         "column 11: lists: unnamed argument 3 belongs to no option; the numbers of a "
         "list are separated by ';': mean=1;2;3"},
        {"lists:1,2,x", "column 11: lists: unnamed argument 3 belongs to no option; it has mean"},
        {"lists:std=1,2", "column 7: lists: the numbers of a list are separated by ';': std=1;2"},
        {"lists:mean=\"1,2\"",
         "column 7: lists: mean is '1,2', it must be numbers separated by ';'; "
         "did you mean 'mean=1;2'?"},
        {"lists:mean=1 2 3",
         "column 7: lists: mean is '1 2 3', it must be numbers separated by ';'; "
         "did you mean 'mean=1;2;3'?"},
        {"lists:mean=a;b", "column 7: lists: mean is 'a;b', it must be numbers separated by ';'"},
    };
    lists l;
    iter_error err;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(apply(bad[i].text, &ops, &l, NULL, &err), ITER_EINVAL, "%s", bad[i].text);
        cr_expect(strncmp(err.message, bad[i].means, strlen(bad[i].means)) == 0, "'%s' gives '%s'",
                  bad[i].text, err.message);
    }
    cr_assert_eq(apply("lists:1;2,3", &ops, &l, NULL, &err), ITER_OK, "%s", err.message);
    cr_expect(l.mean.n == 2 && l.std.n == 1 && l.std.values[0] == 3);
    cr_assert_eq(apply("lists:1;2,std=3", &ops, &l, NULL, &err), ITER_OK, "%s", err.message);
}

/* Arguments that have an integer as name join in one option, which is written back by its name. */
Test(grammar, numbered_arguments_join) {
    typedef struct counts_options {
        const char *counts;
        int64_t others;
    } counts_options;
    static const iter_option rows[] = {
        ITER_ROW_NUMBERED("counts", "NUMBER=COUNT", counts_options, counts, 1),
        ITER_ROW_INT("others", "of the rest", counts_options, others, 0, 100, 0),
        ITER_ROW_END,
    };
    static const counts_options defaults = {NULL, 1};
    static const iter_ops ops = {.struct_size = sizeof(iter_ops),
                                 .name = "counts",
                                 .options = rows,
                                 .defaults = &defaults,
                                 .options_size = sizeof(counts_options)};
    static const struct {
        const char *text, *counts;
        int64_t others;
        const char *written;
    } cases[] = {
        {"counts:3=10,7=2", "3=10 7=2", 1, "counts=\"3=10 7=2\""},
        {"counts: 3 = 10 ,others=4, -7=2", "3=10 -7=2", 4, "counts=\"3=10 -7=2\",others=4"},
        {"counts:\"3=10 7=2\"", "3=10 7=2", 1, "counts=\"3=10 7=2\""},
        {"counts:counts=3=10 7=2", "3=10 7=2", 1, "counts=\"3=10 7=2\""},
        {"counts:others=0", NULL, 0, "others=0"},
    };
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"counts:counts=3=1,7=2", "column 19: counts: option 'counts' is given twice"},
        {"counts:7=2,\"3=1\"", "column 8: counts: option 'counts' is given twice"},
        {"counts:a3=1", "column 8: counts: unknown option 'a3'"},
        {"counts:-=1", "column 8: counts: unknown option '-'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        counts_options o;
        iter_error err = {0};
        char text[64];
        cr_assert_eq(apply(cases[i].text, &ops, &o, NULL, &err), ITER_OK, "%s", err.message);
        cr_expect(cases[i].counts ? o.counts && strcmp(o.counts, cases[i].counts) == 0 : !o.counts,
                  "%s", o.counts);
        cr_expect_eq(o.others, cases[i].others);
        iter__options_text(&ops, &o, ',', text, sizeof(text));
        cr_expect_str_eq(text, cases[i].written);
        iter__options_free(&ops, &o);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        counts_options o;
        iter_error err = {0};
        cr_expect_eq(apply(bad[i].text, &ops, &o, NULL, &err), ITER_EINVAL);
        cr_expect_eq(strncmp(err.message, bad[i].says, strlen(bad[i].says)), 0, "%s", err.message);
    }
    for (long n = 0;; n++) {
        counts_options o;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status status = apply("counts:3=1,4=1", &ops, &o, NULL, &err);
        iter__alloc_fail_after = -1;
        if (status == ITER_OK) iter__options_free(&ops, &o);
        cr_assert_eq(iter__alloc_live(), 0, "failure %ld", n);
        if (status == ITER_OK) break;
        cr_assert_eq(status, ITER_ENOMEM);
    }
}

Test(grammar, every_allocation_failure_is_clean) {
    for (long n = 0;; n++) {
        sample_options o;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status status = apply("sample:path=a,word=b", &sample_ops.base, &o, NULL, &err);
        iter__alloc_fail_after = -1;
        if (status == ITER_OK) {
            iter__options_free(&sample_ops.base, &o);
            cr_expect_eq(n, 3);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM);
        cr_assert_eq(iter__alloc_live(), 0, "failure %ld", n);
    }
    cr_expect_eq(iter__alloc_live(), 0);
}
