/*
 * grammar.c - one reader for dataset specs, chain stages and samplers.
 *
 * A scanner over the caller's text copies tokens, unquoted, into one block that lives beside the
 * call. Each token is at most as long as its source, and its final NUL takes the place of a
 * separator, so a block of the text's length always suffices. Every message begins with the column,
 * counted in characters of UTF-8.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/spec/grammar.h"
#include "iter/spec/options.h"

#define NUMBER_MAX 64 /* longest text that is tried as a number */

/* Where a text is read, and where its tokens are written. */
typedef struct scanner {
    const char *text, *at;
    char *fill, *fill_end;
    iter_error *err;
} scanner;

/* Characters that end an unquoted value, the separator of arguments, and whether an argument needs
 * its name. */
typedef struct dialect {
    const char *stops;
    char between;
    bool keys_only;
} dialect;

static const dialect dataset_dialect = {"&\"", '&', true};
static const dialect stage_dialect = {",|\"", ',', false};

static int column(const scanner *s, const char *at) {
    int n = 1;
    for (const char *p = s->text; p < at; p++)
        n += ((unsigned char)*p & 0xc0) != 0x80; /* not the second and later bytes of a character */
    return n;
}

static iter_status fail_at(const scanner *s, const char *at, const char *format, ...)
    ITER_PRINTF(3, 4);
static iter_status fail_at(const scanner *s, const char *at, const char *format, ...) {
    char reason[400];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    return iter__fail(s->err, ITER_EINVAL, "column %d: %s", column(s, at), reason);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_key(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           (c >= 'A' && c <= 'Z');
}

/* Accepts more characters than names have: "RandomCrop" and "A.Flip" are read, so that the caller,
 * which knows the names, can suggest one. */
static bool is_name(char c) {
    return is_key(c) || c == '.';
}

static void skip_blanks(scanner *s) {
    while (is_blank(*s->at))
        s->at++;
}

static void put(scanner *s, char c) {
    assert(s->fill < s->fill_end);
    *s->fill++ = c;
}

/* Copies [from, to) and adds a NUL. */
static const char *token(scanner *s, const char *from, const char *to) {
    const char *start = s->fill;
    while (from < to)
        put(s, *from++);
    put(s, 0);
    return start;
}

static iter_status begin(scanner *s, const char *text, const char *at, char **out_text,
                         iter_error *err) {
    *out_text = NULL;
    const size_t bytes = strlen(at) + 2;
    char *block = iter__alloc(bytes, 1);
    if (!block) return iter__fail(err, ITER_ENOMEM, "out of memory");
    *s = (scanner){text, at, block, block + bytes, err};
    *out_text = block;
    return ITER_OK;
}

static iter_status read_name(scanner *s, const char *what, const char *example,
                             iter__grammar_call *out) {
    const char *start = s->at;
    while (is_name(*s->at))
        s->at++;
    out->column = column(s, start);
    if (s->at == start)
        return fail_at(s, start, "the name of a %s is missing (of a to z, 0 to 9 and '-')%s", what,
                       example);
    out->name = token(s, start, s->at);
    return ITER_OK;
}

/* From the opening quote to the character after the closing one. */
static iter_status read_quoted(scanner *s, const char **out) {
    const char *open = s->at++;
    *out = s->fill;
    for (; *s->at && *s->at != '"'; s->at++) {
        if (*s->at == '\\') {
            s->at++;
            if (*s->at != '"' && *s->at != '\\')
                return fail_at(s, s->at - 1, "in quotes '\\' may only precede '\"' and '\\'");
        }
        put(s, *s->at);
    }
    if (!*s->at) return fail_at(s, open, "a quote is opened and never closed");
    s->at++;
    put(s, 0);
    return ITER_OK;
}

static iter_status read_value(scanner *s, const char *stops, bool trim, const char **out) {
    if (*s->at == '"') return read_quoted(s, out);
    const char *start = s->at;
    s->at += strcspn(s->at, stops);
    if (*s->at == '"')
        return fail_at(s, s->at, "a quote inside a value: put the whole value in quotes");
    const char *end = s->at;
    while (trim && end > start && is_blank(end[-1]))
        end--;
    *out = token(s, start, end);
    return ITER_OK;
}

/* [key =] value */
static iter_status read_arg(scanner *s, const dialect *d, iter__grammar_call *out) {
    if (out->n_args == ITER_GRAMMAR_ARGS)
        return fail_at(s, s->at, "%s: more than %d arguments", out->name, ITER_GRAMMAR_ARGS);
    iter__grammar_arg *arg = &out->args[out->n_args];
    *arg = (iter__grammar_arg){NULL, NULL, column(s, s->at)};

    const char *start = s->at, *end = start;
    while (is_key(*end))
        end++;
    const char *equals = end;
    while (is_blank(*equals))
        equals++;
    if (end > start && *equals == '=') {
        arg->key = token(s, start, end);
        s->at = equals + 1;
        if (!d->keys_only) skip_blanks(s);
    } else if (d->keys_only) {
        return fail_at(s, start, "%s: an option is written key=value", out->name);
    }
    ITER_TRY(read_value(s, d->stops, !d->keys_only, &arg->value));
    if (!arg->key && !*arg->value && *start != '"')
        return fail_at(s, start, "%s: an argument is missing", out->name);
    out->n_args++;
    return ITER_OK;
}

/* Arguments up to the end, or to '|' in a chain. */
static iter_status read_args(scanner *s, const dialect *d, iter__grammar_call *out) {
    for (;;) {
        if (!d->keys_only) skip_blanks(s);
        ITER_TRY(read_arg(s, d, out));
        if (!d->keys_only) skip_blanks(s);
        if (*s->at != d->between) break;
        s->at++;
    }
    if (!*s->at || (*s->at == '|' && !d->keys_only)) return ITER_OK;
    return fail_at(s, s->at, "%s: expected '%c' or the end after a quoted value", out->name,
                   d->between);
}

/* After the '}' that belongs to the '{' at `at`; NULL = it is never closed. Quotes inside hide
 * braces. */
static const char *after_braces(const char *at) {
    int depth = 0;
    for (; *at; at++) {
        if (*at == '"') {
            for (at++; *at && *at != '"'; at++)
                if (*at == '\\' && at[1]) at++;
            if (!*at) return NULL;
        }
        depth += (*at == '{') - (*at == '}');
        if (depth == 0) return at + 1;
    }
    return NULL;
}

/* A path: quoted, or up to '?'. What stands in braces belongs to it, with '?' and quotes. */
static iter_status read_path(scanner *s, const char **out) {
    if (*s->at == '"') return read_quoted(s, out);
    const char *start = s->at;
    for (; *s->at && *s->at != '?' && *s->at != '"'; s->at++) {
        const char *after = *s->at == '{' ? after_braces(s->at) : NULL;
        if (after) s->at = after - 1;
        if (!after && *s->at == '{' && s->at == start)
            return fail_at(s, start, "a '{' is opened and never closed");
    }
    if (*s->at == '"')
        return fail_at(s, s->at, "a quote inside a value: put the whole value in quotes");
    *out = token(s, start, s->at);
    return ITER_OK;
}

static iter_status read_dataset(scanner *s, iter__grammar_call *out) {
    ITER_TRY(read_name(s, "dataset", "; expected FORMAT:PATH, as in cifar10:data", out));
    if (*s->at != ':')
        return fail_at(s, s->at, "expected ':' after the dataset's name, as in cifar10:path");
    s->at++;
    ITER_TRY(read_path(s, &out->path));
    if (!*s->at) return ITER_OK;
    if (*s->at != '?')
        return fail_at(s, s->at, "%s: expected '?' or the end after a quoted path", out->name);
    s->at++;
    return read_args(s, &dataset_dialect, out);
}

static iter_status read_stage(scanner *s, iter__grammar_call *out) {
    skip_blanks(s);
    ITER_TRY(read_name(s, "stage", "", out));
    skip_blanks(s);
    if (!*s->at || *s->at == '|') return ITER_OK;
    if (*s->at == '(')
        return fail_at(s, s->at, "%s: options follow ':', without brackets: random-crop:32,pad=4",
                       out->name);
    if (*s->at != ':')
        return fail_at(s, s->at, "%s: expected ':', '|' or the end after the name", out->name);
    s->at++;
    return read_args(s, &stage_dialect, out);
}

iter_status iter__grammar_dataset(const char *text, iter__grammar_call *out, char **out_text,
                                  iter_error *err) {
    scanner s;
    *out = (iter__grammar_call){0};
    ITER_TRY(begin(&s, text, text, out_text, err));
    const iter_status status = read_dataset(&s, out);
    if (status < 0) {
        iter__free(*out_text);
        *out_text = NULL;
    }
    return status;
}

iter_status iter__grammar_stage(const char *text, const char **cursor, iter__grammar_call *out,
                                char **out_text, iter_error *err) {
    scanner s;
    *out = (iter__grammar_call){0};
    ITER_TRY(begin(&s, text, *cursor, out_text, err));
    const iter_status status = read_stage(&s, out);
    if (status < 0) {
        iter__free(*out_text);
        *out_text = NULL;
        return status;
    }
    *cursor = *s.at ? s.at + 1 : NULL;
    return ITER_OK;
}

/* ---- Arguments into options ------------------------------------------------------------------ */

static bool is_skipped(const iter__grammar_arg *arg, const char *skip) {
    return skip && arg->key && strcmp(arg->key, skip) == 0;
}

/* The option of an argument; `skip` if the argument is the caller's; NULL if there is no such
 * option. */
static const void *target_of(const iter__grammar_call *call, int i, const iter_ops *ops,
                             const char *skip, int *out_positional) {
    const iter__grammar_arg *arg = &call->args[i];
    *out_positional = 0;
    if (is_skipped(arg, skip)) return skip;
    for (int j = 0; j <= i; j++)
        *out_positional += !call->args[j].key;
    return iter__options_find(ops, arg->key, *out_positional);
}

/* ---- Lists that were written with ',' -------------------------------------------------------- */

/* A number, without the brackets that other languages put around lists; NULL if it is not one. */
static const char *list_item(const char *value, char out[NUMBER_MAX]) {
    double number;
    value += strspn(value, "([{ ");
    const size_t n = strcspn(value, ")]} ");
    if (n >= NUMBER_MAX) return NULL;
    memcpy(out, value, n);
    out[n] = 0;
    return iter__parse_number(out, &number) ? out : NULL;
}

/* Joins the numbers of argument i and of the unnamed ones after it; returns their count. */
static int join_numbers(const iter__grammar_call *call, int i, char *out, size_t capacity) {
    char item[NUMBER_MAX];
    size_t used = 0;
    int n = 0;
    out[0] = 0;
    for (; i < call->n_args && (n == 0 || !call->args[i].key); i++, n++) {
        if (!list_item(call->args[i].value, item)) break;
        if (used < capacity)
            used += (size_t)snprintf(out + used, capacity - used, "%s%s", n ? ";" : "", item);
    }
    return n;
}

/* "mean=0.5,0.5,0.5" would be a list of one number and two unnamed arguments. */
static iter_status check_list(const iter__grammar_call *call, int i, const iter_ops *ops,
                              const iter_option *row, iter_error *err) {
    char joined[160];
    if (!call->args[i].key || row->type != ITER_OPTION_LIST) return ITER_OK;
    if (join_numbers(call, i, joined, sizeof(joined)) < 2) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "%s: the numbers of a list are separated by ';': %s=%s",
                      ops->name, row->name, joined);
}

/* An argument that no option is for. */
static iter_status fail_target(const iter__grammar_call *call, int i, const iter_ops *ops,
                               int positional, const char *skip, iter_error *err) {
    const iter_option *first = iter__options_find(ops, NULL, 1);
    char joined[160];
    if (!call->args[i].key && first && first->type == ITER_OPTION_LIST && !call->args[0].key &&
        join_numbers(call, 0, joined, sizeof(joined)) == call->n_args)
        return iter__fail(err, ITER_EINVAL,
                          "%s: unnamed argument %d belongs to no option; the numbers of a list are "
                          "separated by ';': %s=%s",
                          ops->name, positional, first->name, joined);
    return iter__options_unknown(ops, call->args[i].key, positional, skip, call->url_keys, err);
}

static iter_status apply_arg(const iter__grammar_call *call, int i, const iter_ops *ops,
                             void *values, const char *skip, iter_error *err) {
    const iter__grammar_arg *arg = &call->args[i];
    int positional, other;
    const void *target = target_of(call, i, ops, skip, &positional);
    for (int j = 0; target && j < i; j++)
        if (target_of(call, j, ops, skip, &other) == target)
            return iter__fail(err, ITER_EINVAL, "%s: option '%s' is given twice", ops->name,
                              target == skip ? skip : ((const iter_option *)target)->name);
    if (is_skipped(arg, skip)) return ITER_OK;
    if (!target) return fail_target(call, i, ops, positional, skip, err);
    ITER_TRY(check_list(call, i, ops, target, err));
    return iter__options_set(ops, values, arg->key, positional, arg->value, err);
}

/* ---- Arguments whose names are numbers ------------------------------------------------------- */

/* The option that takes them; NULL = there is none. */
static const iter_option *numbered_row(const iter_ops *ops) {
    for (const iter_option *row = ops->options; row && row->name; row++)
        if (row->type == ITER_OPTION_STRING && row->choices) return row;
    return NULL;
}

static bool is_numbered(const iter__grammar_arg *arg) {
    const char *digits = arg->key ? arg->key + (arg->key[0] == '-') : "";
    return *digits && !digits[strspn(digits, "0123456789")];
}

/* Joins "3=10,7=2" to one value, "3=10 7=2". */
static iter_status apply_numbered(const iter__grammar_call *call, const iter_ops *ops, void *values,
                                  const char *skip, iter_error *err) {
    const iter_option *row = numbered_row(ops);
    size_t bytes = 1;
    int first = -1, positional;
    for (int i = call->n_args; row && i-- > 0;) {
        if (!is_numbered(&call->args[i])) continue;
        bytes += strlen(call->args[i].key) + strlen(call->args[i].value) + 2;
        first = i;
    }
    if (first < 0) return ITER_OK;
    char *joined = iter__alloc(bytes, 1);
    if (!joined) return iter__fail(err, ITER_ENOMEM, "%s: out of memory", ops->name);
    iter_status status = ITER_OK;
    size_t used = 0;
    for (int i = 0; i < call->n_args; i++) {
        const iter__grammar_arg *arg = &call->args[i];
        if (is_numbered(arg))
            used += (size_t)snprintf(joined + used, bytes - used, "%s%s=%s", used ? " " : "",
                                     arg->key, arg->value);
        else if (target_of(call, i, ops, skip, &positional) == row)
            status = iter__fail(err, ITER_EINVAL, "%s: option '%s' is given twice", ops->name,
                                row->name);
    }
    if (status == ITER_OK) status = iter__options_set(ops, values, row->name, 0, joined, err);
    iter__free(joined);
    return status < 0 ? iter__fail_in(err, status, "column %d", call->args[first].column) : ITER_OK;
}

iter_status iter__grammar_apply(const iter__grammar_call *call, const iter_ops *ops, void *values,
                                const char *skip, iter_error *err) {
    const bool numbered = numbered_row(ops) != NULL;
    iter__options_defaults(ops, values);
    for (int i = 0; i < call->n_args; i++) {
        if (numbered && is_numbered(&call->args[i])) continue;
        const iter_status status = apply_arg(call, i, ops, values, skip, err);
        if (status < 0) {
            iter__options_free(ops, values);
            return iter__fail_in(err, status, "column %d", call->args[i].column);
        }
    }
    const iter_status status = apply_numbered(call, ops, values, skip, err);
    if (status < 0) iter__options_free(ops, values);
    return status;
}
