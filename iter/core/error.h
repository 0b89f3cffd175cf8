/* error.h - how the library's code reports errors. */
#ifndef ITER_CORE_ERROR_H
#define ITER_CORE_ERROR_H

#include <stddef.h>

#include <iter/status.h>

#define ITER_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Fills err (may be NULL) and returns status: return iter__fail(err, ITER_EINVAL, "...", ...). */
iter_status iter__fail(iter_error *err, iter_status status, const char *format, ...)
    ITER_PRINTF(3, 4);

/* Empties err (may be NULL). To be called before code that may fail without a message, such as a
 * callback. */
void iter__error_clear(iter_error *err);

/* To be called after such code. If it failed without a message, the message becomes "<name>: " and
 * the status in words; a message that it wrote is escaped. */
iter_status iter__error_settle(iter_error *err, iter_status status, const char *name);

/* Puts "<format>: " before the message that err holds or, if it holds none, before the status in
 * words. Returns err->status if err has an error and a message, else `status`. */
iter_status iter__fail_in(iter_error *err, iter_status status, const char *format, ...)
    ITER_PRINTF(3, 4);

/* iter_text_escape() in place, for a message that the functions above did not write; at most 1,000
 * bytes. */
void iter__escape_in_place(char *text, size_t capacity);

/* strerror() without global state: writes into out and returns it. */
const char *iter__os_error(int os_error, char *out, int capacity);

/* Propagates errors (< 0) unchanged. */
#define ITER_TRY(expr)                      \
    do {                                    \
        const iter_status iter_s_ = (expr); \
        if (iter_s_ < 0) return iter_s_;    \
    } while (0)

#endif
