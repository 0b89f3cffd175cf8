/*
 * status.h - the status that every call returns.
 *
 * < 0 is an error, 0 is done, > 0 is fine but not done. Calls whose errors are for people also take
 * a caller-owned iter_error, whose message names the stage, the sample and the file. NULL is legal.
 */
#ifndef ITER_STATUS_H
#define ITER_STATUS_H

#include <stddef.h>

#include <iter/export.h>

ITER_BEGIN_DECLS

/* Every status: X(name, value, text). */
#define ITER_STATUS_MAP(X)                             \
    X(OK, 0, "success")                                \
    X(END, 1, "end of data")                           \
    X(AGAIN, 2, "not ready, call again")               \
    X(PENDING, 3, "queued, will complete later")       \
    X(ENOMEM, -1, "out of memory")                     \
    X(EINVAL, -2, "invalid argument")                  \
    X(EIO, -3, "input/output error")                   \
    X(EFORMAT, -4, "malformed or truncated data")      \
    X(EUNSUPPORTED, -5, "not supported by this build") \
    X(ESTATE, -6, "call not allowed in this state")    \
    X(ECANCELED, -7, "canceled")                       \
    X(EDEVICE, -8, "device runtime error")             \
    X(ETIMEDOUT, -9, "timed out")

typedef enum iter_status {
#define ITER_X(name, value, text) ITER_##name = (value),
    ITER_STATUS_MAP(ITER_X)
#undef ITER_X
} iter_status;

/** Filled if a call fails; caller-owned, usually on the stack. Each call that takes one also takes
 * NULL. The message is one line; names and text from files in it are escaped by
 * iter_text_escape(). */
typedef struct iter_error {
    iter_status status;
    char message[504];
} iter_error;

/** A short English text for `status`, never NULL. */
ITER_API const char *iter_status_text(iter_status status);

/**
 * Writes `text` into out[capacity] so that it is safe to print: a file's name may hold bytes that a
 * terminal obeys. Control characters (C0, DEL, C1), line ends, marks that change the direction of
 * text, and bytes that are not UTF-8 become \n, \r, \t or \xNN. Nothing else changes, so escaping a
 * second time changes nothing. A text that does not fit is cut and ends with "...". Returns out.
 */
ITER_API char *iter_text_escape(const char *text, char *out, size_t capacity);

/**
 * Finds the name that a person probably meant, for a message such as "did you mean ...?".
 *
 *   wanted  the text that was written, which is none of the names
 *   names   the known names, separated by '|': "ring|pread|memory"
 *   out     [capacity] the nearest name; the first of equally near ones; "" if none is near
 *
 * A name is near if `wanted` is another spelling of it ("RandomCrop" for "random-crop"), another
 * library's word for it, its beginning (three letters or more), or differs in at most a third of
 * the letters. Names of more than 40 letters are never near.
 *
 * Returns    out.
 * Threads    any.
 */
ITER_API char *iter_text_nearest(const char *wanted, const char *names, char *out, size_t capacity);

/**
 * Writes any text with "***" for what may be secret in the URLs in it: "user:password", and all
 * from the '?' of a quoted URL on. (After the '?' of a URL that is not quoted come a spec's keys.)
 *
 *   out  [capacity], cut if it is too small; 4 bytes for each of the text's are enough. Returned.
 *
 * Threads  any.
 */
ITER_API char *iter_text_mask(const char *text, char *out, size_t capacity);

ITER_END_DECLS

#endif
