/*
 * test_chain.c - chains from text and by calls, their text, what stages keep, freezing, references.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/spec/chain.h"
#include "tests/support/sample_ops.h"

static iter_registry *registry;

static void make_registry(void) {
    iter_error err;
    if (iter_registry_create(&registry, &err) < 0 ||
        iter_registry_add_transform(registry, &sample_ops, &err) < 0 ||
        iter_registry_add_transform(registry, &bare_ops, &err) < 0)
        abort();
}

static void free_registry(void) {
    iter_registry_destroy(registry);
    if (iter__alloc_live() != 0) abort(); /* abort(): an assertion here would not fail the test */
}

TestSuite(chain, .init = make_registry, .fini = free_registry, .timeout = 30);

static iter_chain *parsed(const char *text) {
    iter_chain *chain;
    iter_error err = {0};
    cr_assert_eq(iter_chain_parse(text, registry, &chain, &err), ITER_OK, "%s: %s", text,
                 err.message);
    return chain;
}

static const sample_options *options_of(const iter_chain *chain, int32_t i) {
    return iter__chain_stage(chain, i)->options;
}

Test(chain, stages_hold_what_was_said) {
    iter_chain *chain =
        parsed("sample:16,mean=0.5;1 | bare | sample:field=label,mode=edge |bare:field=\"a b\"");
    cr_assert_eq(iter__chain_n_stages(chain), 4);
    static const uint32_t occurrences[] = {0, 0, 1, 1};
    static const char *const fields[] = {"", "", "label", "a b"};
    for (int32_t i = 0; i < 4; i++) {
        const iter__stage *stage = iter__chain_stage(chain, i);
        cr_expect_eq(stage->ops, i % 2 ? &bare_ops : &sample_ops);
        cr_expect_eq(stage->occurrence, occurrences[i]);
        cr_expect_str_eq(stage->field, fields[i]);
    }
    cr_expect_eq(options_of(chain, 0)->size, 16);
    cr_expect_eq(options_of(chain, 0)->mean.n, 2);
    cr_expect_eq(options_of(chain, 2)->size, 32);
    cr_expect_eq(options_of(chain, 2)->mode, 2);
    cr_expect_str_eq(iter_chain_text(chain),
                     "sample:size=16,mean=0.5;1 | bare | sample:mode=edge,field=label | "
                     "bare:field=\"a b\"");
    iter_chain_unref(chain);
}

Test(chain, text_reads_back_to_itself) {
    static const char *const texts[] = {
        "",
        " \n ",
        "bare",
        "bare:field=label",
        "sample:size=32",
        "sample:8,\"x|y\"",
        "sample:ratio=0.30000000000000004,mean=-0;1e-300;123456789.125",
        "sample:word=\"\",path=\"\\\"\\\\ ,\"|sample:flag=1,dtype=uint8,any=-5MiB",
        "sample:word=\xc3\xa4 \xe2\x82\xac | bare | bare | bare",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        iter_chain *first = parsed(texts[i]);
        iter_chain *second = parsed(iter_chain_text(first));
        cr_expect_str_eq(iter_chain_text(first), iter_chain_text(second));
        cr_assert_eq(iter__chain_n_stages(first), iter__chain_n_stages(second));
        for (int32_t s = 0; s < iter__chain_n_stages(first); s++) {
            const sample_options *a = options_of(first, s), *b = options_of(second, s);
            if (!a) continue;
            cr_expect(a->size == b->size && a->flag == b->flag && a->ratio == b->ratio &&
                      a->mode == b->mode && a->dtype == b->dtype && a->any == b->any);
            cr_expect(memcmp(&a->mean, &b->mean, sizeof(a->mean)) == 0);
            cr_expect_str_eq(a->word, b->word);
            cr_expect_str_eq(a->path ? a->path : "-", b->path ? b->path : "-");
        }
        iter_chain_unref(first);
        iter_chain_unref(second);
    }
}

Test(chain, the_default_given_is_the_default) {
    iter_chain *chain = parsed("sample:size=32,word=plain,flag=no");
    cr_expect_str_eq(iter_chain_text(chain), "sample");
    iter_chain_unref(chain);
}

Test(chain, refusals_name_stage_and_column) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"bare | nosuch:3", "chain: column 8: no stage is called 'nosuch'"},
        {"baer", "chain: column 1: no stage is called 'baer'; did you mean 'bare'?"},
        {"bare | sample:sise=3",
         "chain: column 15: sample: unknown option 'sise'; it has size, flag"},
        {"sample:size=0", "chain: column 8: sample: size is 0, it may be 1 to 65536"},
        {"bare | Baer", "chain: column 8: no stage is called 'Baer'; did you mean 'bare'?"},
        {"RandomCrop:32", "chain: column 1: no stage is called 'RandomCrop'; did you mean "
                          "'random-crop'?"},
        {"one_hot:10", "chain: column 1: no stage is called 'one_hot'; did you mean 'one-hot'?"},
        {"random-crop:32,padding=4", "chain: column 16: random-crop: unknown option 'padding'; it "
                                     "has size, height, width, pad, "
                                     "fill, mode; did you mean 'pad'?"},
        {"to:f32,NCHW", "chain: column 8: to: layout is 'NCHW', it must be one of "
                        "keep|nchw|nhwc|chw|hwc; did you mean 'nchw'?"},
        {"normalize:mean=0.5,0.5,0.5", "chain: column 11: normalize: the numbers of a list are "
                                       "separated by ';': mean=0.5;0.5;0.5"},
        {"bare || bare", "chain: column 7: the name of a stage is missing"},
        {"bare |", "chain: column 7: the name of a stage is missing"},
        {"| bare", "chain: column 1: the name of a stage is missing"},
        {"bare:3", "chain: column 6: bare: unnamed argument 1 belongs to no option; it has none"},
        {"bare:field=", "chain: column 6: bare: field is ''"},
        {"bare:field=a-name-that-has-32-characters-xyz", "1 to 31 characters"},
        {"bare:field=a,field=b", "chain: column 14: bare: option 'field' is given twice"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_chain *chain = (iter_chain *)&registry;
        iter_error err = {0};
        cr_expect_eq(iter_chain_parse(cases[i].text, registry, &chain, &err), ITER_EINVAL, "%s",
                     cases[i].text);
        cr_expect_null(chain);
        cr_expect_eq(err.status, ITER_EINVAL);
        cr_expect(strstr(err.message, cases[i].says), "'%s' gives '%s'", cases[i].text,
                  err.message);
    }
    iter_chain *chain;
    cr_expect_eq(iter_chain_parse("sample", NULL, &chain, NULL), ITER_EINVAL);
    cr_expect_eq(iter_chain_parse(NULL, NULL, &chain, NULL), ITER_EINVAL);
}

Test(chain, by_calls_as_by_text) {
    iter_chain *chain, *same = parsed("sample:16,word=w,path=p,field=label | bare | sample:size=8");
    iter_error err = {0};
    char word[] = "w", path[] = "p";
    sample_options o = sample_defaults;
    o.size = 16, o.word = word, o.path = path;
    cr_assert_eq(iter_chain_create(&chain, NULL), ITER_OK);
    cr_expect_str_eq(iter_chain_text(chain), "");
    cr_assert_eq(iter_chain_add(chain, NULL, &sample_ops, "label", &o, sizeof(o), &err), ITER_OK,
                 "%s", err.message);
    word[0] = 'x', path[0] = 'x'; /* copied */
    cr_assert_eq(iter_chain_add(chain, "ignored", &bare_ops, NULL, NULL, 0, &err), ITER_OK);
    cr_assert_eq(iter_chain_add_text(chain, registry, "sample:8", &err), ITER_OK);
    cr_expect_str_eq(iter_chain_text(chain), iter_chain_text(same));
    cr_expect_str_eq(options_of(chain, 0)->word, "w");
    cr_expect_eq(iter__chain_stage(chain, 2)->occurrence, 1);
    iter_chain_unref(chain);
    iter_chain_unref(same);
}

Test(chain, what_cannot_be_added_changes_nothing) {
    iter_chain *chain = parsed("bare");
    iter_error err;
    sample_options o = sample_defaults;
    iter_transform_ops broken = sample_ops;
    broken.plan = NULL;
#define REFUSED(call, says)                                                                \
    do {                                                                                   \
        cr_expect_eq(call, ITER_EINVAL);                                                   \
        cr_expect(strstr(err.message, says), "'%s' does not say '%s'", err.message, says); \
    } while (0)
    REFUSED(iter_chain_add(chain, NULL, &sample_ops, NULL, &o, sizeof(o) - 1, &err),
            "options_size is");
    REFUSED(iter_chain_add(chain, NULL, &broken, NULL, &o, sizeof(o), &err), "no plan");
    REFUSED(iter_chain_add(chain, "nosuch", NULL, NULL, NULL, 0, &err), "'nosuch'");
    REFUSED(iter_chain_add(chain, NULL, NULL, NULL, NULL, 0, &err), "neither");
    REFUSED(iter_chain_add(chain, NULL, &bare_ops, "", NULL, 0, &err), "field is ''");
    o.size = -3;
    REFUSED(iter_chain_add(chain, NULL, &sample_ops, NULL, &o, sizeof(o), &err), "size is -3");
    o = sample_defaults, o.mean.n = 1000000;
    REFUSED(iter_chain_add(chain, NULL, &sample_ops, NULL, &o, sizeof(o), &err), "mean has");
    REFUSED(iter_chain_add_text(chain, registry, "bare | bare", &err),
            "column 6: one stage is expected");
    REFUSED(iter_chain_add_text(chain, registry, "", &err), "column 1");
    REFUSED(iter_chain_add_text(chain, registry, NULL, &err), "no stage");
    REFUSED(iter_chain_add(NULL, NULL, &bare_ops, NULL, NULL, 0, &err), "none given");
    cr_expect_str_eq(iter_chain_text(chain), "bare");
    cr_expect_eq(iter__chain_n_stages(chain), 1);
    iter_chain_unref(chain);
}

Test(chain, a_chain_in_use_is_frozen) {
    iter_chain *chain = parsed("bare");
    iter__chain_freeze(chain);
    iter__chain_freeze(NULL);
    cr_expect_eq(iter_chain_add_text(chain, registry, "bare", NULL), ITER_ESTATE);
    cr_expect_eq(iter_chain_add(chain, NULL, &bare_ops, NULL, NULL, 0, NULL), ITER_ESTATE);
    cr_expect_str_eq(iter_chain_text(chain), "bare");
    iter_chain_unref(chain);
}

Test(chain, the_last_reference_frees) {
    iter_chain *chain = parsed("sample:path=a");
    cr_expect_eq(iter_chain_ref(chain), chain);
    iter_chain_unref(chain);
    cr_expect_str_eq(iter_chain_text(chain), "sample:path=a");
    iter_chain_unref(chain);
    iter_chain_unref(NULL);
    cr_expect_eq(iter__chain_n_stages(NULL), 0);
}

Test(chain, long_chains) {
    char text[700] = "bare";
    for (int i = 1; i < 50; i++)
        strcat(text, " | bare");
    iter_chain *chain = parsed(text);
    cr_assert_eq(iter__chain_n_stages(chain), 50);
    cr_expect_eq(iter__chain_stage(chain, 49)->occurrence, 49);
    cr_expect_str_eq(iter_chain_text(chain), text);
    iter_chain_unref(chain);
}

Test(chain, every_allocation_failure_is_clean) {
    const long before = iter__alloc_live();
    sample_options o = sample_defaults;
    o.path = "p", o.word = "w";
    for (long n = 0;; n++) {
        iter_chain *chain = NULL;
        iter__alloc_fail_after = n;
        iter_status status =
            iter_chain_parse("sample:word=a,path=b,field=c | bare", registry, &chain, NULL);
        if (status == ITER_OK)
            status = iter_chain_add(chain, NULL, &sample_ops, NULL, &o, sizeof(o), NULL);
        if (status == ITER_OK) status = iter_chain_add_text(chain, registry, "bare", NULL);
        iter__alloc_fail_after = -1;
        iter_chain_unref(chain);
        cr_assert_eq(iter__alloc_live(), before, "leak when allocation %ld fails", n);
        if (status == ITER_OK) {
            cr_expect_gt(n, 10);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM, "allocation %ld", n);
    }
}
