/*
 * json_writer.h - writes JSON.
 *
 *     json_begin(w, NULL, '{');
 *     json_text(w, "name", "loader");
 *     json_number(w, "rate", 1.5);
 *     json_end(w);
 */
#ifndef JSON_WRITER_H
#define JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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

#endif
