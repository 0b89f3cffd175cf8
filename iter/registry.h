/*
 * registry.h - a caller's own formats, transforms, samplers and decoders beside the built-in ones.
 *
 * Create one, add tables, and pass it to iter_dataset_open(), to iter_chain_parse() and as
 * sampler.registry in iter_loader_options. All tables must be added before its first use; after
 * that it is read-only, and any thread may use it. A name found here hides a built-in one.
 */
#ifndef ITER_REGISTRY_H
#define ITER_REGISTRY_H

#include <iter/ops.h>

ITER_BEGIN_DECLS

typedef struct iter_registry iter_registry;

/** Makes an empty registry. Errors: ENOMEM. */
ITER_API ITER_NODISCARD iter_status iter_registry_create(iter_registry **out, iter_error *err);

/** Frees the registry, not the tables. It must outlive the calls that it is passed to, but not the
 * objects that they make. NULL is ignored. */
ITER_API void iter_registry_destroy(iter_registry *registry);

/**
 * Adds a table. It is borrowed until the last dataset, chain or loader that uses it is freed.
 *
 * Errors     EINVAL (a name that is not [a-z0-9-]+ or is already taken, a required member missing:
 *            the message names it), EUNSUPPORTED (a member that this version does not know),
 *            ENOMEM.
 * Threads    one at a time for each registry.
 */
ITER_API ITER_NODISCARD iter_status iter_registry_add_format(iter_registry *registry,
                                                             const iter_format_ops *ops,
                                                             iter_error *err);
ITER_API ITER_NODISCARD iter_status iter_registry_add_transform(iter_registry *registry,
                                                                const iter_transform_ops *ops,
                                                                iter_error *err);
ITER_API ITER_NODISCARD iter_status iter_registry_add_sampler(iter_registry *registry,
                                                              const iter_sampler_ops *ops,
                                                              iter_error *err);
/* A format finds a decoder by name: `folder:DIR?decoder=NAME` does, and the open() of any format
 * can, by description.registry. */
ITER_API ITER_NODISCARD iter_status iter_registry_add_decoder(iter_registry *registry,
                                                              const iter_decoder_ops *ops,
                                                              iter_error *err);

/** The table called `name`, or NULL. The registry's own tables come first; a NULL registry has the
 * built-in ones alone. */
ITER_API const iter_format_ops *iter_registry_format(const iter_registry *registry,
                                                     const char *name);
ITER_API const iter_transform_ops *iter_registry_transform(const iter_registry *registry,
                                                           const char *name);
ITER_API const iter_sampler_ops *iter_registry_sampler(const iter_registry *registry,
                                                       const char *name);
ITER_API const iter_decoder_ops *iter_registry_decoder(const iter_registry *registry,
                                                       const char *name);

/** Table number i: the registry's own in the order they were added, then the built-in ones. NULL
 * after the last; a NULL registry has the built-in ones alone. */
ITER_API const iter_format_ops *iter_registry_format_at(const iter_registry *registry, int i);
ITER_API const iter_transform_ops *iter_registry_transform_at(const iter_registry *registry, int i);
ITER_API const iter_sampler_ops *iter_registry_sampler_at(const iter_registry *registry, int i);
ITER_API const iter_decoder_ops *iter_registry_decoder_at(const iter_registry *registry, int i);

/** Built-in table number i in listing order, or NULL after the last. */
ITER_API const iter_format_ops *iter_builtin_format(int i);
ITER_API const iter_transform_ops *iter_builtin_transform(int i);
ITER_API const iter_sampler_ops *iter_builtin_sampler(int i);
ITER_API const iter_source_ops *iter_builtin_source(int i);

/** The keys that the spec of any dataset at URLs may have beside its format's options: a table of
 * options alone, without callbacks. NULL = this build reads no URLs. */
ITER_API const iter_ops *iter_builtin_url_keys(void);

/** The built-in decoder called `name`, or NULL. "image": JPEG, PNG or WebP of any size to u8 [H, W,
 * C] "HWC"; its `shared` is an iter_image_options (<iter/image.h>), or NULL. */
ITER_API const iter_decoder_ops *iter_builtin_decoder(const char *name);

ITER_END_DECLS

#endif
