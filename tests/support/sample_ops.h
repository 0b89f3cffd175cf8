/*
 * sample_ops.h - a transform with an option of every type, and a few without options, for tests of
 * options, grammar, chain and registry.
 */
#ifndef TESTS_SUPPORT_SAMPLE_OPS_H
#define TESTS_SUPPORT_SAMPLE_OPS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include <iter/ops.h>

typedef struct sample_options {
    int64_t size;
    bool flag;
    double ratio;
    const char *path, *word; /* word's default is "plain" */
    int32_t mode;
    iter_option_list mean;
    int32_t dtype;
    int64_t any;
} sample_options;

static const iter_option sample_rows[] = {
    {"size", "rows", ITER_OPTION_INT, offsetof(sample_options, size), 1, 65536, NULL, 1},
    {"flag", "on or off", ITER_OPTION_BOOL, offsetof(sample_options, flag), 0, 0, NULL, 0},
    {"ratio", "a share", ITER_OPTION_DOUBLE, offsetof(sample_options, ratio), 0, 1, NULL, 0},
    {"path", "a file", ITER_OPTION_STRING, offsetof(sample_options, path), 0, 0, NULL, 2},
    {"word", "a text", ITER_OPTION_STRING, offsetof(sample_options, word), 0, 0, NULL, 0},
    {"mode", "what is outside", ITER_OPTION_CHOICE, offsetof(sample_options, mode), 0, 0,
     "zero|reflect|edge", 0},
    {"mean", "a channel", ITER_OPTION_LIST, offsetof(sample_options, mean), 0, 0, NULL, 0},
    {"dtype", "element type", ITER_OPTION_DTYPE, offsetof(sample_options, dtype), 0, 0, NULL, 0},
    {"any", "any number", ITER_OPTION_INT, offsetof(sample_options, any), 0, 0, NULL, 0},
    {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0},
};

static const sample_options sample_defaults = {32, false, 0.5, NULL, "plain", 0, {0, {0}}, 0, -1};

static inline iter_status sample_plan(const void *options, const iter_desc *in, iter_desc *out,
                                      size_t *out_scratch, iter_error *err) {
    (void)options, (void)err;
    *out = *in;
    *out_scratch = 0;
    return ITER_OK;
}

static inline iter_status sample_apply(void *state, const void *options, const iter_tensor *in,
                                       iter_tensor *out, iter_rng *rng, void *scratch,
                                       iter_error *err) {
    (void)state, (void)options, (void)in, (void)out, (void)rng, (void)scratch, (void)err;
    return ITER_OK;
}

static const iter_transform_ops sample_ops = {
    .base = {sizeof(iter_transform_ops), "sample", "every option", sample_rows, &sample_defaults,
             sizeof(sample_options), 0},
    .plan = sample_plan,
    .apply = sample_apply,
};

/* Without options. */
static const iter_transform_ops bare_ops = {
    .base = {sizeof(iter_transform_ops), "bare", "no option", NULL, NULL, 0, 0},
    .plan = sample_plan,
    .apply = sample_apply,
};

#endif
