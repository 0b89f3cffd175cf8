/*
 * options.c - structs that begin with struct_size, and a plugin's options by rows: one table gives
 * the parser, the bounds, the text and the copies.
 *
 * Texts mean the same in every locale. To read a number, its decimal point is removed and the
 * exponent moved instead ("12.5e3" becomes "125e2"). strtod() then sees nothing that depends on a
 * locale, and rounds correctly. Writing uses only the digits of "%.*e".
 *
 * Ownership: a string in filled values is either the table's own default, compared by address, or
 * belongs to the values. So defaults need no allocation, and iter__options_free() knows which
 * strings to free.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/spec/options.h"
#include "iter/spec/suggest.h"

/* Significant digits that a number's text may have. 17 are enough to tell a double from its
 * neighbours. */
#define NUMBER_DIGITS 128

/* A struct_size that exceeds ours by more than this was never initialised. */
#define STRUCT_SIZE_MAX 65536

/* Where text goes. `n` counts all of it, even if `out` is full. */
typedef struct text_sink {
    char *out;
    size_t capacity, n;
} text_sink;

/* ---- Numbers --------------------------------------------------------------------------------- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Reads [sign] digits, saturating; NULL if there is no digit. */
static const char *read_exponent(const char *p, long *out) {
    const bool minus = *p == '-';
    if (*p == '-' || *p == '+') p++;
    if (!is_digit(*p)) return NULL;
    long value = 0;
    for (; is_digit(*p); p++)
        if (value < 100000) value = value * 10 + (*p - '0');
    *out = minus ? -value : value;
    return p;
}

bool iter__parse_number(const char *text, double *out) {
    char digits[NUMBER_DIGITS + 32];
    size_t n = 0;
    long exponent = 0, shift = 0;
    bool any = false, point = false;
    const char *p = text;

    *out = 0;
    if (*p == '-') digits[n++] = '-';
    if (*p == '-' || *p == '+') p++;
    const size_t first = n;
    for (; is_digit(*p) || (*p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        any = true;
        if (point) shift--;
        if (n == first && *p == '0') continue; /* a leading zero */
        if (n - first == NUMBER_DIGITS) return false;
        digits[n++] = *p;
    }
    if (!any) return false;
    if (*p == 'e' || *p == 'E') {
        p = read_exponent(p + 1, &exponent);
        if (!p) return false;
    }
    if (*p) return false;
    if (n == first) digits[n++] = '0';
    snprintf(digits + n, sizeof(digits) - n, "e%ld", exponent + shift);
    const double value = strtod(digits, NULL);
    if (!isfinite(value)) return false;
    *out = value;
    return true;
}

/* Writes the decimal digits d[n], the first of them worth 10^exponent. */
static void place_digits(bool minus, const char *d, int n, int exponent, char *out,
                         size_t capacity) {
    const char *sign = minus ? "-" : "";
    if (exponent < -5 || exponent > 17)
        snprintf(out, capacity, "%s%c%s%.*se%d", sign, d[0], n > 1 ? "." : "", n - 1, d + 1,
                 exponent);
    else if (exponent < 0)
        snprintf(out, capacity, "%s0.%.*s%.*s", sign, -exponent - 1, "00000", n, d);
    else if (n <= exponent + 1)
        snprintf(out, capacity, "%s%.*s%.*s", sign, n, d, exponent + 1 - n, "00000000000000000");
    else
        snprintf(out, capacity, "%s%.*s.%.*s", sign, exponent + 1, d, n - exponent - 1,
                 d + exponent + 1);
}

char *iter__number_text(double value, char out[32]) {
    if (!isfinite(value)) {
        snprintf(out, 32, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return out;
    }
    for (int precision = 0; precision <= 16; precision++) {
        char buffer[48], digits[20];
        double back;
        int n = 0;
        snprintf(buffer, sizeof(buffer), "%.*e", precision, value);
        const char *p = buffer;
        for (; *p && *p != 'e'; p++) /* skips the sign and the locale's decimal point */
            if (is_digit(*p) && n < 20) digits[n++] = *p;
        const int exponent = *p ? atoi(p + 1) : 0;
        while (n > 1 && digits[n - 1] == '0')
            n--;
        place_digits(signbit(value) != 0, digits, n, exponent, out, 32);
        if (iter__parse_number(out, &back) && memcmp(&back, &value, sizeof(value)) == 0) break;
    }
    return out;
}

static bool parse_int(const char *text, int64_t *out) {
    static const struct {
        const char *suffix;
        int64_t factor;
    } units[] = {{"", 1},          {"k", 1000},      {"M", 1000000},  {"G", 1000000000},
                 {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    const bool minus = *text == '-';
    if (*text == '-' || *text == '+') text++;
    if (!is_digit(*text)) return false;
    int64_t value = 0;
    for (; is_digit(*text); text++) { /* counts down: -INT64_MIN does not fit */
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_sub_overflow(value, *text - '0', &value)) return false;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text, units[i].suffix) != 0) continue;
        if (__builtin_mul_overflow(value, units[i].factor, &value)) return false;
        if (minus) {
            *out = value;
            return true;
        }
        return !__builtin_sub_overflow((int64_t)0, value, out);
    }
    return false;
}

/* ---- Rows and values ------------------------------------------------------------------------- */

static const iter_option *first_row(const iter_ops *ops) {
    static const iter_option none = {0};
    return ops->options ? ops->options : &none;
}

static void *place(const iter_option *row, void *values) {
    return (char *)values + row->offset;
}

static const void *place_const(const iter_option *row, const void *values) {
    return (const char *)values + row->offset;
}

static const char *get_string(const iter_option *row, const void *values) {
    const char *text;
    memcpy(&text, place_const(row, values), sizeof(text));
    return text;
}

static void put_string(const iter_option *row, void *values, const char *text) {
    memcpy(place(row, values), &text, sizeof(text));
}

/* The default of a string option; NULL if the table has no defaults. */
static const char *default_string(const iter_ops *ops, const iter_option *row) {
    return ops->defaults ? get_string(row, ops->defaults) : NULL;
}

size_t iter__option_bytes(iter_option_type type) {
    switch (type) {
    case ITER_OPTION_BOOL: return sizeof(bool);
    case ITER_OPTION_INT: return sizeof(int64_t);
    case ITER_OPTION_DOUBLE: return sizeof(double);
    case ITER_OPTION_STRING: return sizeof(const char *);
    case ITER_OPTION_CHOICE:
    case ITER_OPTION_DTYPE: return sizeof(int32_t);
    case ITER_OPTION_LIST: return sizeof(iter_option_list);
    }
    return 0;
}

bool iter__option_names_equal(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b)) return false;
    return *a == *b;
}

const iter_option *iter__options_find(const iter_ops *ops, const char *name, int positional) {
    for (const iter_option *row = first_row(ops); row->name; row++)
        if (name ? iter__option_names_equal(row->name, name) : row->positional == positional)
            return row;
    return NULL;
}

static bool in_bounds(const iter_option *row, double value) {
    if (row->min == 0 && row->max == 0) return isfinite(value);
    return isfinite(value) && value >= row->min && value <= row->max;
}

/* "random-crop: size is 0, it may be 1 to 65536" */
static iter_status fail_bounds(const iter_ops *ops, const iter_option *row, const char *shown,
                               iter_error *err) {
    char low[32], high[32];
    if (row->min == 0 && row->max == 0)
        return iter__fail(err, ITER_EINVAL, "%s: %s is %s, it must be finite", ops->name, row->name,
                          shown);
    if (isinf(row->max) || row->max >= 9.2e18)
        return iter__fail(err, ITER_EINVAL, "%s: %s is %s, it must be at least %s", ops->name,
                          row->name, shown, iter__number_text(row->min, low));
    if (isinf(row->min) || row->min <= -9.2e18)
        return iter__fail(err, ITER_EINVAL, "%s: %s is %s, it must be at most %s", ops->name,
                          row->name, shown, iter__number_text(row->max, high));
    return iter__fail(err, ITER_EINVAL, "%s: %s is %s, it may be %s to %s", ops->name, row->name,
                      shown, iter__number_text(row->min, low), iter__number_text(row->max, high));
}

static iter_status fail_value(const iter_ops *ops, const iter_option *row, const char *text,
                              const char *wanted, const char *hint, iter_error *err) {
    return iter__fail(err, ITER_EINVAL, "%s: %s is '%.80s', it must be %s%s", ops->name, row->name,
                      text, wanted, hint);
}

/* Writes "size, pad, fill", or "none", and offers each name. */
static void list_rows(const iter_ops *ops, iter__suggestion *suggestion, char *out,
                      size_t capacity) {
    size_t n = 0;
    for (const iter_option *row = first_row(ops); row->name; row++) {
        if (n < capacity)
            n += (size_t)snprintf(out + n, capacity - n, "%s%s", n ? ", " : "", row->name);
        if (suggestion->wanted) iter__suggestion_offer(suggestion, row->name);
    }
    if (!n) snprintf(out, capacity, "none");
}

/* "random-crop: unknown option 'sise'; it has size, pad, fill, mode" */
iter_status iter__options_unknown(const iter_ops *ops, const char *name, int positional,
                                  const char *more, const iter_ops *url_keys, iter_error *err) {
    char known[320], keys[160] = "", hint[ITER_HINT_MAX];
    iter__suggestion suggestion = {name, NULL, 0, NULL};
    list_rows(ops, &suggestion, known, sizeof(known));
    if (url_keys) list_rows(url_keys, &suggestion, keys, sizeof(keys));
    if (name && more) iter__suggestion_offer(&suggestion, more);
    if (name)
        return iter__fail(err, ITER_EINVAL, "%s: unknown option '%.40s'; it has %s%s%s%s",
                          ops->name, name, known, url_keys ? ", and at URLs " : "", keys,
                          iter__suggestion_text(&suggestion, hint));
    return iter__fail(err, ITER_EINVAL, "%s: unnamed argument %d belongs to no option; it has %s",
                      ops->name, positional, known);
}

/* ---- Suggestions ----------------------------------------------------------------------------- */

#define TYPE_WORDS                                                                              \
    "u8|i8|u16|i16|u32|i32|u64|i64|f16|bf16|f32|f64|bool|uint8|int8|uint16|int16|uint32|int32|" \
    "uint64|"                                                                                   \
    "int64|float16|bfloat16|float32|float64"

static const char *words_of(const iter_option *row) {
    return row->type == ITER_OPTION_CHOICE  ? row->choices
           : row->type == ITER_OPTION_DTYPE ? TYPE_WORDS
           : row->type == ITER_OPTION_BOOL  ? "true|false|yes|no"
                                            : NULL;
}

/* A hint for a word that `row` does not take: the nearest word that it takes, or, if another option
 * takes it, "; did you mean layout=nchw?". */
static const char *hint_word(const iter_ops *ops, const iter_option *row, const char *text,
                             char out[ITER_HINT_MAX]) {
    char nearest[64];
    iter__suggestion suggestion = {text, NULL, 0, NULL};
    iter__suggestion_offer_words(&suggestion, words_of(row), nearest, sizeof(nearest));
    for (const iter_option *other = first_row(ops); other->name && !suggestion.nearest; other++) {
        iter__suggestion meant = {text, NULL, 0, NULL};
        if (other->type != ITER_OPTION_CHOICE && other->type != ITER_OPTION_DTYPE) continue;
        iter__suggestion_offer_words(&meant, words_of(other), nearest, sizeof(nearest));
        if (!meant.nearest || meant.distance > 1) continue;
        snprintf(out, ITER_HINT_MAX, "; did you mean %.40s=%s?", other->name, nearest);
        return out;
    }
    return iter__suggestion_text(&suggestion, out);
}

/* "; did you mean 'mean=0.5;0.5;0.5'?" for numbers between commas or blanks, maybe in brackets. */
static const char *hint_list(const iter_option *row, const char *text, char out[ITER_HINT_MAX]) {
    char list[64], item[64];
    size_t n = 0;
    double number;
    out[0] = list[0] = 0;
    for (const char *p = text + strspn(text, "([{ ,;"); *p; p += strspn(p, ")]} ,;")) {
        const size_t length = strcspn(p, ")]} ,;");
        snprintf(item, sizeof(item), "%.*s", (int)length, p);
        p += length;
        if (length >= sizeof(item) || !iter__parse_number(item, &number)) return out;
        if (n < sizeof(list))
            n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ";" : "", item);
    }
    if (n > 0 && n < sizeof(list))
        snprintf(out, ITER_HINT_MAX, "; did you mean '%.40s=%s'?", row->name, list);
    return out;
}

/* ---- Values from text ------------------------------------------------------------------------ */

static iter_status set_bool(const iter_ops *ops, const iter_option *row, void *values,
                            const char *text, iter_error *err) {
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes"};
    for (int i = 0; i < 6; i++) {
        if (strcmp(text, words[i]) != 0) continue;
        *(bool *)place(row, values) = i & 1;
        return ITER_OK;
    }
    char hint[ITER_HINT_MAX];
    return fail_value(ops, row, text, "true, false, yes, no, 1 or 0",
                      hint_word(ops, row, text, hint), err);
}

static iter_status set_int(const iter_ops *ops, const iter_option *row, void *values,
                           const char *text, iter_error *err) {
    int64_t value;
    if (row->choices && strcmp(text, row->choices) == 0) text = "0"; /* the word for 0 */
    if (!parse_int(text, &value))
        return fail_value(ops, row, text, "a whole number (k, M, G, KiB, MiB, GiB may follow)", "",
                          err);
    if (!in_bounds(row, (double)value)) return fail_bounds(ops, row, text, err);
    *(int64_t *)place(row, values) = value;
    return ITER_OK;
}

static iter_status set_double(const iter_ops *ops, const iter_option *row, void *values,
                              const char *text, iter_error *err) {
    double value;
    if (!iter__parse_number(text, &value)) return fail_value(ops, row, text, "a number", "", err);
    if (!in_bounds(row, value)) return fail_bounds(ops, row, text, err);
    *(double *)place(row, values) = value;
    return ITER_OK;
}

static iter_status set_string(const iter_ops *ops, const iter_option *row, void *values,
                              const char *text, iter_error *err) {
    char *copy = iter__strdup(text);
    if (!copy) return iter__fail(err, ITER_ENOMEM, "%s: out of memory", ops->name);
    const char *old = get_string(row, values);
    if (old != default_string(ops, row)) iter__free((void *)(uintptr_t)old);
    put_string(row, values, copy);
    return ITER_OK;
}

static iter_status set_choice(const iter_ops *ops, const iter_option *row, void *values,
                              const char *text, iter_error *err) {
    const size_t n = strlen(text);
    int32_t i = 0;
    for (const char *word = row->choices;; word++, i++) {
        const size_t length = strcspn(word, "|");
        if (length == n && memcmp(word, text, n) == 0) {
            *(int32_t *)place(row, values) = i;
            return ITER_OK;
        }
        word += length;
        if (!*word) break;
    }
    char wanted[160], hint[ITER_HINT_MAX];
    snprintf(wanted, sizeof(wanted), "one of %s", row->choices);
    return fail_value(ops, row, text, wanted, hint_word(ops, row, text, hint), err);
}

static iter_status set_list(const iter_ops *ops, const iter_option *row, void *values,
                            const char *text, iter_error *err) {
    iter_option_list list = {0};
    char hint[ITER_HINT_MAX];
    for (const char *p = text;; p++) {
        char item[NUMBER_DIGITS + 32];
        size_t n = strcspn(p, ";");
        const char *next = p + n;
        for (; n && *p == ' '; n--)
            p++;
        while (n && p[n - 1] == ' ')
            n--;
        if (list.n == ITER_OPTION_LIST_MAX)
            return iter__fail(err, ITER_EINVAL, "%s: %s has more than %d numbers", ops->name,
                              row->name, ITER_OPTION_LIST_MAX);
        snprintf(item, sizeof(item), "%.*s", (int)(n < sizeof(item) ? n : sizeof(item) - 1), p);
        if (n >= sizeof(item) || !iter__parse_number(item, &list.values[list.n]))
            return fail_value(ops, row, text, "numbers separated by ';'",
                              hint_list(row, text, hint), err);
        if (!in_bounds(row, list.values[list.n])) return fail_bounds(ops, row, item, err);
        list.n++;
        p = next;
        if (!*p) break;
    }
    memcpy(place(row, values), &list, sizeof(list));
    return ITER_OK;
}

static iter_status set_dtype(const iter_ops *ops, const iter_option *row, void *values,
                             const char *text, iter_error *err) {
    const iter_dtype dtype = iter_dtype_parse(text);
    char hint[ITER_HINT_MAX];
    if (dtype == ITER_DTYPE_NONE)
        return fail_value(ops, row, text, "an element type such as u8, i32, f16, bf16 or f32",
                          hint_word(ops, row, text, hint), err);
    *(int32_t *)place(row, values) = (int32_t)dtype;
    return ITER_OK;
}

iter_status iter__options_set(const iter_ops *ops, void *values, const char *name, int positional,
                              const char *text, iter_error *err) {
    const iter_option *row = iter__options_find(ops, name, positional);
    if (!row) return iter__options_unknown(ops, name, positional, NULL, NULL, err);
    switch (row->type) {
    case ITER_OPTION_BOOL: return set_bool(ops, row, values, text, err);
    case ITER_OPTION_INT: return set_int(ops, row, values, text, err);
    case ITER_OPTION_DOUBLE: return set_double(ops, row, values, text, err);
    case ITER_OPTION_STRING: return set_string(ops, row, values, text, err);
    case ITER_OPTION_CHOICE: return set_choice(ops, row, values, text, err);
    case ITER_OPTION_LIST: return set_list(ops, row, values, text, err);
    case ITER_OPTION_DTYPE: return set_dtype(ops, row, values, text, err);
    }
    return iter__fail(err, ITER_EINVAL, "%s: option '%s' has an unknown type", ops->name,
                      row->name);
}

/* ---- Filled values --------------------------------------------------------------------------- */

void iter__options_defaults(const iter_ops *ops, void *values) {
    if (!ops->options_size) return;
    if (ops->defaults)
        memcpy(values, ops->defaults, ops->options_size);
    else
        memset(values, 0, ops->options_size);
}

/* Whether a value is the default, bit for bit, or means "not given". */
static bool is_default(const iter_ops *ops, const iter_option *row, const void *values) {
    const void *value = place_const(row, values);
    if (row->type == ITER_OPTION_STRING) {
        const char *text = get_string(row, values), *usual = default_string(ops, row);
        return !text || text == usual || (usual && strcmp(text, usual) == 0);
    }
    iter_option_list list = {0}, usual_list = {0};
    if (row->type == ITER_OPTION_LIST) {
        memcpy(&list, value, sizeof(list));
        if (ops->defaults) memcpy(&usual_list, place_const(row, ops->defaults), sizeof(usual_list));
        if (list.n == 0) return true;
        return list.n > 0 && list.n == usual_list.n &&
               memcmp(list.values, usual_list.values, (size_t)list.n * sizeof(double)) == 0;
    }
    int32_t none = ITER_DTYPE_NONE;
    if (row->type == ITER_OPTION_DTYPE && memcmp(value, &none, sizeof(none)) == 0) return true;
    const size_t bytes = iter__option_bytes(row->type);
    if (ops->defaults) return memcmp(value, place_const(row, ops->defaults), bytes) == 0;
    static const char zeros[sizeof(double)] = {0};
    return memcmp(value, zeros, bytes) == 0;
}

static int32_t n_choices(const iter_option *row) {
    int32_t n = 1;
    for (const char *p = row->choices; *p; p++)
        n += *p == '|';
    return n;
}

static iter_status check_row(const iter_ops *ops, const iter_option *row, const void *values,
                             iter_error *err) {
    const void *value = place_const(row, values);
    char shown[32];
    iter_option_list list;
    int32_t word;
    switch (row->type) {
    case ITER_OPTION_INT:
        snprintf(shown, sizeof(shown), "%lld", (long long)*(const int64_t *)value);
        if (in_bounds(row, (double)*(const int64_t *)value)) return ITER_OK;
        return fail_bounds(ops, row, shown, err);
    case ITER_OPTION_DOUBLE:
        if (in_bounds(row, *(const double *)value)) return ITER_OK;
        return fail_bounds(ops, row, iter__number_text(*(const double *)value, shown), err);
    case ITER_OPTION_CHOICE:
        memcpy(&word, value, sizeof(word));
        if (word >= 0 && word < n_choices(row)) return ITER_OK;
        return iter__fail(err, ITER_EINVAL, "%s: %s is %d, expected 0 to %d (%s)", ops->name,
                          row->name, (int)word, (int)n_choices(row) - 1, row->choices);
    case ITER_OPTION_DTYPE:
        memcpy(&word, value, sizeof(word));
        if (iter_dtype_bytes((iter_dtype)word)) return ITER_OK;
        return iter__fail(err, ITER_EINVAL, "%s: %s is %d, expected an element type", ops->name,
                          row->name, (int)word);
    case ITER_OPTION_LIST:
        memcpy(&list, value, sizeof(list));
        if (list.n < 0 || list.n > ITER_OPTION_LIST_MAX)
            return iter__fail(err, ITER_EINVAL, "%s: %s has %d numbers, expected at most %d",
                              ops->name, row->name, (int)list.n, ITER_OPTION_LIST_MAX);
        for (int32_t i = 0; i < list.n; i++)
            if (!in_bounds(row, list.values[i]))
                return fail_bounds(ops, row, iter__number_text(list.values[i], shown), err);
        return ITER_OK;
    case ITER_OPTION_BOOL:
    case ITER_OPTION_STRING: break;
    }
    return ITER_OK;
}

iter_status iter__options_check(const iter_ops *ops, const void *values, iter_error *err) {
    for (const iter_option *row = first_row(ops); row->name; row++)
        if (!is_default(ops, row, values)) ITER_TRY(check_row(ops, row, values, err));
    return ITER_OK;
}

void iter__options_free(const iter_ops *ops, void *values) {
    if (!values) return;
    for (const iter_option *row = first_row(ops); row->name; row++) {
        if (row->type != ITER_OPTION_STRING) continue;
        const char *text = get_string(row, values), *usual = default_string(ops, row);
        if (text != usual) iter__free((void *)(uintptr_t)text);
        put_string(row, values, usual);
    }
}

iter_status iter__options_dup(const iter_ops *ops, void *dst, const void *src, iter_error *err) {
    if (!ops->options_size) return ITER_OK;
    memcpy(dst, src, ops->options_size);
    for (const iter_option *row = first_row(ops); row->name; row++) {
        if (row->type == ITER_OPTION_STRING)
            put_string(row, dst, default_string(ops, row));
        else if (ops->defaults && is_default(ops, row, src))
            memcpy(place(row, dst), place_const(row, ops->defaults), iter__option_bytes(row->type));
    }
    for (const iter_option *row = first_row(ops); row->name; row++) {
        if (row->type != ITER_OPTION_STRING || is_default(ops, row, src)) continue;
        char *copy = iter__strdup(get_string(row, src));
        if (!copy) {
            iter__options_free(ops, dst);
            return iter__fail(err, ITER_ENOMEM, "%s: out of memory", ops->name);
        }
        put_string(row, dst, copy);
    }
    return ITER_OK;
}

/* ---- Values to text -------------------------------------------------------------------------- */

static void put_char(text_sink *sink, char c) {
    if (sink->n + 1 < sink->capacity) sink->out[sink->n] = c;
    sink->n++;
}

static void put_text(text_sink *sink, const char *text) {
    while (*text)
        put_char(sink, *text++);
}

/* Whether a character needs no quotes. Bytes of UTF-8 need none; separators, quotes and blanks
 * do. */
static bool is_plain(unsigned char c) {
    return is_digit((char)c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80 ||
           (c && strchr("_.+-;/", c));
}

static void put_quoted(text_sink *sink, const char *text) {
    const char *p = text;
    while (is_plain((unsigned char)*p))
        p++;
    if (!*p && p > text) {
        put_text(sink, text);
        return;
    }
    put_char(sink, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') put_char(sink, '\\');
        put_char(sink, *text);
    }
    put_char(sink, '"');
}

static void put_value(text_sink *sink, const iter_option *row, const void *values) {
    const void *value = place_const(row, values);
    char number[32], word[64];
    const char *p;
    iter_option_list list;
    switch (row->type) {
    case ITER_OPTION_BOOL: put_text(sink, *(const bool *)value ? "true" : "false"); break;
    case ITER_OPTION_INT:
        snprintf(number, sizeof(number), "%lld", (long long)*(const int64_t *)value);
        put_text(sink, number);
        break;
    case ITER_OPTION_DOUBLE:
        put_text(sink, iter__number_text(*(const double *)value, number));
        break;
    case ITER_OPTION_STRING: put_quoted(sink, get_string(row, values)); break;
    case ITER_OPTION_CHOICE:
        p = row->choices;
        for (int32_t i = *(const int32_t *)value; i > 0; i--)
            p = strchr(p, '|') + 1;
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(p, "|"), p);
        put_quoted(sink, word);
        break;
    case ITER_OPTION_LIST:
        memcpy(&list, value, sizeof(list));
        for (int32_t i = 0; i < list.n; i++) {
            if (i) put_char(sink, ';');
            put_text(sink, iter__number_text(list.values[i], number));
        }
        break;
    case ITER_OPTION_DTYPE:
        put_text(sink, iter_dtype_text((iter_dtype) * (const int32_t *)value));
        break;
    }
}

static int finish(text_sink *sink) {
    if (sink->capacity) sink->out[sink->n < sink->capacity ? sink->n : sink->capacity - 1] = 0;
    return (int)sink->n;
}

int iter__quote_text(const char *text, char *out, size_t capacity) {
    text_sink sink = {out, capacity, 0};
    put_quoted(&sink, text);
    return finish(&sink);
}

int iter__options_text(const iter_ops *ops, const void *values, char sep, char *out,
                       size_t capacity) {
    text_sink sink = {out, capacity, 0};
    for (const iter_option *row = first_row(ops); row->name; row++) {
        if (is_default(ops, row, values)) continue;
        if (sink.n) put_char(&sink, sep);
        put_text(&sink, row->name);
        put_char(&sink, '=');
        put_value(&sink, row, values);
    }
    return finish(&sink);
}

/* ---- Structs that begin with their size ------------------------------------------------------ */

iter_status iter__options_copy(void *dst, size_t dst_size, const void *src, size_t min_size,
                               iter_error *err) {
    memset(dst, 0, dst_size);
    if (!src) return ITER_OK;

    size_t size; /* struct_size is the first member of every options struct */
    memcpy(&size, src, sizeof(size));
    if (size < min_size || size < sizeof(size))
        return iter__fail(err, ITER_EINVAL,
                          "options: struct_size is %zu, need at least %zu; begin with the _INIT "
                          "macro",
                          size, min_size);
    if (size > dst_size + STRUCT_SIZE_MAX)
        return iter__fail(err, ITER_EINVAL,
                          "options: struct_size is %zu, which no version has; begin with the "
                          "_INIT macro",
                          size);
    for (size_t i = dst_size; i < size; i++) {
        if (((const unsigned char *)src)[i])
            return iter__fail(err, ITER_EUNSUPPORTED,
                              "options: byte %zu is set, which this version does not know", i);
    }
    memcpy(dst, src, size < dst_size ? size : dst_size);
    return ITER_OK;
}
