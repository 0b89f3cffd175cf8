/*
 * registry.h - lists of tables, a registry's own and the built-in ones, and what a table must have.
 */
#ifndef ITER_SPEC_REGISTRY_H
#define ITER_SPEC_REGISTRY_H

#include <iter/registry.h>

#include "iter/spec/suggest.h"

/* Tables of one kind that a caller added. Every table begins with its iter_ops. */
typedef struct iter__tables {
    const iter_ops **tables;
    int32_t n, capacity;
} iter__tables;

struct iter_registry {
    iter__tables formats, transforms, samplers, decoders;
};

/* find: by name; at: by number; hint: the nearest name. Each looks through a registry's own tables
 * (NULL = none), then through `builtins`, which ends with NULL. */
const iter_ops *iter__tables_find(const iter__tables *own, const iter_ops *const *builtins,
                                  const char *name);
const iter_ops *iter__tables_at(const iter__tables *own, const iter_ops *const *builtins, int i);
const char *iter__tables_hint(const iter__tables *own, const iter_ops *const *builtins,
                              const char *wanted, char out[ITER_HINT_MAX]);

/* Checks a table: required members, name, struct_size and option rows. Errors: EINVAL naming what
 * is missing or wrong, EUNSUPPORTED (a member that this version does not know is set). */
iter_status iter__format_check(const iter_format_ops *ops, iter_error *err);
iter_status iter__transform_check(const iter_transform_ops *ops, iter_error *err);
iter_status iter__sampler_check(const iter_sampler_ops *ops, iter_error *err);
iter_status iter__source_check(const iter_source_ops *ops, iter_error *err);
iter_status iter__decoder_check(const iter_decoder_ops *ops, iter_error *err);

#endif
