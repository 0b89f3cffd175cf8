/*
 * fuzz_libsvm.c - any bytes as sparse rows.
 *
 * Input: a byte of options; the rest is the file. Property: open returns OK or a documented error
 * that names the file. If OK, every row is made, or fails with a message, alike as a dense row and
 * as a list; and the dense row has the values of the list at its indices and zeros elsewhere.
 */
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FEATURES = 300, ROWS_MAX = 64 };

static void check_row(const opened *dense, const opened *list, uint64_t index) {
    static decoded whole, values, indices, label;
    iter_error err = {0};
    const iter_status s = format_decode(dense, index, 0, &whole, &err);
    FUZZ_REQUIRE(s == ITER_OK || (s == ITER_EFORMAT && err.message[0]));
    FUZZ_REQUIRE((format_decode(list, index, 0, &values, &err) == ITER_OK) == (s == ITER_OK));
    const iter_status s_label = format_decode(dense, index, 1, &label, &err);
    FUZZ_REQUIRE(s_label == ITER_OK || s_label == ITER_EFORMAT);
    if (s < 0) return;
    FUZZ_REQUIRE(format_decode(list, index, 1, &indices, &err) == ITER_OK);
    FUZZ_REQUIRE(values.desc.dims[0] == indices.desc.dims[0]);
    double row[FEATURES] = {0}, got[FEATURES], value;
    for (int64_t i = 0; i < values.desc.dims[0]; i++) {
        int32_t at;
        memcpy(&at, indices.bytes + 4 * i, sizeof(at));
        memcpy(&value, values.bytes + 8 * i, sizeof(value));
        FUZZ_REQUIRE(at >= 0 && at < FEATURES);
        row[at] = value;
    }
    memcpy(got, whole.bytes, sizeof(got));
    FUZZ_REQUIRE(memcmp(got, row, sizeof(got)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 20000) return 0;
    char path[64], options[100];
    const int fd = fuzz_file(data + 1, size - 1, path);
    opened dense, list;
    snprintf(options, sizeof(options), "features=%d&dtype=f64&base=%d&max-row=%d", FEATURES,
             data[0] & 1, data[0] & 2 ? 40 : 4000);
    if (fuzz_open(&iter__format_libsvm, path, options, "fd/", &dense)) {
        strcat(options, "&layout=csr");
        iter_error err;
        FUZZ_REQUIRE(format_open(&iter__format_libsvm, path, options, &list, &err) == ITER_OK);
        FUZZ_REQUIRE(list.desc.n_samples == dense.desc.n_samples);
        for (uint64_t i = 0; i < dense.desc.n_samples && i < ROWS_MAX; i++)
            check_row(&dense, &list, i);
        format_close(&list);
        fuzz_close(&dense);
    }
    close(fd);
    return 0;
}
