/*
 * json_scan.c - see json_scan.h.
 *
 * One pass from left to right. At each value the reader holds, for each path, what is left of it:
 * "" = this value is the one that is wanted, NULL = it lies elsewhere.
 *
 * Source: RFC 8259.
 */
#include "loaders/tables/json_scan.h"

#include <string.h>

#include "loaders/text/text_utf8.h"

typedef struct json {
    const uint8_t *p, *end;
    iter__json_value *out;
    const char *fault;
} json;

static bool fail(json *j, const char *what) {
    if (!j->fault) j->fault = j->p < j->end ? what : "the text ends too early";
    return false;
}

static void skip_space(json *j) {
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r'))
        j->p++;
}

static bool expect(json *j, uint8_t byte, const char *what) {
    skip_space(j);
    if (j->p == j->end || *j->p != byte) return fail(j, what);
    j->p++;
    return true;
}

/* ---- Strings --------------------------------------------------------------------------------- */

static int hex_digit(uint8_t c) {
    const uint8_t letter = c | 0x20;
    if (c >= '0' && c <= '9') return c - '0';
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* Four hex digits at p[4], or UINT32_MAX. */
static uint32_t hex_four(const uint8_t *p) {
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(p[i]);
        if (digit < 0) return UINT32_MAX;
        code = code * 16 + (uint32_t)digit;
    }
    return code;
}

/* Moves past the string at p, and checks it. */
static bool skip_string(json *j) {
    for (j->p++; j->p < j->end; j->p++) {
        const uint8_t c = *j->p;
        if (c == '"') {
            j->p++;
            return true;
        }
        if (c < 0x20) return fail(j, "a control character in a string");
        if (c != '\\') continue;
        if (++j->p == j->end) break;
        if (*j->p == 'u') {
            if (j->end - j->p < 5 || hex_four(j->p + 1) == UINT32_MAX)
                return fail(j, "\\u without four hex digits");
            j->p += 4;
        } else if (!memchr("\"\\/bfnrt", *j->p, 8)) {
            return fail(j, "an escape that JSON has not");
        }
    }
    return fail(j, "");
}

/* The character at p, an escape or a byte, in out[4]. Returns its bytes; 0 if a surrogate has no
 * other half. */
static size_t character_at(const uint8_t **p, const uint8_t *end, uint8_t out[4]) {
    const uint8_t *q = *p;
    *p = q + 1;
    out[0] = *q;
    if (*q != '\\') return 1;
    *p = q + 2;
    static const char letters[] = "bfnrt", codes[] = "\b\f\n\r\t";
    const char *const letter = memchr(letters, q[1], 5);
    out[0] = letter ? (uint8_t)codes[letter - letters] : q[1];
    if (q[1] != 'u') return 1;
    uint32_t code = hex_four(q + 2);
    *p = q + 6;
    if (code >= 0xd800 && code < 0xdc00) {
        if (end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u') return 0;
        const uint32_t low = hex_four(*p + 2);
        if (low < 0xdc00 || low > 0xdfff) return 0;
        *p += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return 0;
    }
    return iter__utf8_put(out, code);
}

bool iter__json_unescape(const iter__json_value *value, uint8_t *out, size_t *out_n) {
    const uint8_t *p = value->text + 1, *end = value->text + value->n - 1;
    size_t n = 0;
    while (p < end) {
        const uint8_t *escape = memchr(p, '\\', (size_t)(end - p));
        const size_t plain = (size_t)((escape ? escape : end) - p);
        memcpy(out + n, p, plain);
        n += plain;
        p += plain;
        if (p == end) break;
        uint8_t bytes[4];
        const size_t k = character_at(&p, end, bytes);
        if (k == 0) return false;
        memcpy(out + n, bytes, k);
        n += k;
    }
    *out_n = n;
    return true;
}

/* Whether the key text[n], without its marks, is the first part of `path`. *out_rest is what comes
 * after that part, "" if nothing does. */
static bool is_key(const uint8_t *text, size_t n, const char *path, const char **out_rest) {
    const uint8_t *p = text, *end = text + n;
    const size_t length = strcspn(path, ".");
    size_t at = 0;
    while (p < end) {
        uint8_t bytes[4];
        const size_t k = character_at(&p, end, bytes);
        if (k == 0 || k > length - at || memcmp(path + at, bytes, k) != 0) return false;
        at += k;
    }
    *out_rest = path + length + (path[length] == '.');
    return at == length;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool skip_value(json *j, const char *const paths[ITER_JSON_PATHS], int depth);

/* Moves past digits, at least one. */
static bool skip_digits(json *j) {
    const uint8_t *first = j->p;
    while (j->p < j->end && *j->p >= '0' && *j->p <= '9')
        j->p++;
    return j->p > first || fail(j, "expected a digit");
}

static bool skip_number(json *j) {
    if (*j->p == '-') j->p++;
    const bool zero = j->p < j->end && *j->p == '0';
    const uint8_t *first = j->p;
    if (!skip_digits(j)) return false;
    if (zero && j->p - first > 1) return fail(j, "a number that begins with 0");
    if (j->p < j->end && *j->p == '.') {
        j->p++;
        if (!skip_digits(j)) return false;
    }
    if (j->p == j->end || (*j->p | 0x20) != 'e') return true;
    j->p++;
    if (j->p < j->end && (*j->p == '+' || *j->p == '-')) j->p++;
    return skip_digits(j);
}

static bool skip_word(json *j, const char *word) {
    const size_t n = strlen(word);
    if ((size_t)(j->end - j->p) < n || memcmp(j->p, word, n) != 0)
        return fail(j, "expected a value");
    j->p += n;
    return true;
}

static bool skip_member(json *j, const char *const paths[ITER_JSON_PATHS], int depth) {
    const char *inner[ITER_JSON_PATHS] = {NULL};
    skip_space(j);
    const uint8_t *key = j->p + 1;
    if (j->p == j->end || *j->p != '"') return fail(j, "expected a key");
    if (!skip_string(j)) return false;
    for (int i = 0; i < ITER_JSON_PATHS; i++) {
        if (!paths[i] || !*paths[i]) continue;
        if (is_key(key, (size_t)(j->p - 1 - key), paths[i], &inner[i]))
            j->out[i] = (iter__json_value){NULL, 0}; /* of an earlier key of the same name */
        else
            inner[i] = NULL;
    }
    return expect(j, ':', "expected ':'") && skip_value(j, inner, depth);
}

static bool skip_element(json *j, const char *const paths[ITER_JSON_PATHS], size_t index,
                         int depth) {
    const char *inner[ITER_JSON_PATHS] = {NULL};
    for (int i = 0; i < ITER_JSON_PATHS; i++) {
        if (!paths[i] || !*paths[i]) continue;
        const size_t n = strcspn(paths[i], ".");
        size_t wanted = 0, k = 0;
        for (; k < n && k < 9 && paths[i][k] >= '0' && paths[i][k] <= '9'; k++)
            wanted = wanted * 10 + (size_t)(paths[i][k] - '0');
        if (k == n && wanted == index) inner[i] = paths[i] + n + (paths[i][n] == '.');
    }
    return skip_value(j, inner, depth);
}

/* Moves past the object or array at p. */
static bool skip_all(json *j, const char *const paths[ITER_JSON_PATHS], int depth) {
    const bool is_object = *j->p++ == '{';
    const uint8_t close = is_object ? '}' : ']';
    if (depth == ITER_JSON_DEPTH) return fail(j, "nested too deeply");
    skip_space(j);
    if (j->p < j->end && *j->p == close) {
        j->p++;
        return true;
    }
    for (size_t i = 0;; i++) {
        const bool fine =
            is_object ? skip_member(j, paths, depth + 1) : skip_element(j, paths, i, depth + 1);
        if (!fine) return false;
        skip_space(j);
        if (j->p < j->end && *j->p == close) {
            j->p++;
            return true;
        }
        if (!expect(j, ',', is_object ? "expected ',' or '}'" : "expected ',' or ']'"))
            return false;
    }
}

static bool skip_value(json *j, const char *const paths[ITER_JSON_PATHS], int depth) {
    bool fine;
    skip_space(j);
    const uint8_t *begin = j->p;
    if (j->p == j->end) return fail(j, "");
    switch (*j->p) {
    case '{':
    case '[': fine = skip_all(j, paths, depth); break;
    case '"': fine = skip_string(j); break;
    case 't': fine = skip_word(j, "true"); break;
    case 'f': fine = skip_word(j, "false"); break;
    case 'n': fine = skip_word(j, "null"); break;
    default:
        fine = (*j->p == '-' || (*j->p >= '0' && *j->p <= '9')) ? skip_number(j)
                                                                : fail(j, "expected a value");
    }
    for (int i = 0; fine && i < ITER_JSON_PATHS; i++)
        if (paths[i] && !*paths[i]) j->out[i] = (iter__json_value){begin, (size_t)(j->p - begin)};
    return fine;
}

const char *iter__json_scan(const uint8_t *bytes, size_t size,
                            const char *const paths[ITER_JSON_PATHS],
                            iter__json_value out[ITER_JSON_PATHS], size_t *out_at) {
    json j = {bytes, bytes + size, out, NULL};
    memset(out, 0, ITER_JSON_PATHS * sizeof(*out));
    const size_t bad = iter__utf8_check(bytes, size);
    *out_at = bad;
    if (bad < size) return "invalid UTF-8";
    if (skip_value(&j, paths, 0)) {
        skip_space(&j);
        if (j.p < j.end) fail(&j, "text after the value");
    }
    *out_at = (size_t)(j.p - bytes);
    return j.fault;
}
