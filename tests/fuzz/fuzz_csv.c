/*
 * fuzz_csv.c - any bytes as a table.
 *
 * Input: a byte of options, a byte for max-row; the rest is the file. Property: open returns OK or
 * a documented error that names the file. If OK, the rows are those of a naive reader that takes
 * one byte after another, they lie in the file, and each decodes to numbers or fails with a
 * message. Numbers are those of strtod() or strtof() in the naive reader's columns.
 */
#include <math.h>

#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS_MAX = 4000 };

typedef struct rows {
    size_t begin[ROWS_MAX], n;
} rows;

/* The place after the row at `at`. */
static size_t row_end(const uint8_t *p, size_t n, size_t at, bool quotes) {
    bool inside = false;
    for (size_t i = at; i < n; i++) {
        inside ^= quotes && p[i] == '"';
        if (p[i] == '\n' && !inside) return i + 1;
    }
    if (!inside) return n;
    const uint8_t *feed = memchr(p + at, '\n', n - at);
    return feed ? (size_t)(feed - p) + 1 : n;
}

static void list_rows(const uint8_t *p, size_t n, bool quotes, rows *out) {
    size_t at = n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    out->n = 0;
    while (at < n && out->n < ROWS_MAX) {
        const size_t next = row_end(p, n, at, quotes);
        size_t end = next - (p[next - 1] == '\n');
        end -= end > at && p[end - 1] == '\r';
        if (end > at) out->begin[out->n++] = at;
        at = next;
    }
}

/* The value of column 0 if it is plain: digits with a point, and a comma or a line end after it. */
static bool plain_value(const uint8_t *p, size_t n, double *out, float *out_narrow) {
    char text[64];
    size_t k = 0;
    while (k < n && k < 60 && ((p[k] >= '0' && p[k] <= '9') || p[k] == '.' || p[k] == '-'))
        k++;
    if (k == 0 || k == 60 || (k < n && p[k] != ',' && p[k] != '\n')) return false;
    memcpy(text, p, k);
    text[k] = 0;
    char *end;
    *out = strtod(text, &end);
    *out_narrow = strtof(text, NULL);
    return *end == 0 && isfinite(*out);
}

static void check_rows(opened *f, const uint8_t *p, size_t n, const rows *all) {
    static decoded row;
    const size_t skipped = all->n - f->desc.n_samples;
    FUZZ_REQUIRE(skipped <= 1);
    for (uint64_t i = 0; i < f->desc.n_samples; i++) {
        iter_extent x;
        iter_error err = {0};
        double value;
        float narrow;
        char place[48] = "";
        const size_t at = all->begin[i + skipped];
        f->ops->locate(f->state, i, &x);
        FUZZ_REQUIRE(x.offset == at);
        if (i > 20 && i % 16) continue;
        f->ops->place(f->state, i, place, sizeof(place));
        FUZZ_REQUIRE(strncmp(place, "line ", 5) == 0);
        if (iter_desc_bytes(&f->desc.fields[0].desc) > sizeof(row.bytes)) continue;
        const iter_status s = format_decode(f, i, 0, &row, &err);
        FUZZ_REQUIRE(s == ITER_OK || (s == ITER_EFORMAT && err.message[0]));
        if (s == ITER_OK && plain_value(p + at, n - at, &value, &narrow)) {
            const bool wide = f->desc.fields[0].desc.dtype == ITER_F64;
            FUZZ_REQUIRE(wide ? memcmp(row.bytes, &value, sizeof(value)) == 0
                              : memcmp(row.bytes, &narrow, sizeof(narrow)) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const headers[] = {"auto", "yes", "no", "no"};
    static const char *const missings[] = {"error", "zero", "nan", "-1.5"};
    static rows all;
    if (size < 2 || size > 20000) return 0;
    const unsigned bits = data[0];
    const bool quotes = !(bits & 16), label = bits & 32;
    const uint8_t *file = data + 2;
    const size_t n = size - 2;
    char path[64], options[160];
    const int fd = fuzz_file(file, n, path);
    snprintf(options, sizeof(options), "header=%s&missing=%s&quotes=%s&dtype=%s%s%s",
             headers[bits & 3], missings[bits >> 2 & 3], quotes ? "yes" : "no",
             data[1] & 2 ? "f32" : "f64", label ? "&label=1" : "",
             data[1] & 1 ? "" : "&max-row=20000");
    opened f;
    if (fuzz_open(&iter__format_csv, path, options, bits & 32 ? "" : "fd/", &f)) {
        list_rows(file, n, quotes, &all);
        if (all.n < ROWS_MAX && !label) check_rows(&f, file, n, &all);
        fuzz_close(&f);
    }
    close(fd);
    return 0;
}
