/* fuzz_format.h - properties that every format must keep for any bytes; shared by the formats' fuzz
 * targets. */
#ifndef TESTS_SUPPORT_FUZZ_FORMAT_H
#define TESTS_SUPPORT_FUZZ_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/support/make_data.h"

#define FUZZ_REQUIRE(condition)                                                     \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* Makes a file in memory with these bytes; its path goes to out. Returns the descriptor, which the
 * caller must close. */
static inline int fuzz_file(const uint8_t *bytes, size_t n, char out[64]) {
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_REQUIRE(fd >= 0);
    FUZZ_REQUIRE(n == 0 || write(fd, bytes, n) == (ssize_t)n);
    snprintf(out, 64, "/proc/self/fd/%d", fd);
    return fd;
}

/* Opens the file. An error must be a documented one, have a message, and name `place`. Returns 1 if
 * the file is open and its description is consistent. */
static inline int fuzz_open(const iter_format_ops *ops, const char *path, const char *options,
                            const char *place, opened *out) {
    iter_error err = {0};
    const iter_status s = format_open(ops, path, options, out, &err);
    if (s < 0) {
        FUZZ_REQUIRE(s == ITER_EFORMAT || s == ITER_EIO || s == ITER_EINVAL ||
                     s == ITER_EUNSUPPORTED || s == ITER_ENOMEM);
        FUZZ_REQUIRE(err.status == s && err.message[0] != '\0');
        FUZZ_REQUIRE(strstr(err.message, place) != NULL);
        FUZZ_REQUIRE(iter__alloc_live() == 0);
        return 0;
    }
    const char *fault = format_fault(out, 1000);
    if (fault) fprintf(stderr, "%s\n", fault);
    FUZZ_REQUIRE(fault == NULL);
    return 1;
}

static inline void fuzz_close(opened *format) {
    format_close(format);
    FUZZ_REQUIRE(iter__alloc_live() == 0);
}

#endif
