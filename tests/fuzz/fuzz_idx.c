/*
 * fuzz_idx.c - any bytes as an IDX file, or as a pair of them.
 *
 * Input: a byte of flags (1 = gzip it first, 2 = the rest is images and labels), with 2 a byte for
 * the length of the labels, then the file. Property: open returns OK or a documented error that
 * names the file. If OK, every extent lies in its file; the file consists of header and rows; the
 * rows are its last bytes, in order, each big-endian element in this (little-endian) machine's
 * order.
 */
#include <zlib.h>

#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes a file in memory; gzips it if `gzip`. */
static int make(const uint8_t *bytes, size_t n, int gzip, char path[64]) {
    if (!gzip) return fuzz_file(bytes, n, path);
    uint8_t *zipped = malloc(n + 256);
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)bytes,
                  .avail_in = (uInt)n,
                  .next_out = zipped,
                  .avail_out = (uInt)(n + 256)};
    FUZZ_REQUIRE(zipped);
    FUZZ_REQUIRE(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    FUZZ_REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
    const int fd = fuzz_file(zipped, n + 256 - z.avail_out, path);
    deflateEnd(&z);
    free(zipped);
    return fd;
}

/* The rows of a field, from memory or by extents, must be those of the file with the bytes of each
 * element reversed. */
static void check_rows(const opened *f, int field, const uint8_t *bytes, size_t n) {
    const iter_field *what = &f->desc.fields[field];
    const size_t row_bytes = iter_desc_bytes(&what->desc);
    const size_t width = iter_dtype_bytes(what->desc.dtype);
    const uint64_t n_rows = f->desc.n_samples;
    if (n >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) return; /* the input itself is gzip */
    FUZZ_REQUIRE(n > 4 && n_rows * row_bytes + 4 + 4 * (size_t)bytes[3] == n);
    FUZZ_REQUIRE(what->desc.n_dims == bytes[3] - 1);
    const uint8_t *due = bytes + n - n_rows * row_bytes;
    uint8_t *row = malloc(row_bytes);
    FUZZ_REQUIRE(row);
    for (uint64_t k = 0; k < n_rows && k < 32; k++) {
        const uint64_t i = k < 16 ? k : n_rows - 1 - (k - 16) % n_rows; /* the first, the last */
        FUZZ_REQUIRE(format_row(f, i, field, row, NULL) == ITER_OK);
        for (size_t j = 0; j < row_bytes; j++)
            FUZZ_REQUIRE(row[j] == due[i * row_bytes + j - j % width + (width - 1 - j % width)]);
    }
    free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || size > 65536) return 0;
    const int gzip = data[0] & 1, pair = data[0] >> 1 & 1;
    const uint8_t *images = data + 1 + pair;
    size_t n_images = size - 1 - (size_t)pair, n_labels = 0;
    if (pair) n_labels = data[1] < n_images ? data[1] : n_images;
    n_images -= n_labels;

    char path[64], labels_path[64], options[80];
    const int fd = make(images, n_images, gzip, path);
    const int labels_fd = pair ? make(images + n_images, n_labels, gzip, labels_path) : -1;
    if (pair) snprintf(options, sizeof(options), "labels=%s", labels_path);
    opened f;
    if (fuzz_open(&iter__format_mnist, path, pair ? options : NULL, "/proc/self/fd/", &f)) {
        check_rows(&f, 0, images, n_images);
        if (pair) check_rows(&f, 1, images + n_images, n_labels);
        fuzz_close(&f);
    }
    close(fd);
    if (pair) close(labels_fd);
    return 0;
}
