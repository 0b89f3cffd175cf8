/*
 * stages.h - reads and writes texts like "conv2d:50,kernel=3 | relu", for any tables of options.
 *
 * The grammar is that of chains, datasets and samplers (docs/grammar.md), for other lists of things
 * that are written "name:argument,key=value | name". The engine reads its models with it.
 */
#ifndef ITER_STAGES_H
#define ITER_STAGES_H

#include <iter/ops.h>

ITER_BEGIN_DECLS

/** Receives one stage: its table, and its options with the table's defaults filled in, borrowed for
 * the call. If it fails, the parse ends with its error. */
typedef iter_status (*iter_stage_fn)(void *user, const iter_ops *ops, const void *options,
                                     iter_error *err);

/**
 * Reads stages separated by '|' and calls `each` for every one, in order.
 *
 *   what    the word for a stage in messages, e.g. "layer"
 *   tables  [n_tables] the stages that may appear
 *
 * Errors   EINVAL with stage, option and column; ENOMEM; the error of `each`.
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

/** Writes "name:key=value,key=value" into out[capacity], with the options that differ from the
 * defaults. iter_stages_parse() reads it back to the same options. A text that does not fit is cut.
 * Returns the length of the whole text, like snprintf. */
ITER_API int iter_stage_text(const iter_ops *ops, const void *options, char *out, size_t capacity);

ITER_END_DECLS

#endif
