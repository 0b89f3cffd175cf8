/*
 * bench_json.h - reads JSON back for `compare`, and opens files for the writer.
 */
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <iter/status.h>

#include "diagnose/json_writer.h"

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
