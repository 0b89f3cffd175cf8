/*
 * error.c - fills the caller's iter_error. A message that does not fit ends with "...". Arguments
 * may point into the error that is written, so every text is made in a buffer of its own first.
 *
 * Messages hold names of files, labels and other text of unknown origin. Every message passes
 * through this file, so this is where it is escaped.
 */
#include "iter/core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CAPACITY = sizeof(((iter_error *)0)->message), ESCAPE_MAX = 2 * CAPACITY };

/* Ends a text that snprintf cut with dots, at the edge of a character. `length`: its length without
 * the cut. */
static void mark_cut(char *text, int capacity, int length) {
    if (length < capacity) return;
    int end = capacity - 4;
    while (end > 0 && ((unsigned char)text[end] & 0xc0u) == 0x80u)
        end--; /* never inside a UTF-8 sequence */
    memcpy(text + end, "...", 4);
}

iter_status iter__fail(iter_error *err, iter_status status, const char *format, ...) {
    if (!err) return status;
    char text[CAPACITY];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length < 0) text[0] = '\0';
    mark_cut(text, CAPACITY, length);
    err->status = status;
    iter_text_escape(text, err->message, CAPACITY);
    return status;
}

void iter__error_clear(iter_error *err) {
    if (!err) return;
    err->status = ITER_OK;
    err->message[0] = '\0';
}

iter_status iter__error_settle(iter_error *err, iter_status status, const char *name) {
    if (status >= 0 || !err) return status;
    if (!err->message[0]) return iter__fail(err, status, "%s: %s", name, iter_status_text(status));
    err->status = status;
    iter__escape_in_place(err->message, CAPACITY);
    return status;
}

void iter__escape_in_place(char *text, size_t capacity) {
    char raw[ESCAPE_MAX];
    const size_t n = strlen(text);
    if (n >= sizeof(raw)) return; /* longer than any text of ours */
    memcpy(raw, text, n + 1);
    iter_text_escape(raw, text, capacity);
}

iter_status iter__fail_in(iter_error *err, iter_status status, const char *format, ...) {
    if (!err) return status;
    char text[CAPACITY];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length < 0) text[length = 0] = '\0';
    if (err->status >= 0 || !err->message[0]) err->status = status;
    if (length < CAPACITY) {
        const int room = CAPACITY - length;
        const char *cause = err->message[0] ? err->message : iter_status_text(status);
        const int more = snprintf(text + length, (size_t)room, ": %s", cause);
        length += more < 0 ? 0 : more;
    }
    mark_cut(text, CAPACITY, length);
    iter_text_escape(text, err->message, CAPACITY);
    return err->status;
}

const char *iter__os_error(int os_error, char *out, int capacity) {
    if (capacity <= 0) return "";
    char text[128];
    text[0] = '\0';
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    const char *known = strerror_r(os_error, text, sizeof(text));
#else
    const char *known = strerror_r(os_error, text, sizeof(text)) == 0 ? text : "";
#endif
    if (known[0])
        snprintf(out, (size_t)capacity, "%s", known);
    else
        snprintf(out, (size_t)capacity, "error %d", os_error);
    return out;
}
