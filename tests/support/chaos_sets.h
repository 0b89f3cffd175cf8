/*
 * chaos_sets.h - the datasets that chaos runs draw from: small ones made in a temporary folder, the
 * test's own, and the real ones under ITER_DATA.
 */
#ifndef TESTS_SUPPORT_CHAOS_SETS_H
#define TESTS_SUPPORT_CHAOS_SETS_H

#include <stdbool.h>

#include <iter/iter.h>

/* Uniform in 0..n-1; n >= 1. */
uint32_t chaos_draw(uint64_t *state, uint32_t n);

typedef enum chaos_open { CHAOS_BY_SPEC, CHAOS_OWN, CHAOS_STREAM, CHAOS_ARRAYS } chaos_open;

typedef struct chaos_set {
    const char *name;
    char spec[640]; /* CHAOS_BY_SPEC */
    chaos_open how;
    bool fails;         /* some samples fail */
    bool has_lengths;   /* the bucket sampler accepts it */
    bool large;         /* loading it takes long */
    bool photos;        /* images of any size */
    bool plain;         /* bytes as they are stored, so ITER_SOURCE_NULL makes rows of zeros */
    bool says_itself;   /* cifar10 as make_cifar() writes it: each row tells what it must be */
    uint32_t most_rows; /* compare at most so many rows of an epoch */
    const char *const *chains; /* ends with NULL; "" = none */
    iter_dataset *shared;      /* one for all loaders; NULL for streams and arrays */
} chaos_set;

#define CHAOS_SETS_MAX 32

/* Samples of CHAOS_OWN and CHAOS_STREAM. A stream's rows are {index * j}; label i32 = index. With
 * has_lengths, row `index` has 1 + index % 9 numbers. */
#define CHAOS_OWN_SAMPLES 211

/* Makes and opens the sets; returns how many. Leaves out the real ones if ITER_DATA has none. If a
 * set cannot be opened, the program ends. */
uint32_t chaos_sets_make(chaos_set out[CHAOS_SETS_MAX]);
void chaos_sets_gone(chaos_set *sets, uint32_t n);

/* Returns a reference to a dataset of the set, which the caller must drop: a newly opened one, or
 * the shared one. Returns NULL for arrays. */
iter_dataset *chaos_set_open(const chaos_set *set, bool anew);

/* Makes a loader over it. If `data` is NULL, over arrays by iter_ndarray_create(). */
iter_status chaos_set_loader(const chaos_set *set, iter_dataset *data, iter_chain *chain,
                             const iter_loader_options *opt, iter_loader **out, iter_error *err);

/* Counts rows of the test's own set and of the stream that differ from what `seed`, epoch, position
 * and index prescribe. Looks at the data field as it is stored. */
uint32_t chaos_own_wrong_rows(const iter_batch *batch, uint64_t seed);

/* Loaders over arrays whose release() has not run yet. */
int64_t chaos_arrays_unreleased(void);

#endif
