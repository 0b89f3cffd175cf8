/*
 * fuzz_jsonl.c - any bytes as lines of JSON, and as lines of text.
 *
 * Input: a byte of options; the rest is the file. Property: open returns OK or a documented error
 * that names the file. As text, lines are those of a naive reader, byte for byte. As JSON, each
 * line is made or fails with a message; a text that was made is UTF-8, and as long as its string at
 * most.
 */
#include "loaders/text/text_utf8.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MAX = 200 };

static void check_text(const opened *f, const uint8_t *p, size_t n) {
    static decoded row;
    size_t at = n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    uint64_t index = 0;
    for (; at < n && index < LINES_MAX; index++) {
        iter_error err = {0};
        const uint8_t *feed = memchr(p + at, '\n', n - at);
        const size_t next = feed ? (size_t)(feed - p) + 1 : n;
        size_t length = next - at - (feed != NULL);
        length -= length > 0 && p[at + length - 1] == '\r';
        FUZZ_REQUIRE(index < f->desc.n_samples);
        FUZZ_REQUIRE(format_decode(f, index, 0, &row, &err) == ITER_OK);
        FUZZ_REQUIRE(row.desc.dims[0] == (int64_t)length);
        FUZZ_REQUIRE(memcmp(row.bytes, p + at, length) == 0);
        at = next;
    }
    if (at == n) FUZZ_REQUIRE(index == f->desc.n_samples);
}

static void check_json(const opened *f) {
    static decoded row;
    for (uint64_t i = 0; i < f->desc.n_samples && i < LINES_MAX; i++) {
        for (int field = 0; field < 2; field++) {
            iter_error err = {0};
            iter_extent x;
            f->ops->locate(f->state, i, &x);
            const iter_status s = format_decode(f, i, field, &row, &err);
            FUZZ_REQUIRE(s == ITER_OK || (s == ITER_EFORMAT && err.message[0]));
            if (s < 0 || field == 1) continue;
            const size_t n = (size_t)row.desc.dims[0];
            FUZZ_REQUIRE(n <= x.size && iter__utf8_check(row.bytes, n) == n);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const paths[] = {"text=a&label=b", "text=a.0.b&label=a.1", "text=0&label=1",
                                        "text=t&label=t"};
    if (size < 1 || size > 20000) return 0;
    char path[64];
    const int fd = fuzz_file(data + 1, size - 1, path);
    opened f;
    if (data[0] & 4) {
        if (fuzz_open(&iter__format_text, path, "", "fd/", &f)) {
            check_text(&f, data + 1, size - 1);
            fuzz_close(&f);
        }
    } else if (fuzz_open(&iter__format_jsonl, path, paths[data[0] & 3], "fd/", &f)) {
        check_json(&f);
        fuzz_close(&f);
    }
    close(fd);
    return 0;
}
