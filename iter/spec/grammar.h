/*
 * grammar.h - one grammar for datasets, chains and samplers. docs/grammar.md has it as EBNF.
 *
 *   dataset  name ":" path [ "?" key "=" value { "&" key "=" value } ]
 *            where braces in the path protect '?' and quotes: mix:{a:x?k=v; b:y}
 *   chain    stage { "|" stage }
 *   stage    name [ ":" argument { "," argument } ]
 *   argument [ key "=" ] value
 *   value    text without the separators, or quoted "..." with \" and \\
 *
 * Every message has the column, counted from 1.
 */
#ifndef ITER_SPEC_GRAMMAR_H
#define ITER_SPEC_GRAMMAR_H

#include <iter/ops.h>

#define ITER_GRAMMAR_ARGS 32

typedef struct iter__grammar_arg {
    const char *key; /* NULL = positional */
    const char *value;
    int column;
} iter__grammar_arg;

typedef struct iter__grammar_call {
    const char *name;
    const char *path; /* datasets only, else NULL */
    int column;
    int n_args;
    iter__grammar_arg args[ITER_GRAMMAR_ARGS];
    const iter_ops *url_keys; /* if the caller takes them: what an error offers, too; else NULL */
} iter__grammar_call;

/* Parses "name:path?k=v&k=v". The texts of `out` are in *out_text, which the caller must free
 * (iter__free). */
iter_status iter__grammar_dataset(const char *text, iter__grammar_call *out, char **out_text,
                                  iter_error *err);

/* Parses one stage or sampler, "name:a,k=v", from *cursor up to '|' or the end. *cursor then points
 * after the '|', or is NULL at the end. */
iter_status iter__grammar_stage(const char *text, const char **cursor, iter__grammar_call *out,
                                char **out_text, iter_error *err);

/* Writes the defaults, then every argument of the call, into values[ops->options_size]. An argument
 * called `skip` (NULL = none) is left to the caller. */
iter_status iter__grammar_apply(const iter__grammar_call *call, const iter_ops *ops, void *values,
                                const char *skip, iter_error *err);

#endif
