/*
 * mix.h - several datasets with the same fields as one: the samples of the first source, then those
 * of the second, and so on.
 *
 * If all sources read files alike (the same extents a sample), the mix has all their files, and a
 * loader reads them as it reads one dataset's: one source of bytes, one arena, one decoder for
 * sources that decode alike. Else rows come by get(), through a row reader for each source.
 *
 * The order of draws by weights is the sampler's business (sampler_mix.c); the mix only describes
 * its parts.
 */
#ifndef ITER_DATASET_MIX_H
#define ITER_DATASET_MIX_H

#include "iter/dataset/dataset.h"

/* One entry of a spec. */
typedef struct iter__mix_entry {
    char *name; /* NULL = the spec's own name */
    char *spec;
    double weight; /* 0 = none was given */
} iter__mix_entry;

typedef struct iter__mix_list {
    iter__mix_entry *entries;
    int32_t n;
} iter__mix_list;

/* mix_spec.c. Parses "{web=0.7 tokens:a.idx; code=0.3 tokens:b.idx}", or the lines of the file at
 * `path`. It must be freed, also after an error. Errors: EINVAL with the entry, EIO, ENOMEM. */
iter_status iter__mix_parse(const char *path, iter__mix_list *out, iter_error *err);
void iter__mix_list_free(iter__mix_list *list);

/* Makes the state of a mix (zero before) of these sources, and describes it. It holds a reference
 * to each. After an error it is closed. */
iter_status iter__mix_build(void *state, const iter_mix_source *sources, int32_t n,
                            iter_description *out, iter_error *err);

/* For iter__dataset_adopt(): makes new locks. */
void iter__mix_adopt(void *state);

/* The table for a mix with this state: with get(), or without. */
const iter_format_ops *iter__mix_table(const void *state);

#endif
