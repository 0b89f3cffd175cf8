/*
 * expect.h - small verbs for tests that are plain programs (stress, backend).
 *
 * A failed expectation prints file:line and the values, and is counted; the program goes on. main()
 * ends with `return EXPECT_DONE();`. The count is atomic, so any thread may expect. SKIP prints the
 * reason and ends the program with 77, which CTest shows as skipped: call it from main's thread,
 * before anything was checked.
 */
#ifndef TESTS_SUPPORT_EXPECT_H
#define TESTS_SUPPORT_EXPECT_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/status.h>

static atomic_int expect_failures;

static inline int expect_failed(const char *file, int line) {
    atomic_fetch_add(&expect_failures, 1);
    fprintf(stderr, "%s:%d: ", file, line);
    return 0;
}

static inline int expect_true(int ok, const char *text, const char *file, int line) {
    if (ok) return 1;
    expect_failed(file, line);
    fprintf(stderr, "expected %s\n", text);
    return 0;
}

static inline int expect_eq(intmax_t a, intmax_t b, const char *text, const char *file, int line) {
    if (a == b) return 1;
    expect_failed(file, line);
    fprintf(stderr, "expected %s, got %jd and %jd\n", text, a, b);
    return 0;
}

static inline int expect_str(const char *a, const char *b, const char *file, int line) {
    if (a && b && strcmp(a, b) == 0) return 1;
    expect_failed(file, line);
    fprintf(stderr, "expected equal texts, got \"%s\" and \"%s\"\n", a ? a : "(null)",
            b ? b : "(null)");
    return 0;
}

static inline int expect_status(iter_status got, iter_status want, const iter_error *err,
                                const char *text, const char *file, int line) {
    if (got == want) return 1;
    expect_failed(file, line);
    fprintf(stderr, "%s: got \"%s\" (%d), expected \"%s\" (%d): %s\n", text, iter_status_text(got),
            (int)got, iter_status_text(want), (int)want,
            err && got < 0 ? err->message : "no message");
    return 0;
}

static inline int expect_error(iter_status got, iter_status want, const iter_error *err,
                               const char *part, const char *text, const char *file, int line) {
    if (!expect_status(got, want, err, text, file, line)) return 0;
    if (err->status == want && strstr(err->message, part)) return 1;
    expect_failed(file, line);
    fprintf(stderr, "%s: message \"%s\" (status %d) does not say \"%s\"\n", text, err->message,
            (int)err->status, part);
    return 0;
}

/* Each returns 1 if it held, so that `if (!EXPECT(p)) return;` can stop a case. */
#define EXPECT(condition)    expect_true(!!(condition), #condition, __FILE__, __LINE__)
#define EXPECT_EQ(a, b)      expect_eq((intmax_t)(a), (intmax_t)(b), #a " == " #b, __FILE__, __LINE__)
#define EXPECT_STR(a, b)     expect_str(a, b, __FILE__, __LINE__)
#define EXPECT_OK(call, err) expect_status(call, ITER_OK, err, #call, __FILE__, __LINE__)
/* `call` returns `want`, which need not be an error (ITER_END). */
#define EXPECT_STATUS(call, want, err) expect_status(call, want, err, #call, __FILE__, __LINE__)
/* `call` fails with `want`, and the message in `err` (not NULL) contains `part`. */
#define EXPECT_ERROR(call, want, err, part) \
    expect_error(call, want, err, part, #call, __FILE__, __LINE__)

#define EXPECT_DONE() (atomic_load(&expect_failures) ? 1 : 0)

#define SKIP(reason)                       \
    do {                                   \
        printf("skipped: %s\n", (reason)); \
        exit(77);                          \
    } while (0)

#endif
