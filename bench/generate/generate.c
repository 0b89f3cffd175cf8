/* generate.c - code that the makers of data share. */
#include "bench/generate/generate.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bench/common/bench_util.h"

uint64_t generate_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

iter_status generate_write(int file, const void *bytes, size_t size, const char *path,
                           iter_error *err) {
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t n = write(file, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return bench_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
        at += n;
        size -= (size_t)n;
    }
    return ITER_OK;
}
