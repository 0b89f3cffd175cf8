/* near.h - the known word that is nearest to one that is not known, for messages. */
#ifndef NEAR_H
#define NEAR_H

#include <stddef.h>

#define NEAR_HINT 64 /* bytes of a hint */

/** A search: begin with the unknown word, offer every known one, then ask for the hint. */
typedef struct near_word {
    const char *wanted;
    size_t n_wanted;
    const char *found; /* NULL = none is near enough */
    size_t n_found, distance;
} near_word;

near_word near_begin(const char *wanted, size_t n_wanted);

/** Offers one known word; borrowed until the hint is written. Of equally near ones the first
 * counts. */
void near_offer(near_word *search, const char *known, size_t n_known);

/** Offers each word of a list that is separated by '|'. */
void near_offer_list(near_word *search, const char *words);

/** Writes "; did you mean 'PREFIXword'?", or "" if nothing is near. Returns `out`. */
const char *near_hint(const near_word *search, const char *prefix, char out[NEAR_HINT]);

#endif
