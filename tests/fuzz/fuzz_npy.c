/*
 * fuzz_npy.c - any bytes as a .npy file, or as data and labels.
 *
 * Input: a byte n; the last n bytes of the rest are the labels (0 = none), those before them the data.
 * Property: open answers OK or a documented error that names the file; if OK, every extent lies in its file, the first row begins where the
 * header's own length says, each follows the one before, and the last ends where the file does.
 */
#include "loaders/formats.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where the rows of a file begin, by the length in its preamble: two bytes in version 1, four since. */
static uint64_t begin_of_rows(const uint8_t *file, size_t n) {
    FUZZ_REQUIRE(n > 12);
    const uint64_t low = file[8] | (uint64_t)file[9] << 8;
    return file[6] == 1 ? 10 + low
                        : 12 + (low | (uint64_t)file[10] << 16 | (uint64_t)file[11] << 24);
}

/* The rows of extent `e`, whose file these bytes are. */
static void check_rows(const opened *f, int e, const uint8_t *file, size_t n) {
    iter_extent x[ITER_MAX_EXTENTS];
    const uint64_t begin = begin_of_rows(file, n),
                   row_bytes = iter_desc_bytes(&f->desc.fields[e].desc);
    FUZZ_REQUIRE(begin + f->desc.n_samples * row_bytes == n);
    for (uint64_t i = 0; i < f->desc.n_samples && i < 64; i++) {
        f->ops->locate(f->state, i, x);
        FUZZ_REQUIRE(x[e].offset == begin + i * row_bytes && x[e].size == row_bytes);
    }
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
        iter_extent extents[ITER_MAX_EXTENTS];
        f.ops->locate(f.state, f.desc.n_samples - 1, extents);
        FUZZ_REQUIRE(extents[0].offset + extents[0].size == n_data);
        FUZZ_REQUIRE(!n_labels || extents[1].offset + extents[1].size == n_labels);
        check_rows(&f, 0, data + 1, n_data);
        if (n_labels) check_rows(&f, 1, data + 1 + n_data, n_labels);
        fuzz_close(&f);
    }
    close(fd);
    if (n_labels) close(labels_fd);
    return 0;
}
