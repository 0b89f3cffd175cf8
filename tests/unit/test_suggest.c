/*
 * test_suggest.c - which known name is near to one that is not known. The distances are counted by hand.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/suggest.h"
#include "tests/support/sample_ops.h"

TestSuite(suggest, .timeout = 30);

typedef struct guess {
    const char *wanted, *says;
} guess;

/* The text for `wanted`, where `names` are known, a blank behind each. */
static const char *text_for(const char *wanted, const char *names, char out[ITER_HINT_MAX]) {
    static char each[16][64];
    iter__suggestion s = {wanted, NULL, 0};
    for (int i = 0; *names; i++) {
        const size_t n = strcspn(names, " ");
        memcpy(each[i], names, n);
        each[i][n] = 0;
        iter__suggestion_offer(&s, each[i]);
        names += n + 1;
    }
    return iter__suggestion_text(&s, out);
}

Test(suggest, one_third_of_the_letters_may_differ) {
    static const guess cases[] = {
        {"size", "; did you mean 'size'?"},  /* 0 */
        {"sise", "; did you mean 'size'?"},  /* 1 of 4: another letter */
        {"szie", "; did you mean 'size'?"},  /* 1: neighbours swapped */
        {"siz", "; did you mean 'size'?"},   /* 1: one is missing */
        {"ssize", "; did you mean 'size'?"}, /* 1 of 5: one too many */
        {"seze2", ""},                       /* 2 of 5 */
        {"SIZE", "; did you mean 'size'?"},  /* capitals are the same */
        {"pad_size", "; did you mean 'pad-size'?"},
        {"padsise", "; did you mean 'pad-size'?"}, /* 2 of 8 */
        {"bedsize", ""},                           /* 3 of 8 */
        {"b", ""},                                 /* 1 of 1 */
        {"", ""},
    };
    char out[ITER_HINT_MAX];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_expect_str_eq(text_for(cases[i].wanted, "a size pad-size ", out), cases[i].says, "%s",
                         cases[i].wanted);
}

Test(suggest, the_nearest_and_then_the_first) {
    char out[ITER_HINT_MAX];
    cr_expect_str_eq(text_for("mask", "task mast ", out), "; did you mean 'task'?");
    cr_expect_str_eq(text_for("maskes", "mast-es masked ", out), "; did you mean 'masked'?");
    cr_expect_str_eq(text_for("anything", "", out), "");
}

Test(suggest, long_names_are_left_alone) {
    char a[60], names[128], out[ITER_HINT_MAX];
    memset(a, 'a', sizeof(a));
    a[40] = 0;
    snprintf(names, sizeof(names), "%s ", a);
    a[0] = 'b';
    cr_expect(strstr(text_for(a, names, out), "did you mean 'aaaa"), "%s", out);
    cr_expect_eq(strlen(out), strlen("; did you mean ''?") + 40);
    a[40] = 'a', a[41] = 0;
    cr_expect_str_eq(text_for(a, names, out), "");
}

Test(suggest, names_of_a_registry) {
    static const guess stages[] = {{"normalise", "; did you mean 'normalize'?"},
                                   {"RandomCrop", "; did you mean 'random-crop'?"},
                                   {"hflip", "; did you mean 'flip'?"},
                                   {"sampel", "; did you mean 'sample'?"},
                                   {"blur", ""}};
    char out[ITER_HINT_MAX];
    iter_registry *registry;
    cr_assert_eq(iter_registry_create(&registry, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(registry, &sample_ops, NULL), ITER_OK);
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        cr_expect_str_eq(iter__hint_transform(registry, stages[i].wanted, out), stages[i].says,
                         "%s", stages[i].wanted);
    cr_expect_str_eq(iter__hint_transform(NULL, "sampel", out), "");
    iter_registry_destroy(registry);
    cr_expect_str_eq(iter__hint_format(NULL, "cifar", out), "; did you mean 'cifar10'?");
    cr_expect_str_eq(iter__hint_format(NULL, "imagenet", out), "");
    cr_expect_str_eq(iter__hint_sampler(NULL, "shufle", out), "; did you mean 'shuffle'?");
    cr_expect_eq(iter__alloc_live(), 0);
}
