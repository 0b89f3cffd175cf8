/*
 * json_scan.h - one JSON text: checked from end to end, and the values at a few paths.
 *
 * A path is keys between '.', and numbers from 0 for elements of arrays: "messages.0.content". If
 * an object has a key twice, the last one counts, as in Python.
 */
#ifndef ITER_LOADERS_TABLES_JSON_SCAN_H
#define ITER_LOADERS_TABLES_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ITER_JSON_PATHS 2
#define ITER_JSON_DEPTH 256

/* A value as it is written: text[n], a string with its quotation marks. text NULL = there is none.
 * */
typedef struct iter__json_value {
    const uint8_t *text;
    size_t n;
} iter__json_value;

/* Reads bytes[size]; out[i] is the value at paths[i], or none if paths[i] is NULL. Returns NULL, or
 * what is wrong, at byte *out_at. */
const char *iter__json_scan(const uint8_t *bytes, size_t size,
                            const char *const paths[ITER_JSON_PATHS],
                            iter__json_value out[ITER_JSON_PATHS], size_t *out_at);

/* Writes the text that the string `value` stands for to out[value->n]. False if a surrogate has no
 * other half. */
bool iter__json_unescape(const iter__json_value *value, uint8_t *out, size_t *out_n);

#endif
