/* builtin_samplers.c - the samplers that are always there, in listing order. */
#include "iter/core/builtins.h"
#include "loaders/samplers.h"

const iter_sampler_ops *const iter__builtin_samplers[] = {
    &iter__sampler_sequential, &iter__sampler_shuffle,
    &iter__sampler_once,       &iter__sampler_block,
    &iter__sampler_batch,      &iter__sampler_replacement,
    &iter__sampler_bucket,     0,
};
