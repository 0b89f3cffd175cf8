/*
 * chain.h - what happens to a sample between dataset and batch.
 *
 *     iter_chain_parse("random-crop:size=32,pad=4 | random-flip | "
 *                      "normalize:mean=0.491;0.482;0.447,std=0.247;0.243;0.261 | to:f32,nchw",
 *                      NULL, &chain, &err);
 *
 * or call by call:
 *
 *     iter_chain_create(&chain, &err);
 *     iter_random_crop_options crop = ITER_RANDOM_CROP_OPTIONS_INIT;
 *     crop.size = 32; crop.pad = 4;
 *     iter_chain_add(chain, "random-crop", NULL, NULL, &crop, sizeof(crop), &err);
 */
#ifndef ITER_CHAIN_H
#define ITER_CHAIN_H

#include <iter/registry.h>

ITER_BEGIN_DECLS

typedef struct iter_chain iter_chain;

/** An empty chain: fields as stored. Errors: ENOMEM. */
ITER_API ITER_NODISCARD iter_status iter_chain_create(iter_chain **out, iter_error *err);

/**
 * Reads a chain from text: stages separated by '|', each `name:argument,argument,key=value`.
 * docs/grammar.md has the grammar. Every stage also has the option field=NAME, the field it works
 * on.
 *
 *   registry  the caller's own transforms; NULL = built-ins alone
 *
 * Ownership  *out belongs to the caller.
 * Errors     EINVAL with stage and column, ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_chain_parse(const char *text,
                                                     const iter_registry *registry,
                                                     iter_chain **out, iter_error *err);

/** Appends one stage given as text, without '|'. Errors: as iter_chain_parse(), and ESTATE if a
 * loader uses the chain, because it is frozen then. */
ITER_API ITER_NODISCARD iter_status iter_chain_add_text(iter_chain *chain,
                                                        const iter_registry *registry,
                                                        const char *stage, iter_error *err);

/**
 * Appends a stage by its table or, if ops is NULL, by a built-in's name.
 *
 *   field    field it works on; NULL = the first of the stage's role
 *   options  the plugin's options struct, copied (strings in it too); NULL = defaults
 *
 * Errors     EINVAL (unknown name, options_size not the plugin's, a value out of bounds), ESTATE (a
 *            loader uses the chain), ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_chain_add(iter_chain *chain, const char *name,
                                                   const iter_transform_ops *ops, const char *field,
                                                   const void *options, size_t options_size,
                                                   iter_error *err);

/** Adds, drops a reference. Any thread. unref(NULL) is ignored. */
ITER_API iter_chain *iter_chain_ref(iter_chain *chain);
ITER_API void iter_chain_unref(iter_chain *chain);

/** The chain as text that iter_chain_parse() reads back to the same; lives as long as the chain. */
ITER_API const char *iter_chain_text(const iter_chain *chain);

ITER_END_DECLS

#endif
