/*
 * bench_json.c - reads JSON back for `compare` (RFC 8259).
 */
#include "bench/common/bench_json.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_util.h"

/* ---- Reader ---------------------------------------------------------------------------------- */

typedef struct reader {
    const char *start, *at, *end;
    const char *error;
} reader;

static json_value *read_value(reader *r, int depth);

static void skip_blanks(reader *r) {
    while (r->at < r->end && strchr(" \t\r\n", *r->at) != NULL && *r->at != '\0')
        r->at++;
}

static bool take(reader *r, char c) {
    skip_blanks(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static json_value *fail_at(reader *r, const char *error) {
    if (r->error == NULL) r->error = error;
    return NULL;
}

/* Writes one code unit of \uXXXX as UTF-8. Surrogates become U+FFFD, which is enough to compare two
 * results. */
static char *put_unit(char *to, unsigned unit) {
    if (unit >= 0xd800 && unit < 0xe000) unit = 0xfffd;
    if (unit < 0x80) {
        *to++ = (char)unit;
    } else if (unit < 0x800) {
        *to++ = (char)(0xc0 | unit >> 6);
        *to++ = (char)(0x80 | (unit & 0x3f));
    } else {
        *to++ = (char)(0xe0 | unit >> 12);
        *to++ = (char)(0x80 | (unit >> 6 & 0x3f));
        *to++ = (char)(0x80 | (unit & 0x3f));
    }
    return to;
}

/* Reads the four digits of \uXXXX; false if they are not hexadecimal digits. */
static bool read_unit(const char *at, const char *end, unsigned *out) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = at + i < end ? strchr(digits, tolower((unsigned char)at[i])) : NULL;
        if (digit == NULL || *digit == '\0') return false;
        *out = *out << 4 | (unsigned)(digit - digits);
    }
    return true;
}

/* Reads a text after its opening quote. NULL if it is malformed or there is no memory. Decoding
 * never makes a text longer. */
static char *read_text(reader *r) {
    const char *close = r->at;
    while (close < r->end && *close != '"')
        close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    char *text = malloc((size_t)(close - r->at) + 1), *to = text;
    if (text == NULL) return NULL;
    while (r->at < close) {
        if (*r->at != '\\') {
            *to++ = *r->at++;
            continue;
        }
        static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
        const char *letter = r->at + 1 < close ? strchr(letters, r->at[1]) : NULL;
        unsigned unit;
        if (letter != NULL && *letter != '\0') {
            *to++ = values[letter - letters];
            r->at += 2;
        } else if (r->at + 1 < close && r->at[1] == 'u' && read_unit(r->at + 2, close, &unit)) {
            to = put_unit(to, unit);
            r->at += 6;
        } else {
            break;
        }
    }
    if (r->at == close && close < r->end) {
        r->at++;
        *to = '\0';
        return text;
    }
    free(text);
    fail_at(r, "the text has no end");
    return NULL;
}

static bool read_member(reader *r, json_value *parent, json_value **last, int depth) {
    char *key = NULL;
    if (parent->kind == JSON_OBJECT) {
        if (!take(r, '"')) return fail_at(r, "a key is missing") != NULL;
        key = read_text(r);
        if (key != NULL && !take(r, ':')) fail_at(r, "':' is missing");
    }
    json_value *value = r->error == NULL ? read_value(r, depth + 1) : NULL;
    if (value == NULL) {
        free(key);
        return false;
    }
    value->key = key;
    if (*last != NULL)
        (*last)->next = value;
    else
        parent->first = value;
    *last = value;
    return true;
}

static bool read_members(reader *r, json_value *parent, char close, int depth) {
    json_value *last = NULL;
    if (take(r, close)) return true;
    do
        if (!read_member(r, parent, &last, depth)) return false;
    while (take(r, ','));
    if (!take(r, close)) fail_at(r, "',' or the end is missing");
    return r->error == NULL;
}

static bool read_word(reader *r, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
    r->at += length;
    return true;
}

static bool read_scalar(reader *r, json_value *value) {
    if (read_word(r, "true") || read_word(r, "false")) {
        value->kind = JSON_BOOL;
        value->number = r->at[-2] == 'u';
    } else if (!read_word(r, "null")) {
        char *end;
        value->kind = JSON_NUMBER;
        value->number = strtod(r->at, &end);
        if (end == r->at) return fail_at(r, "expected a value") != NULL;
        r->at = end;
    }
    return true;
}

static json_value *read_value(reader *r, int depth) {
    json_value *value = calloc(1, sizeof(*value));
    if (value == NULL || depth > 64) {
        free(value);
        return fail_at(r, depth > 64 ? "nested too deep" : "no memory");
    }
    bool good;
    if (take(r, '{')) {
        value->kind = JSON_OBJECT;
        good = read_members(r, value, '}', depth);
    } else if (take(r, '[')) {
        value->kind = JSON_ARRAY;
        good = read_members(r, value, ']', depth);
    } else if (take(r, '"')) {
        value->kind = JSON_TEXT;
        value->text = read_text(r);
        good = value->text != NULL;
    } else {
        good = read_scalar(r, value);
    }
    if (good) return value;
    json_free(value);
    return NULL;
}

char *json_load(const char *path, size_t *out_bytes, iter_error *err) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        bench_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
        return NULL;
    }
    size_t capacity = 1 << 16, size = 0;
    char *text = malloc(capacity);
    while (text != NULL) {
        size += fread(text + size, 1, capacity - size - 1, file);
        if (size + 1 < capacity) break;
        char *grown = realloc(text, capacity *= 2);
        if (grown == NULL) free(text);
        text = grown;
    }
    bool broken = ferror(file) != 0;
    fclose(file);
    if (text == NULL || broken) {
        bench_fail(err, ITER_EIO, "%s: %s", path, broken ? "cannot be read" : "no memory");
        free(text);
        return NULL;
    }
    text[size] = '\0';
    *out_bytes = size;
    return text;
}

iter_status json_parse(const char *name, const char *text, size_t bytes, json_value **out,
                       iter_error *err) {
    reader r = {text, text, text + bytes, NULL};
    json_value *value = read_value(&r, 0);
    skip_blanks(&r);
    if (value != NULL && r.at != r.end) fail_at(&r, "something follows the value");
    iter_status s = ITER_OK;
    if (value == NULL || r.error != NULL) {
        s = bench_fail(err, ITER_EFORMAT, "%s: byte %td: %s", name, r.at - r.start,
                       r.error != NULL ? r.error : "no memory");
        json_free(value);
        value = NULL;
    }
    *out = value;
    return s;
}

iter_status json_read(const char *path, json_value **out, iter_error *err) {
    size_t bytes;
    *out = NULL;
    char *text = json_load(path, &bytes, err);
    if (text == NULL) return ITER_EIO;
    iter_status s = json_parse(path, text, bytes, out, err);
    free(text);
    return s;
}

void json_free(json_value *value) {
    while (value != NULL) {
        json_value *next = value->next;
        json_free(value->first);
        free(value->text);
        free(value->key);
        free(value);
        value = next;
    }
}

const json_value *json_find(const json_value *value, const char *path) {
    while (value != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");
        const json_value *member = value->first;
        while (member != NULL && (member->key == NULL || strlen(member->key) != length ||
                                  memcmp(member->key, path, length) != 0))
            member = member->next;
        value = member;
        path += length;
        path += *path == '.';
    }
    return value;
}
