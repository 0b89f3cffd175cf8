/*
 * label_classes.c - see label_classes.h.
 *
 * Labels come piece by piece. A hash table numbers them in the order in which they appear, so any
 * integers will do; then the numbers are replaced by places in ascending order, and the samples are
 * placed by a counting sort.
 */
#include "loaders/samplers/label_classes.h"

#include <stdlib.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "loaders/samplers/samplers.h"

#define PIECE 65536u /* labels that are asked for at a time */
#define NONE  UINT32_MAX

/* Labels in the order of their first sample. */
typedef struct numbers {
    uint32_t n, capacity;
    int64_t *labels; /* [capacity] */
    uint64_t *count; /* [capacity] samples of each */
    uint32_t *slots; /* [4 * capacity]: a number, or NONE */
} numbers;

static void numbers_free(numbers *all) {
    iter__free(all->labels);
    iter__free(all->count);
    iter__free(all->slots);
}

/* The label's slot, or the empty one that it would take. 4 * capacity is a power of two. */
static uint32_t *slot_of(const numbers *all, int64_t label) {
    const uint64_t mask = 4 * (uint64_t)all->capacity - 1;
    uint64_t at = (uint64_t)label * 0x9e3779b97f4a7c15u >> 20;
    while (all->slots[at & mask] != NONE && all->labels[all->slots[at & mask]] != label)
        at++;
    return &all->slots[at & mask];
}

static bool grow(numbers *all) {
    if (all->capacity > UINT32_MAX / 8) return false;
    const uint32_t capacity = all->capacity ? all->capacity * 2 : 64;
    int64_t *labels = iter__realloc(all->labels, capacity * sizeof(*labels));
    if (labels) all->labels = labels;
    uint64_t *count = iter__realloc(all->count, capacity * sizeof(*count));
    if (count) all->count = count;
    uint32_t *slots = iter__alloc(4 * (size_t)capacity, sizeof(*slots));
    if (!labels || !count || !slots) {
        iter__free(slots);
        return false;
    }
    iter__free(all->slots);
    all->slots = slots;
    all->capacity = capacity;
    for (size_t i = 0; i < 4 * (size_t)capacity; i++)
        slots[i] = NONE;
    for (uint32_t k = 0; k < all->n; k++)
        *slot_of(all, labels[k]) = k;
    return true;
}

/* The number of a label, a new one if it is new; NONE = out of memory. */
static uint32_t number_of(numbers *all, int64_t label) {
    if (all->n == all->capacity && !grow(all)) return NONE;
    uint32_t *slot = slot_of(all, label);
    if (*slot == NONE) {
        *slot = all->n;
        all->labels[all->n] = label;
        all->count[all->n++] = 0;
    }
    all->count[*slot]++;
    return *slot;
}

/* Writes each sample's number to numbers_of[n_samples]. */
static iter_status number_all(const iter_sampler_context *context, const char *field, numbers *all,
                              uint32_t *numbers_of, iter_error *err) {
    int64_t *labels = iter__alloc(PIECE, sizeof(*labels));
    iter_status status = labels ? ITER_OK : iter__fail(err, ITER_ENOMEM, "out of memory");
    for (uint64_t first = 0; first < context->n_samples && status == ITER_OK; first += PIECE) {
        const uint64_t n = iter__min_u64(PIECE, context->n_samples - first);
        status = context->labels(context->labels_user, field, first, n, labels, err);
        for (uint64_t i = 0; i < n && status == ITER_OK; i++) {
            numbers_of[first + i] = number_of(all, labels[i]);
            if (numbers_of[first + i] == NONE)
                status = iter__fail(err, ITER_ENOMEM, "no memory for %u classes", all->n + 1);
        }
    }
    iter__free(labels);
    return status;
}

static int compare_labels(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

uint32_t iter__label_classes_find(const iter__label_classes *classes, int64_t label) {
    uint32_t low = 0, high = classes->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (classes->labels[middle] < label)
            low = middle + 1;
        else
            high = middle;
    }
    return low < classes->n && classes->labels[low] == label ? low : classes->n;
}

/* Fills `out`, whose memory is there. `next` [n] is for the sort. */
static void place(const numbers *all, const uint32_t *numbers_of, uint64_t n_samples,
                  uint64_t *next, iter__label_classes *out) {
    for (uint32_t k = 0; k < all->n; k++)
        out->labels[k] = all->labels[k];
    qsort(out->labels, out->n, sizeof(*out->labels), compare_labels);
    for (uint32_t k = 0; k < all->n; k++)
        out->starts[iter__label_classes_find(out, all->labels[k]) + 1] = all->count[k];
    for (uint32_t c = 0; c < out->n; c++)
        out->starts[c + 1] += out->starts[c];
    for (uint32_t k = 0; k < all->n; k++)
        next[k] = out->starts[iter__label_classes_find(out, all->labels[k])];
    for (uint64_t i = 0; i < n_samples; i++)
        out->samples[next[numbers_of[i]]++] = (uint32_t)i;
}

static iter_status check(const iter_sampler_context *context, iter_error *err) {
    ITER_TRY(iter__sampler_needs_count(context, err));
    if (!context->labels) return iter__fail(err, ITER_EINVAL, "the dataset tells no labels");
    if (context->n_samples == 0) return iter__fail(err, ITER_EINVAL, "there are no samples");
    if (context->n_samples > UINT32_MAX)
        return iter__fail(err, ITER_EUNSUPPORTED, "%llu samples are more than 2^32 - 1",
                          (unsigned long long)context->n_samples);
    return ITER_OK;
}

iter_status iter__label_classes_make(const iter_sampler_context *context, const char *field,
                                     iter__label_classes *out, iter_error *err) {
    const uint64_t n_samples = context->n_samples;
    numbers all = {0};
    uint64_t *next = NULL;
    *out = (iter__label_classes){0};
    ITER_TRY(check(context, err));
    uint32_t *numbers_of = iter__alloc_large(n_samples * sizeof(*numbers_of));
    iter_status status = numbers_of ? number_all(context, field, &all, numbers_of, err)
                                    : iter__fail(err, ITER_ENOMEM, "no memory for %llu labels",
                                                 (unsigned long long)n_samples);
    if (status == ITER_OK) {
        out->n = all.n;
        out->labels = iter__alloc(all.n, sizeof(*out->labels));
        out->starts = iter__alloc((size_t)all.n + 1, sizeof(*out->starts));
        out->samples = iter__alloc(n_samples, sizeof(*out->samples));
        next = iter__alloc(all.n, sizeof(*next));
        if (out->labels && out->starts && out->samples && next)
            place(&all, numbers_of, n_samples, next, out);
        else
            status = iter__fail(err, ITER_ENOMEM, "no memory for %llu samples in %u classes",
                                (unsigned long long)n_samples, all.n);
    }
    numbers_free(&all);
    iter__free(next);
    if (numbers_of) iter__free_large(numbers_of, n_samples * sizeof(*numbers_of));
    if (status < 0) iter__label_classes_free(out);
    return status;
}

void iter__label_classes_free(iter__label_classes *classes) {
    iter__free(classes->labels);
    iter__free(classes->starts);
    iter__free(classes->samples);
    *classes = (iter__label_classes){0};
}
