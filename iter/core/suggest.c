/*
 * suggest.c - the known name nearest to one that is not known.
 *
 * Near is the number of letters to add, drop, change or swap with their neighbour (the restricted Damerau-Levenshtein distance), at most one third
 * of the longer name; '_' and '-', small and capital letters are the same. Of equally near names the first offered is taken.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/suggest.h"

#define LETTERS_MAX \
    40 /* longer names get no suggestion, so that rows of the table have a fixed size */

static char letter(char c) {
    if (c == '_') return '-';
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Row i of the table holds the distances between i letters of a and every beginning of b; three rows are alive at a time. */
static int distance(const char *a, int n_a, const char *b, int n_b) {
    int rows[3][LETTERS_MAX + 1];
    for (int j = 0; j <= n_b; j++)
        rows[0][j] = j;
    for (int i = 1; i <= n_a; i++) {
        const int *before = rows[(i + 1) % 3], *last = rows[(i - 1) % 3];
        int *row = rows[i % 3];
        row[0] = i;
        for (int j = 1; j <= n_b; j++) {
            const char x = letter(a[i - 1]), y = letter(b[j - 1]);
            row[j] = least(last[j - 1] + (x != y), least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && x == letter(b[j - 2]) && letter(a[i - 2]) == y)
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[n_a % 3][n_b];
}

void iter__suggestion_offer(iter__suggestion *s, const char *name) {
    const size_t n_wanted = strlen(s->wanted), n_name = strlen(name);
    const size_t longer = n_wanted > n_name ? n_wanted : n_name;
    if (longer > LETTERS_MAX) return;
    const int far = distance(s->wanted, (int)n_wanted, name, (int)n_name);
    if (far > (int)longer / 3 || (s->nearest && far >= s->distance)) return;
    s->nearest = name;
    s->distance = far;
}

const char *iter__suggestion_text(const iter__suggestion *s, char out[ITER_HINT_MAX]) {
    out[0] = 0;
    if (s->nearest) snprintf(out, ITER_HINT_MAX, "; did you mean '%s'?", s->nearest);
    return out;
}
