/*
 * fuzz_recordio.c - any bytes as a .rec file, with an index or without.
 *
 * Input: a byte n; the last n bytes of the rest are the .idx (0 = none), those before them the
 * .rec. Property: open returns OK or a documented error that names a file. If OK, extents follow
 * one another within the file, and each record decodes or fails with a reason. Without an index
 * every record decodes, to what a naive reading of the file gives.
 */
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static decoded row;

static uint32_t word(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Joins the record at *at byte by byte, and compares it with what was decoded. */
static void check_record(const uint8_t *file, size_t n, size_t *at) {
    size_t done = 0;
    for (uint32_t flag = 1; flag == 1 || flag == 2;) {
        FUZZ_REQUIRE(*at + 8 <= n && word(file + *at) == 0xced7230a);
        const uint32_t head = word(file + *at + 4), length = head & 0x1fffffff;
        if (done > 0 || head >> 29 > 1) {
            for (int i = 0; i < 4; i++)
                FUZZ_REQUIRE(row.bytes[done++] == (uint8_t)(0xced7230a >> 8 * i));
        }
        flag = head >> 29;
        *at += 8;
        for (uint32_t i = 0; i < length; i++)
            FUZZ_REQUIRE(*at + i < n && row.bytes[done++] == file[*at + i]);
        *at += (length + 3) & ~3u;
    }
    FUZZ_REQUIRE((int64_t)done == row.desc.dims[0]);
    if (*at > n) *at = n;
}

static void check_all(const opened *f, const uint8_t *file, size_t n, int exact) {
    size_t at = 0;
    uint64_t before = 0;
    for (uint64_t i = 0; i < f->desc.n_samples && i < 200; i++) {
        iter_extent x;
        f->ops->locate(f->state, i, &x);
        FUZZ_REQUIRE(x.size > 0 && x.offset >= before && x.offset + x.size <= n);
        before = x.offset + x.size;
        for (int field = 0; field < f->desc.n_fields; field++) {
            iter_error err = {0};
            const iter_status s = format_decode(f, i, field, &row, &err);
            FUZZ_REQUIRE(s == ITER_OK || (s == ITER_EFORMAT && err.message[0]));
            FUZZ_REQUIRE(!exact || s == ITER_OK);
        }
        if (exact) check_record(file, n, &at);
    }
    if (exact && f->desc.n_samples <= 200) FUZZ_REQUIRE(at == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 60000) return 0;
    const size_t n_idx = data[0] < size ? data[0] : size - 1, n = size - 1 - n_idx;
    char path[64], idx[64], options[128];
    opened f;
    const int fd = fuzz_file(data + 1, n, path), idx_fd = fuzz_file(data + 1 + n, n_idx, idx);
    static const char *const more[] = {"header=no", "decode=none", "decode=none&label-width=2"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(options, sizeof(options), "%s&idx=%s", more[i], n_idx ? idx : "none");
        if (!fuzz_open(&iter__format_recordio, path, options, "/proc/self/fd/", &f)) continue;
        check_all(&f, data + 1, n, i == 0 && n_idx == 0);
        fuzz_close(&f);
    }
    close(fd);
    close(idx_fd);
    return 0;
}
