/* suggest.h - "did you mean": the known name nearest to one that is not known. */
#ifndef ITER_SPEC_SUGGEST_H
#define ITER_SPEC_SUGGEST_H

#include <stdbool.h>

#include <iter/registry.h>

#define ITER_HINT_MAX 160

/* The text that was written, and the nearest name offered so far. Initialise with {wanted}. */
typedef struct iter__suggestion {
    const char *wanted;
    const char *nearest; /* NULL = none is near; borrowed from the caller that offered it */
    int distance;
    const char *instead; /* the text to write if the name alone is not enough; else NULL */
} iter__suggestion;

void iter__suggestion_offer(iter__suggestion *s, const char *name);

/* Offers each word of "a|b|c". `room`[capacity] keeps the nearest one; it must live as long as
 * s. */
void iter__suggestion_offer_words(iter__suggestion *s, const char *words, char *room,
                                  size_t capacity);

/* Entry i of the table of other libraries' names; false if there is none. For tests. *instead may
 * be NULL. */
bool iter__other_name(size_t i, const char **theirs, const char **ours, const char **instead);

/* "; did you mean 'NAME'?", or "" if none is near. Returns out. */
const char *iter__suggestion_text(const iter__suggestion *s, char out[ITER_HINT_MAX]);

/* The same over the names of a registry (NULL = the built-in ones alone). */
const char *iter__hint_format(const iter_registry *registry, const char *wanted,
                              char out[ITER_HINT_MAX]);
const char *iter__hint_transform(const iter_registry *registry, const char *wanted,
                                 char out[ITER_HINT_MAX]);
const char *iter__hint_sampler(const iter_registry *registry, const char *wanted,
                               char out[ITER_HINT_MAX]);
const char *iter__hint_decoder(const iter_registry *registry, const char *wanted,
                               char out[ITER_HINT_MAX]);

#endif
