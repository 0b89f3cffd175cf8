/* error.h - how our own code fails. */
#ifndef ITER_CORE_ERROR_H
#define ITER_CORE_ERROR_H

#include <stddef.h>

#include <iter/status.h>

#define ITER_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Fills err (may be NULL) and returns status: return iter__fail(err, ITER_EINVAL, "...", ...). */
iter_status iter__fail(iter_error *err, iter_status status, const char *format, ...)
    ITER_PRINTF(3, 4);

/* Empties err (may be NULL): before code is called that need not be ours, and so may say nothing. */
void iter__error_clear(iter_error *err);

/* Behind such a call: "<who>: " and the status in words where it failed and gave no reason. */
iter_status iter__error_settle(iter_error *err, iter_status status, const char *who);

/* Puts "<format>: " before the message that err holds already, or before the status in words where
 * it holds none; returns err->status where err says both, else `status`. */
iter_status iter__fail_in(iter_error *err, iter_status status, const char *format, ...)
    ITER_PRINTF(3, 4);

/* iter_text_escape() of text[capacity] itself, at most 1,000 bytes: of a message that was not made by
 * the functions above. */
void iter__escape_in_place(char *text, size_t capacity);

/* strerror without its global state: writes into out and returns it. */
const char *iter__os_error(int os_error, char *out, int capacity);

/* Propagates errors (< 0) unchanged. */
#define ITER_TRY(expr)                      \
    do {                                    \
        const iter_status iter_s_ = (expr); \
        if (iter_s_ < 0) return iter_s_;    \
    } while (0)

#endif
