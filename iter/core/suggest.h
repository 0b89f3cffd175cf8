/* suggest.h - "did you mean": the known name nearest to one that is not known. */
#ifndef ITER_CORE_SUGGEST_H
#define ITER_CORE_SUGGEST_H

#include <iter/registry.h>

#define ITER_HINT_MAX 64

/* What was written, and the nearest name offered so far. Begin with {wanted}. */
typedef struct iter__suggestion {
    const char *wanted;
    const char *nearest; /* NULL = none is near; borrowed from who offered it */
    int distance;
} iter__suggestion;

void iter__suggestion_offer(iter__suggestion *s, const char *name);

/* "; did you mean 'NAME'?", or "" where none is near. Returns out. */
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
