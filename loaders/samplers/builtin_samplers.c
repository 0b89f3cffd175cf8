/* builtin_samplers.c - the samplers that are always there, in listing order. */
#include "iter/spec/builtins.h"

/* clang-format off */
#define SAMPLERS(X) \
    X(sequential) \
    X(shuffle) \
    X(once) \
    X(block) \
    X(batch) \
    X(replacement) \
    X(weighted) \
    X(balanced) \
    X(repeat) \
    X(stride) \
    X(mix) \
    X(bucket) \
    X(token_budget)
/* clang-format on */

ITER_BUILTINS(sampler, SAMPLERS)
ITER_BUILTIN_NTH(sampler)
