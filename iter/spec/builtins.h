/*
 * builtins.h - macros for the builtin_*.c files: a list of names becomes the declarations of the
 * tables, an array of them and its lookups.
 *
 *     #define FORMATS(X) X(cifar10) X(mnist)
 *     ITER_BUILTINS(format, FORMATS)
 *
 * lists iter__format_cifar10 and iter__format_mnist, each of which a format_*.c defines.
 */
#ifndef ITER_SPEC_BUILTINS_H
#define ITER_SPEC_BUILTINS_H

#include <stddef.h>

#include "iter/spec/registry.h"

#define ITER_BUILTIN_DECLARE_format(name)    extern const iter_format_ops iter__format_##name;
#define ITER_BUILTIN_DECLARE_transform(name) extern const iter_transform_ops iter__transform_##name;
#define ITER_BUILTIN_DECLARE_sampler(name)   extern const iter_sampler_ops iter__sampler_##name;
#define ITER_BUILTIN_DECLARE_source(name)    extern const iter_source_ops iter__source_##name;
#define ITER_BUILTIN_DECLARE_decoder(name)   extern const iter_decoder_ops iter__decoder_##name;

#define ITER_BUILTIN_ROW_format(name)    &iter__format_##name.base,
#define ITER_BUILTIN_ROW_transform(name) &iter__transform_##name.base,
#define ITER_BUILTIN_ROW_sampler(name)   &iter__sampler_##name.base,
#define ITER_BUILTIN_ROW_source(name)    &iter__source_##name.base,
#define ITER_BUILTIN_ROW_decoder(name)   &iter__decoder_##name.base,

/* The array `builtins`. */
#define ITER_BUILTIN_LIST(kind, LIST) \
    LIST(ITER_BUILTIN_DECLARE_##kind) \
    static const iter_ops *const builtins[] = {LIST(ITER_BUILTIN_ROW_##kind) NULL};

/* The array, and lookups in a registry and then in it (<iter/registry.h>, suggest.h). */
#define ITER_BUILTINS(kind, LIST)                                                                 \
    ITER_BUILTIN_LIST(kind, LIST)                                                                 \
    const iter_##kind##_ops *iter_registry_##kind(const iter_registry *registry,                  \
                                                  const char *name) {                             \
        return (const iter_##kind##_ops *)iter__tables_find(registry ? &registry->kind##s : NULL, \
                                                            builtins, name);                      \
    }                                                                                             \
    const iter_##kind##_ops *iter_registry_##kind##_at(const iter_registry *registry, int i) {    \
        return (const iter_##kind##_ops *)iter__tables_at(registry ? &registry->kind##s : NULL,   \
                                                          builtins, i);                           \
    }                                                                                             \
    const char *iter__hint_##kind(const iter_registry *registry, const char *wanted,              \
                                  char out[ITER_HINT_MAX]) {                                      \
        return iter__tables_hint(registry ? &registry->kind##s : NULL, builtins, wanted, out);    \
    }

/* Built-in table number i. */
#define ITER_BUILTIN_NTH(kind)                                                \
    const iter_##kind##_ops *iter_builtin_##kind(int i) {                     \
        return (const iter_##kind##_ops *)iter__tables_at(NULL, builtins, i); \
    }

#endif
