/*
 * near.c - the known word that is nearest to one that is not known.
 *
 * The distance is the number of letters to add, drop, change or swap with their neighbour (optimal
 * string alignment). At most a third of the longer word may differ. A word that was not finished
 * ("--compute" for "--compute-ms") counts as one step away.
 */
#include "near.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LONGEST  32
#define UNFINISH 3 /* letters that a word needs before its missing end is guessed */

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* rows[i][k]: the distance between the first i letters of a and the first k of b. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b) {
    size_t rows[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n_a; i++)
        rows[i][0] = i;
    for (size_t k = 0; k <= n_b; k++)
        rows[0][k] = k;
    for (size_t i = 1; i <= n_a; i++)
        for (size_t k = 1; k <= n_b; k++) {
            const size_t change = rows[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            rows[i][k] = least(change, least(rows[i - 1][k], rows[i][k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                rows[i][k] = least(rows[i][k], rows[i - 2][k - 2] + 1);
        }
    return rows[n_a][n_b];
}

near_word near_begin(const char *wanted, size_t n_wanted) {
    return (near_word){.wanted = wanted, .n_wanted = n_wanted};
}

void near_offer(near_word *s, const char *known, size_t n_known) {
    const size_t longer = s->n_wanted > n_known ? s->n_wanted : n_known;
    if (s->n_wanted == 0 || longer > LONGEST) return;
    const bool unfinished = s->n_wanted >= UNFINISH && n_known > s->n_wanted &&
                            memcmp(known, s->wanted, s->n_wanted) == 0;
    const size_t far = unfinished ? 1 : distance(s->wanted, s->n_wanted, known, n_known);
    if (far > longer / 3 || (s->found != NULL && far >= s->distance)) return;
    s->found = known;
    s->n_found = n_known;
    s->distance = far;
}

void near_offer_list(near_word *s, const char *words) {
    for (size_t length; *words != '\0'; words += length + (words[length] == '|')) {
        length = strcspn(words, "|");
        near_offer(s, words, length);
    }
}

const char *near_hint(const near_word *s, const char *prefix, char out[NEAR_HINT]) {
    out[0] = '\0';
    if (s->found != NULL)
        snprintf(out, NEAR_HINT, "; did you mean '%s%.*s'?", prefix, (int)s->n_found, s->found);
    return out;
}
