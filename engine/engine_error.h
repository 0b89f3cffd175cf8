/* engine_error.h - filling the caller's iter_error; libiter's own helpers are private to it. */
#ifndef ENGINE_ERROR_H
#define ENGINE_ERROR_H

#include <iter/status.h>

/* Writes status and message where the caller wants them (err may be NULL), and answers the
 * status. */
iter_status iter__engine_fail(iter_error *err, iter_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "format: " in front of the message that is there already. */
iter_status iter__engine_fail_in(iter_error *err, iter_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Propagates errors (< 0) unchanged. */
#define ENGINE_TRY(expr)                      \
    do {                                      \
        const iter_status engine_s_ = (expr); \
        if (engine_s_ < 0) return engine_s_;  \
    } while (0)

#endif
