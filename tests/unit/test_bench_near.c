/* test_bench_near.c - bench/near.c: which known word a misspelled one is taken for. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "bench/near.h"

TestSuite(bench_near, .timeout = 60);

#define WORDS \
    "doctor|plan|limits|list|workers|compute-ms|dataloader|ndarray|replace|blank|ring|seed"

Test(bench_near, the_nearest_word_or_none) {
    static const struct {
        const char *wanted, *found; /* NULL = none */
    } cases[] = {
        {"dctor", "doctor"},       /* a letter is missing */
        {"doctorr", "doctor"},     /* one too many */
        {"docter", "doctor"},      /* one is another */
        {"paln", "plan"},          /* two are swapped */
        {"worker", "workers"},     /* not finished */
        {"compute", "compute-ms"}, /* not finished, by more than a third */
        {"com", "compute-ms"},
        {"co", NULL}, /* two letters are no beginning */
        {"dataloder", "dataloader"},
        {"limit", "limits"}, /* nearer than "list" */
        {"xyz", NULL},
        {"", NULL},
        {"rpelcae", "replace"}, /* two swaps: 2 of 7 letters */
        {"elpcaer", NULL},
        {"this-word-is-longer-than-every-known-word", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char hint[NEAR_HINT], want[NEAR_HINT] = "";
        near_word search = near_begin(cases[i].wanted, strlen(cases[i].wanted));
        near_offer_list(&search, WORDS);
        if (cases[i].found != NULL)
            snprintf(want, sizeof(want), "; did you mean '--%s'?", cases[i].found);
        cr_assert_str_eq(near_hint(&search, "--", hint), want, "%s: %s", cases[i].wanted, hint);
    }
}

Test(bench_near, of_equally_near_words_the_first) {
    char hint[NEAR_HINT];
    near_word search = near_begin("cat", 3);
    near_offer(&search, "car", 3);
    near_offer(&search, "bat", 3);
    cr_assert_str_eq(near_hint(&search, "", hint), "; did you mean 'car'?");
}
