/*
 * open_sampler.h - a built-in sampler by its name, and what it gives, for Criterion.
 */
#ifndef TESTS_SUPPORT_OPEN_SAMPLER_H
#define TESTS_SUPPORT_OPEN_SAMPLER_H

#include <criterion/criterion.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "tests/support/builtin_tables.h"
#include <iter/iter.h>

#define SAMPLER_MAX_N 20000

typedef struct sampler {
    const iter_sampler_ops *ops;
    void *state;
    uint64_t n;
} sampler;

static inline const iter_sampler_ops *table_of(const char *name) {
    for (int i = 0; iter_builtin_sampler(i); i++)
        if (strcmp(iter_builtin_sampler(i)->base.name, name) == 0) return iter_builtin_sampler(i);
    cr_assert_fail("no sampler %s", name);
    return NULL;
}

static inline iter_status try_open(sampler *s, const char *name, const void *options,
                                   const iter_sampler_context *context, iter_error *err) {
    s->ops = table_of(name);
    s->state = iter__alloc(1, s->ops->base.state_size);
    if (!s->state) return ITER_ENOMEM;
    const iter_status status =
        s->ops->open(s->state, options ? options : s->ops->base.defaults, context, err);
    if (status < 0) {
        iter__free(s->state);
        s->state = NULL;
    } else if (s->ops->length) {
        s->n = s->ops->length(s->state);
    }
    return status;
}

static inline sampler open_sampler(const char *name, const void *options, uint64_t n,
                                   uint64_t seed) {
    const iter_sampler_context context = {
        .n_samples = n, .seed = seed, .batch_size = 32, .ranks = 1};
    iter_error err = {0};
    sampler s = {0};
    cr_assert_eq(try_open(&s, name, options, &context, &err), ITER_OK, "%s: %s", name, err.message);
    return s;
}

static inline void close_sampler(sampler *s) {
    if (s->ops->close) s->ops->close(s->state);
    iter__free(s->state);
}

/* Reads a whole epoch in pieces of `piece`. */
static inline void epoch_of(const sampler *s, uint32_t epoch, uint32_t piece, uint64_t *out) {
    for (uint64_t at = 0; at < s->n; at += piece) {
        const uint64_t left = s->n - at;
        s->ops->index(s->state, epoch, at, left < piece ? (uint32_t)left : piece, out + at);
    }
}

static inline void expect_each_once(const uint64_t *order, uint64_t n, const char *what) {
    static uint8_t seen[SAMPLER_MAX_N];
    memset(seen, 0, sizeof(seen));
    for (uint64_t i = 0; i < n; i++) {
        cr_assert(order[i] < n, "%s: %lu of %lu", what, order[i], n);
        cr_assert_eq(seen[order[i]]++, 0, "%s: %lu comes twice", what, order[i]);
    }
}

/* The length of a sample, as the tests of samplers by length take it. */
static inline int64_t length_of(const void *user, uint64_t index) {
    (void)user;
    return (int64_t)(index * 7919 % 300);
}

#endif
