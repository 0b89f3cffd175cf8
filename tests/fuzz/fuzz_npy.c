/*
 * fuzz_npy.c - any bytes as a .npy file, or as data and labels.
 *
 * Input: a byte n; the last n bytes of the rest are the labels (0 = none), those before them the data.
 * Property: open answers OK or a documented error that names the file; if OK, every extent lies in its file, and the last row ends where the
 * file does.
 */
#include "loaders/formats.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
        for (int i = 0; i < f.desc.n_fields; i++)
            FUZZ_REQUIRE(iter_desc_bytes(&f.desc.fields[i].desc) == extents[i].size);
        fuzz_close(&f);
    }
    close(fd);
    if (n_labels) close(labels_fd);
    return 0;
}
