/*
 * bench_json.h - writes JSON, and reads it back for `compare`.
 *
 *     json_begin(w, NULL, '{');
 *     json_text(w, "name", "loader");
 *     json_number(w, "rate", 1.5);
 *     json_end(w);
 */
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <iter/status.h>

/* ---- Writer ---------------------------------------------------------------------------------- */

#define JSON_DEPTH 16

typedef struct json_writer {
    FILE *out;
    int depth;
    char close[JSON_DEPTH]; /* '}' or ']' */
    bool any[JSON_DEPTH];   /* a value was already written at this depth */
} json_writer;

/** Inside an object every value has a key; inside an array it is NULL. */
void json_begin(json_writer *w, const char *key, char bracket);
/** Ends the innermost object or array; a newline follows the outermost. */
void json_end(json_writer *w);
void json_text(json_writer *w, const char *key, const char *text); /* NULL = null */
void json_number(json_writer *w, const char *key, double number);  /* NaN, infinite = null */
void json_count(json_writer *w, const char *key, uint64_t number);
void json_integer(json_writer *w, const char *key, int64_t number);
void json_bool(json_writer *w, const char *key, bool value);
void json_null(json_writer *w, const char *key);
/** {"median": .., "low": .., "high": ..}: a median with its 95 % interval. */
void json_interval(json_writer *w, const char *key, double median, double low, double high);

/* ---- Reader ---------------------------------------------------------------------------------- */

typedef enum json_kind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_TEXT,
    JSON_ARRAY,
    JSON_OBJECT
} json_kind;

typedef struct json_value {
    json_kind kind;
    double number; /* also 0 or 1 for JSON_BOOL */
    char *text;
    char *key;                       /* if it is a member of an object */
    struct json_value *first, *next; /* members or elements, in order */
} json_value;

/** Reads a whole file. Errors: EIO, EFORMAT with the place, ENOMEM. */
iter_status json_read(const char *path, json_value **out, iter_error *err);
/** The two halves of json_read(). json_load() reads a file's bytes, which the caller frees, and
 * adds a NUL; it returns NULL after EIO or ENOMEM. json_parse() reads text[0..bytes), which a NUL
 * must follow; `name` is used in messages. */
char *json_load(const char *path, size_t *out_bytes, iter_error *err);
iter_status json_parse(const char *name, const char *text, size_t bytes, json_value **out,
                       iter_error *err);
void json_free(json_value *value);

/** The member at a dotted path, or NULL. */
const json_value *json_find(const json_value *value, const char *path);

#endif
