/*
 * test_suggest.c - the known name nearest to an unknown one. The distances are counted by hand.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <iter/chain.h>

#include "iter/core/alloc.h"
#include "iter/spec/options.h"
#include "iter/spec/suggest.h"
#include "tests/support/sample_ops.h"

TestSuite(suggest, .timeout = 30);

typedef struct guess {
    const char *wanted, *says;
} guess;

/* The hint for `wanted` if `names` are known, each with a blank after it. */
static const char *text_for(const char *wanted, const char *names, char out[ITER_HINT_MAX]) {
    static char each[16][64];
    iter__suggestion s = {.wanted = wanted};
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
        {"SIZE", "; did you mean 'size'?"},  /* case does not matter */
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

/* Names are first converted to the spelling used here. */
Test(suggest, other_ways_to_write_a_name) {
    static const guess cases[] = {
        {"RandomCrop", "random-crop"},
        {"randomCrop", "random-crop"},
        {"random_crop", "random-crop"},
        {"RANDOM_CROP", "random-crop"},
        {"transforms.RandomCrop", "random-crop"},
        {"v2.RandomCorp", "random-crop"},
        {"RandomCropAug", "random-crop"},
        {"RandomCropTransform", "random-crop"},
        {"RGBShift", "rgb-shift"},
        {"ToHWC", "to-hwc"},
        {"NCHW", "nchw"},
        {"Nchw", "nchw"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[ITER_HINT_MAX], want[ITER_HINT_MAX];
        snprintf(want, sizeof(want), "; did you mean '%s'?", cases[i].says);
        cr_expect_str_eq(
            text_for(cases[i].wanted, "crop random-crop rgb-shift to-hwc nchw nhwc ", out), want,
            "%s", cases[i].wanted);
    }
}

/* A name in another case comes first, then another library's name for it, then names of similar
 * spelling. */
Test(suggest, other_libraries_names) {
    char out[ITER_HINT_MAX];
    cr_expect_str_eq(text_for("padding", "side pad ", out), "; did you mean 'side'?");
    cr_expect_str_eq(text_for("padding", "paddin pad ", out), "; did you mean 'pad'?");
    cr_expect_str_eq(text_for("padding", "pad Padding ", out), "; did you mean 'Padding'?");
    cr_expect_str_eq(text_for("padding", "size ", out), "");
    cr_expect_str_eq(text_for("VerticalFlip", "random-flip ", out),
                     "; did you mean 'random-flip:axis=vertical'?");
    cr_expect_str_eq(text_for("Compose", "random-flip ", out),
                     "; stages are joined by '|': random-flip | to:f32,nchw");
    cr_expect_str_eq(text_for("nn.Sequential", "relu ", out),
                     "; stages are joined by '|': random-flip | to:f32,nchw");
}

Test(suggest, words_of_a_choice) {
    char nearest[16], out[ITER_HINT_MAX];
    iter__suggestion s = {.wanted = "Reflact"};
    iter__suggestion_offer_words(&s, "constant|reflect|edge", nearest, sizeof(nearest));
    cr_expect_str_eq(iter__suggestion_text(&s, out), "; did you mean 'reflect'?");
    s = (iter__suggestion){.wanted = "zeros"};
    iter__suggestion_offer_words(&s, "constant|reflect|edge", nearest, sizeof(nearest));
    cr_expect_str_eq(iter__suggestion_text(&s, out), "; did you mean 'constant'?");
    s = (iter__suggestion){.wanted = "blue"};
    iter__suggestion_offer_words(&s, "constant|reflect|edge", nearest, sizeof(nearest));
    cr_expect_str_eq(iter__suggestion_text(&s, out), "");
}

/* ---- The public call: iterbench's words ------------------------------------------------------ */

#define WORDS \
    "doctor|plan|limits|list|workers|compute-ms|dataloader|ndarray|replace|blank|ring|seed"

Test(suggest, the_nearest_word_or_none) {
    static const guess cases[] = {
        {"dctor", "doctor"},       /* a letter is missing */
        {"doctorr", "doctor"},     /* one too many */
        {"docter", "doctor"},      /* one letter is wrong */
        {"paln", "plan"},          /* two are swapped */
        {"worker", "workers"},     /* unfinished */
        {"compute", "compute-ms"}, /* unfinished, by more than a third */
        {"com", "compute-ms"},
        {"Com", "compute-ms"},
        {"co", ""}, /* two letters are too few for a prefix */
        {"dataloder", "dataloader"},
        {"data_loader", "dataloader"},
        {"limit", "limits"}, /* nearer than "list" */
        {"xyz", ""},
        {"", ""},
        {"rpelcae", "replace"}, /* two swaps: 2 of 7 letters */
        {"elpcaer", ""},
        {"this-word-is-longer-than-every-known-word", ""},
    };
    char out[16];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_expect_str_eq(iter_text_nearest(cases[i].wanted, WORDS, out, sizeof(out)), cases[i].says,
                         "%s", cases[i].wanted);
    cr_expect_str_eq(iter_text_nearest("cat", "car|bat", out, sizeof(out)), "car");
    cr_expect_str_eq(iter_text_nearest("cat", "", out, sizeof(out)), "");
    cr_expect_str_eq(iter_text_nearest("VerticalFlip", "random-flip", out, sizeof(out)),
                     "random-flip");
    cr_expect_str_eq(iter_text_nearest("compute", WORDS, out, 5), "comp");
    memset(out, 'x', sizeof(out));
    cr_expect_eq(iter_text_nearest("compute", WORDS, out, 0), out);
    cr_expect_eq(out[0], 'x');
}

/* ---- The table of other libraries' names ----------------------------------------------------- */

static bool has_word(const char *words, const char *name) {
    for (; words && *words; words += strcspn(words, "|"), words += *words == '|')
        if (strcspn(words, "|") == strlen(name) && strncmp(words, name, strlen(name)) == 0)
            return true;
    return false;
}

static bool has_name(const iter_ops *ops, const char *name) {
    if (strcmp(ops->name, name) == 0) return true;
    for (const iter_option *row = ops->options; row && row->name; row++)
        if (strcmp(row->name, name) == 0 ||
            (row->type == ITER_OPTION_CHOICE && has_word(row->choices, name)))
            return true;
    return false;
}

/* Whether libiter has this name: of a table, of an option, of one of its words, or of the
 * trainer. */
static bool is_ours(const char *name) {
    if (iter_dtype_parse(name) != ITER_DTYPE_NONE ||
        has_word("true|false|dense|glorot|he|lr", name))
        return true;
    for (int i = 0; iter_builtin_transform(i); i++)
        if (has_name(&iter_builtin_transform(i)->base, name)) return true;
    for (int i = 0; iter_builtin_format(i); i++)
        if (has_name(&iter_builtin_format(i)->base, name)) return true;
    for (int i = 0; iter_builtin_sampler(i); i++)
        if (has_name(&iter_builtin_sampler(i)->base, name)) return true;
    return false;
}

Test(suggest, the_table_names_what_there_is) {
    const char *theirs, *ours, *instead;
    for (size_t i = 0; iter__other_name(i, &theirs, &ours, &instead); i++) {
        cr_expect(is_ours(ours), "'%s' is called '%s' here, which nothing is", theirs, ours);
        for (const char *p = theirs; *p; p++)
            cr_expect((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-',
                      "'%s' can never be met", theirs);
        iter_chain *chain = NULL;
        if (!instead) continue;
        cr_expect_eq(iter_chain_parse(instead, NULL, &chain, NULL), ITER_OK, "'%s'", instead);
        cr_expect_eq(strncmp(instead, ours, strlen(ours)), 0, "'%s'", instead);
        iter_chain_unref(chain);
    }
}

Test(suggest, names_of_a_registry) {
    static const guess stages[] = {{"normalise", "; did you mean 'normalize'?"},
                                   {"RandomCrop", "; did you mean 'random-crop'?"},
                                   {"hflip", "; did you mean 'flip'?"},
                                   {"RandomHorizontalFlip", "; did you mean 'random-flip'?"},
                                   {"ToTensor", "; did you mean 'normalize | to:f32,nchw'?"},
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
    cr_expect_str_eq(iter__hint_format(NULL, "ImageFolder", out), "; did you mean 'folder'?");
    cr_expect_str_eq(iter__hint_format(NULL, "CIFAR10", out), "; did you mean 'cifar10'?");
    cr_expect_str_eq(iter__hint_sampler(NULL, "shufle", out), "; did you mean 'shuffle'?");
    cr_expect_str_eq(iter__hint_sampler(NULL, "RandomSampler", out), "; did you mean 'shuffle'?");
    cr_expect_eq(iter__alloc_live(), 0);
}
