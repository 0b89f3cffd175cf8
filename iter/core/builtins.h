/*
 * builtins.h - the lists in loaders/builtin_*.c and transforms/builtin_transforms.c, each ending
 * with NULL, and what every table must have, built-in or not.
 */
#ifndef ITER_CORE_BUILTINS_H
#define ITER_CORE_BUILTINS_H

#include <iter/ops.h>
#include <iter/registry.h>

extern const iter_format_ops *const iter__builtin_formats[];
extern const iter_source_ops *const iter__builtin_sources[];
extern const iter_sampler_ops *const iter__builtin_samplers[];
extern const iter_transform_ops *const iter__builtin_transforms[];
extern const iter_decoder_ops *const iter__builtin_decoders[];

/* Required members, name, struct_size and option rows. Errors: EINVAL naming what is missing,
 * EUNSUPPORTED (a member this version does not know). */
iter_status iter__format_check(const iter_format_ops *ops, iter_error *err);
iter_status iter__transform_check(const iter_transform_ops *ops, iter_error *err);
iter_status iter__sampler_check(const iter_sampler_ops *ops, iter_error *err);
iter_status iter__source_check(const iter_source_ops *ops, iter_error *err);
iter_status iter__decoder_check(const iter_decoder_ops *ops, iter_error *err);

#endif
