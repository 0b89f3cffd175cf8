/*
 * fuzz_npy.c - any bytes as a .npy file, or as data and labels.
 *
 * Input: a byte n; the last n bytes of the rest are the labels (0 = none), those before them the
 * data. Property: open returns OK or a documented error that names the file. If OK, every extent
 * lies in its file, the first row begins after the header's length, each follows the one before,
 * and the last ends with the file. If rows are not read by extents (Fortran order), they have the
 * file's elements: the sum of bytes over all rows is the file's, and each row's first element is at
 * the place that the definition gives.
 */
#include "tests/support/builtin_tables.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where the rows of a file begin, by the length in its preamble: two bytes in version 1, four in
 * later ones. */
static uint64_t begin_of_rows(const uint8_t *file, size_t n) {
    FUZZ_REQUIRE(n > 12);
    const uint64_t low = file[8] | (uint64_t)file[9] << 8;
    return file[6] == 1 ? 10 + low
                        : 12 + (low | (uint64_t)file[10] << 16 | (uint64_t)file[11] << 24);
}

/* Rows in memory: the transposition neither loses nor adds a byte, and the first element of row i
 * is the i-th of the file. */
static void check_memory(const opened *f, int field, const uint8_t *file, size_t n) {
    const iter_desc *desc = &f->desc.fields[field].desc;
    const size_t row_bytes = iter_desc_bytes(desc), width = iter_dtype_bytes(desc->dtype);
    const uint8_t *elements = file + begin_of_rows(file, n);
    uint8_t *row = malloc(row_bytes);
    uint64_t sum = 0;
    FUZZ_REQUIRE(elements + f->desc.n_samples * row_bytes == file + n);
    for (uint64_t i = 0; i < f->desc.n_samples; i++) {
        f->ops->index_row(f->state, i, field, row);
        for (size_t b = 0; b < row_bytes; b++)
            sum += row[b];
        for (size_t b = 0; b < width; b++) /* either byte order */
            FUZZ_REQUIRE(row[b] == elements[i * width + b] ||
                         row[b] == elements[i * width + width - 1 - b]);
    }
    for (size_t b = 0; b < f->desc.n_samples * row_bytes; b++)
        sum -= elements[b];
    FUZZ_REQUIRE(sum == 0);
    free(row);
}

/* Checks the rows of a field, whose file has these bytes. */
static void check_rows(const opened *f, int field, const uint8_t *file, size_t n) {
    iter_extent x[ITER_MAX_EXTENTS];
    const int e = f->desc.fields[field].extent;
    const uint64_t begin = begin_of_rows(file, n),
                   row_bytes = iter_desc_bytes(&f->desc.fields[field].desc);
    if (e == ITER_FROM_INDEX) {
        check_memory(f, field, file, n);
        return;
    }
    FUZZ_REQUIRE(begin + f->desc.n_samples * row_bytes == n);
    for (uint64_t i = 0; i < f->desc.n_samples && i < 64; i++) {
        f->ops->locate(f->state, i, x);
        FUZZ_REQUIRE(x[e].offset == begin + i * row_bytes && x[e].size == row_bytes);
    }
    f->ops->locate(f->state, f->desc.n_samples - 1, x);
    FUZZ_REQUIRE(x[e].offset + x[e].size == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 200000) return 0;
    const size_t n_labels = data[0] < size ? data[0] : size - 1;
    const size_t n_data = size - 1 - n_labels;
    char path[64], labels_path[64], options[80];
    const int fd = fuzz_file(data + 1, n_data, path);
    const int labels_fd = n_labels ? fuzz_file(data + 1 + n_data, n_labels, labels_path) : -1;
    if (n_labels) snprintf(options, sizeof(options), "label=%s", labels_path);

    opened f;
    if (fuzz_open(&iter__format_npy, path, n_labels ? options : NULL, "/proc/self/fd/", &f)) {
        check_rows(&f, 0, data + 1, n_data);
        if (n_labels) check_rows(&f, 1, data + 1 + n_data, n_labels);
        fuzz_close(&f);
    }
    close(fd);
    if (n_labels) close(labels_fd);
    return 0;
}
