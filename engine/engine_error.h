/* engine_error.h - filling the caller's iter_error; libiter's own helpers are private to it. */
#ifndef ENGINE_ERROR_H
#define ENGINE_ERROR_H

#include <iter/status.h>

/* Writes status and message to *err, which may be NULL. Returns the status. */
iter_status iter__engine_fail(iter_error *err, iter_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "format: " in front of the existing message. */
iter_status iter__engine_fail_in(iter_error *err, iter_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns from the calling function if expr is an error (< 0). */
#define ENGINE_TRY(expr)                      \
    do {                                      \
        const iter_status engine_s_ = (expr); \
        if (engine_s_ < 0) return engine_s_;  \
    } while (0)

#endif
