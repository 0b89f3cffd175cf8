/*
 * sampler_repeat.c - samples of some labels several times an epoch, or not at all.
 *
 * A class of n samples with count k has n * k places, one after the other; classes follow one
 * another. An epoch is one permutation of all places, keyed by (key, epoch). A place's class comes
 * from a binary search in the classes' first places, its sample from the place modulo n.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/spec/options.h"
#include "loaders/samplers/label_classes.h"
#include "loaders/samplers/samplers.h"

#define AHEAD     512
#define COUNT_MAX 1e9
#define WORD_MAX  64

static const iter_repeat_options defaults = ITER_REPEAT_OPTIONS_INIT;

static const iter_option options_repeat[] = {
    ITER_ROW_NUMBERED("counts",
                      "LABEL=COUNT: how often each sample of a label comes; 0 = not at all",
                      iter_repeat_options, counts, 1),
    ITER_ROW_INT("others", "the count of labels that are not named", iter_repeat_options, others, 0,
                 COUNT_MAX, 0),
    ITER_ROW_STRING("field", "the field with the labels, if it is not the first one of that role",
                    iter_repeat_options, field, 0),
    ITER_ROW_END,
};

typedef struct state {
    iter__label_classes set;
    uint64_t *first; /* [set.n + 1] first place of each class; the last one is the number of all */
    uint64_t key;
    uint32_t epoch; /* of `permutation`, if is_ready */
    bool is_ready;
    iter__permutation permutation;
    uint16_t *table;       /* of all places, when they are few */
    uint64_t ahead[AHEAD]; /* samples of positions ahead_start, ahead_start + 1, ... */
    uint64_t ahead_start, next;
    uint32_t n_ahead;
} state;

/* ---- Counts ---------------------------------------------------------------------------------- */

/* A whole number within these bounds. */
static bool parse_whole(const char *word, double min, double max, double *out) {
    return iter__parse_number(word, out) && *out == floor(*out) && *out >= min && *out <= max;
}

/* "3=10" into counts[set.n], which has -1 for a label that was not named yet. */
static iter_status set_count(const iter__label_classes *set, char *word, int64_t *counts,
                             iter_error *err) {
    double label, count;
    char shown[WORD_MAX];
    snprintf(shown, sizeof(shown), "%s", word);
    char *equals = strchr(word, '=');
    if (equals) *equals = 0;
    if (!equals || !parse_whole(word, -0x1p53, 0x1p53, &label))
        return iter__fail(err, ITER_EINVAL, "'%s': expected LABEL=COUNT, with an integer as label",
                          shown);
    if (!parse_whole(equals + 1, 0, COUNT_MAX, &count))
        return iter__fail(err, ITER_EINVAL, "'%s': a count is a whole number from 0 to 1000000000",
                          shown);
    const uint32_t c = iter__label_classes_find(set, (int64_t)label);
    if (c == set->n)
        return iter__fail(err, ITER_EINVAL,
                          "'%s': no sample has label %lld; there are %u labels, %lld to %lld",
                          shown, (long long)label, set->n, (long long)set->labels[0],
                          (long long)set->labels[set->n - 1]);
    if (counts[c] >= 0)
        return iter__fail(err, ITER_EINVAL, "'%s': label %lld has a count already", shown,
                          (long long)label);
    counts[c] = (int64_t)count;
    return ITER_OK;
}

static iter_status set_counts(const iter__label_classes *set, const char *text, int64_t *counts,
                              iter_error *err) {
    char *copy = iter__strdup(text);
    if (!copy) return iter__fail(err, ITER_ENOMEM, "out of memory");
    iter_status status = ITER_OK;
    char *rest = copy;
    for (char *word; status == ITER_OK && (word = strsep(&rest, " \t\n,;"));)
        if (*word) status = set_count(set, word, counts, err);
    iter__free(copy);
    return status;
}

static iter_status add_places(state *s, const int64_t *counts, int64_t others, iter_error *err) {
    for (uint32_t c = 0; c < s->set.n; c++) {
        const uint64_t n = s->set.starts[c + 1] - s->set.starts[c];
        const uint64_t count = (uint64_t)(counts[c] >= 0 ? counts[c] : others);
        s->first[c + 1] = s->first[c] + n * count; /* below 2^32 * 2^30 */
    }
    if (s->first[s->set.n] > 0) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "every label has a count of 0");
}

/* ---- Open ------------------------------------------------------------------------------------ */

static void repeat_close(void *opaque) {
    state *s = opaque;
    iter__label_classes_free(&s->set);
    iter__free(s->first);
    iter__free(s->table);
    s->first = NULL;
    s->table = NULL;
}

static iter_status open_counts(state *s, const iter_repeat_options *o, iter_error *err) {
    int64_t *counts = iter__alloc(s->set.n, sizeof(*counts));
    s->first = iter__alloc((size_t)s->set.n + 1, sizeof(*s->first));
    iter_status status = counts && s->first
                             ? ITER_OK
                             : iter__fail(err, ITER_ENOMEM, "no memory for %u classes", s->set.n);
    for (uint32_t c = 0; c < s->set.n && status == ITER_OK; c++)
        counts[c] = -1;
    if (status == ITER_OK && o->counts) status = set_counts(&s->set, o->counts, counts, err);
    if (status == ITER_OK) status = add_places(s, counts, o->others, err);
    iter__free(counts);
    if (status < 0 || s->first[s->set.n] > ITER_PERMUTATION_TABLE) return status;
    s->table = iter__alloc((size_t)s->first[s->set.n], sizeof(*s->table));
    return s->table ? ITER_OK : iter__fail(err, ITER_ENOMEM, "out of memory");
}

static iter_status repeat_open(void *opaque, const void *options,
                               const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    const iter_repeat_options *o = options ? options : &defaults;
    if (o->others < 0 || o->others > (int64_t)COUNT_MAX)
        return iter__fail(err, ITER_EINVAL, "others is %lld; expected 0 to 1000000000",
                          (long long)o->others);
    ITER_TRY(iter__label_classes_make(context, o->field, &s->set, err));
    const iter_status status = open_counts(s, o, err);
    if (status < 0) repeat_close(s);
    s->key = iter_rng_key(context->seed, "repeat", 0);
    return status;
}

static uint64_t repeat_length(const void *opaque) {
    const state *s = opaque;
    return s->first[s->set.n];
}

/* ---- Places ---------------------------------------------------------------------------------- */

static uint64_t sample_of(const state *s, uint64_t place) {
    uint32_t low = 0, high = s->set.n; /* first[low] <= place < first[high] */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->first[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    const uint64_t start = s->set.starts[low], n = s->set.starts[low + 1] - start;
    return s->set.samples[start + (place - s->first[low]) % n];
}

/* Samples of positions [position, position + n). */
static void draw_some(const state *s, uint64_t position, uint32_t n, uint64_t *out) {
    iter__permutation_run(&s->permutation, position, n, out);
    for (uint32_t i = 0; i < n; i++)
        out[i] = sample_of(s, out[i]);
}

static uint32_t serve_ahead(const state *s, uint64_t position, uint32_t n, uint64_t *out) {
    if (position < s->ahead_start || position - s->ahead_start >= s->n_ahead) return 0;
    const uint32_t from = (uint32_t)(position - s->ahead_start);
    const uint32_t n_ready = iter__min_u32(s->n_ahead - from, n);
    memcpy(out, s->ahead + from, n_ready * sizeof(*out));
    return n_ready;
}

static void repeat_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                         uint64_t *out) {
    state *s = opaque;
    const uint64_t n_places = s->first[s->set.n];
    if (!s->is_ready || s->epoch != epoch) {
        iter__permutation_init(&s->permutation, s->key, epoch, n_places, s->table);
        s->epoch = epoch;
        s->is_ready = true;
        s->n_ahead = 0;
    }
    const bool in_sequence = position == s->next;
    s->next = position + n;
    while (n > 0) {
        uint32_t n_served = serve_ahead(s, position, n, out);
        if (n_served == 0) {
            const uint64_t most = in_sequence ? AHEAD : iter__min_u32(n, AHEAD);
            s->ahead_start = position;
            s->n_ahead = (uint32_t)iter__min_u64(most, n_places - position);
            draw_some(s, position, s->n_ahead, s->ahead);
            n_served = serve_ahead(s, position, n, out);
        }
        position += n_served;
        out += n_served;
        n -= n_served;
    }
}

const iter_sampler_ops iter__sampler_repeat = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "repeat",
             .help = "all samples in random order, those of some labels several times an epoch",
             .options = options_repeat,
             .defaults = &defaults,
             .options_size = sizeof(iter_repeat_options),
             .state_size = sizeof(state)},
    .open = repeat_open,
    .close = repeat_close,
    .length = repeat_length,
    .index = repeat_index,
};
