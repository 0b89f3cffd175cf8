/*
 * fuzz_remote_head.c - any lines as the head of a server's answer.
 *
 * Input: lines, each taken with its end. Property: texts stay within their places and end with a
 * NUL; each line is read within its bytes, which lie in memory of exactly that size.
 */
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/remote/request.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(iter__request *r, const uint8_t *line, size_t n) {
    char *exact = malloc(n > 0 ? n : 1);
    FUZZ_REQUIRE(exact);
    if (n > 0) memcpy(exact, line, n);
    iter__request_header(r, exact, n);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static iter__request r;
    memset(&r, 0, sizeof(r));
    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        const size_t n = end ? (size_t)(end - data) + 1 : size;
        take(&r, data, n);
        data += n;
        size -= n;
    }
    FUZZ_REQUIRE(memchr(r.etag, 0, sizeof(r.etag)) && memchr(r.modified, 0, sizeof(r.modified)));
    FUZZ_REQUIRE(memchr(r.region, 0, sizeof(r.region)));
    FUZZ_REQUIRE(r.status >= -99 && r.status <= 999);
    return 0;
}
