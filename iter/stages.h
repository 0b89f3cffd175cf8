/*
 * stages.h - texts like "conv2d:50,kernel=3 | relu", for whoever has tables of options.
 *
 * The grammar of chains, datasets and samplers (docs/grammar.md), opened for other lists of things
 * that are written "name:argument,key=value | name". The engine reads its models with it.
 */
#ifndef ITER_STAGES_H
#define ITER_STAGES_H

#include <iter/ops.h>

ITER_BEGIN_DECLS

/** Gets one stage: its table, and its options with the table's defaults filled in, borrowed for the
 * call. An error ends the parse and is its answer. */
typedef iter_status (*iter_stage_fn)(void *user, const iter_ops *ops, const void *options,
                                     iter_error *err);

/**
 * Reads stages separated by '|' and hands each one over, in order.
 *
 *   what    what a stage is called in messages: "layer"
 *   tables  [n_tables] those that may appear, found by name
 *
 * Errors   EINVAL with stage, option and column; ENOMEM; what `each` answers.
 * Threads  any.
 */
ITER_API ITER_NODISCARD iter_status iter_stages_parse(const char *text, const char *what,
                                                      const iter_ops *const *tables,
                                                      int32_t n_tables, iter_stage_fn each,
                                                      void *user, iter_error *err);

/** Checks every value of an options struct against its row's bounds. Errors: EINVAL naming stage,
 * option, value and bounds. */
ITER_API ITER_NODISCARD iter_status iter_stage_check(const iter_ops *ops, const void *options,
                                                     iter_error *err);

/** Writes "name:key=value,key=value" with what differs from the defaults into out[capacity], cut
 * where it does not fit; iter_stages_parse() reads it back to the same options. Returns the length
 * it would have, as snprintf. */
ITER_API int iter_stage_text(const iter_ops *ops, const void *options, char *out, size_t capacity);

ITER_END_DECLS

#endif
