/*
 * engine_error.c - fills the caller's iter_error. A message that does not fit is cut. Arguments may
 * point into the error that is being written, so every text is first made in another buffer.
 */
#include "engine/engine_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CAPACITY = sizeof(((iter_error *)0)->message) };

/* Escapes the text, because names of files and keys may contain anything. */
static void put(iter_error *err, iter_status status, const char *text) {
    iter_text_escape(text, err->message, sizeof(err->message));
    err->status = status;
}

iter_status iter__engine_fail(iter_error *err, iter_status status, const char *format, ...) {
    if (!err) return status;
    char text[CAPACITY];
    va_list args;
    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0) text[0] = '\0';
    va_end(args);
    put(err, status, text);
    return status;
}

iter_status iter__engine_fail_in(iter_error *err, iter_status status, const char *format, ...) {
    if (!err) return status;
    char where[CAPACITY], text[2 * CAPACITY + 2];
    va_list args;
    va_start(args, format);
    if (vsnprintf(where, sizeof(where), format, args) < 0) where[0] = '\0';
    va_end(args);
    snprintf(text, sizeof(text), "%s: %s", where,
             err->message[0] ? err->message : iter_status_text(status));
    put(err, status, text);
    return status;
}
