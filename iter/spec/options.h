/* options.h - reads structs that begin with struct_size, and option rows from text. */
#ifndef ITER_SPEC_OPTIONS_H
#define ITER_SPEC_OPTIONS_H

#include <iter/ops.h>

/* Copies a caller's options into dst[dst_size]. Missing members become zero; src NULL = all zero.
 * Errors: EINVAL (struct_size), EUNSUPPORTED (a byte that this version does not know is not
 * zero). */
iter_status iter__options_copy(void *dst, size_t dst_size, const void *src, size_t min_size,
                               iter_error *err);

/* Fills a plugin's options struct with its defaults. `values` has ops->options_size bytes. Strings
 * still belong to the table. */
void iter__options_defaults(const iter_ops *ops, void *values);

/* Sets one option from text; name NULL = positional argument number `positional` (from 1). Strings
 * are copied and belong to the values, see iter__options_free(). Errors name the option, the value
 * and the bounds. */
iter_status iter__options_set(const iter_ops *ops, void *values, const char *name, int positional,
                              const char *text, iter_error *err);

/* The error for an option that does not exist; name NULL = by positional number. `more` is one more
 * name to suggest, or NULL; `url_keys` is a table whose options are named and suggested, too, or
 * NULL. */
iter_status iter__options_unknown(const iter_ops *ops, const char *name, int positional,
                                  const char *more, const iter_ops *url_keys, iter_error *err);

/* Checks every value against its row's bounds. A default may be out of bounds; it means "not
 * given", as a NULL string, an empty list and ITER_DTYPE_NONE do. */
iter_status iter__options_check(const iter_ops *ops, const void *values, iter_error *err);

/* dup: a deep copy of filled values; values that are not given become the default. free: frees the
 * strings that belong to the values, which become the default. */
iter_status iter__options_dup(const iter_ops *ops, void *dst, const void *src, iter_error *err);
void iter__options_free(const iter_ops *ops, void *values);

/* Writes "key=value,key=value" for each value that differs from its default, with separator `sep`,
 * quoted if needed. Returns the length of the whole text, like snprintf. */
int iter__options_text(const iter_ops *ops, const void *values, char sep, char *out,
                       size_t capacity);

/* If two names mean the same option: names are kebab-case, and a '_' is read as '-'. */
bool iter__option_names_equal(const char *a, const char *b);

/* The row of an option; name NULL = by positional number. NULL = none. */
const iter_option *iter__options_find(const iter_ops *ops, const char *name, int positional);

/* Bytes of the field that a row describes; 0 for an unknown type. */
size_t iter__option_bytes(iter_option_type type);

/* Reads a number, in any locale. False if the text has anything else, more than 128 significant
 * digits, or a value that is not finite. */
bool iter__parse_number(const char *text, double *out);

/* The shortest text that iter__parse_number() reads back to the same bits, in any locale; returns
 * out. */
char *iter__number_text(double value, char out[32]);

/* `text` as the grammar reads it back, in quotes if needed. Returns the length of the whole text,
 * like snprintf. */
int iter__quote_text(const char *text, char *out, size_t capacity);

#endif
