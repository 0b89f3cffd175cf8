/*
 * fuzz_idx.c - any bytes as an IDX file, or as a pair of them.
 *
 * Input: a byte of flags (1 = gzip it first, 2 = the rest is images and labels), with 2 a byte that says how long the labels are, then the file.
 * Property: open answers OK or a documented error that names the file; if OK, every extent lies in its file, and of one-byte elements the rows
 * are the last bytes of the file, in order.
 */
#include <zlib.h>

#include "loaders/formats.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file in memory, gzipped if asked for. */
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

/* The rows of a field of one-byte elements, from wherever they come. */
static void check_rows(const opened *f, int field, const uint8_t *bytes, size_t n) {
    const iter_field *what = &f->desc.fields[field];
    if (iter_dtype_bytes(what->desc.dtype) != 1) return;
    const size_t row_bytes = iter_desc_bytes(&what->desc);
    const uint64_t n_rows = f->desc.n_samples;
    FUZZ_REQUIRE(n_rows * row_bytes <= n);
    const uint8_t *due = bytes + n - n_rows * row_bytes;
    uint8_t *row = malloc(row_bytes);
    FUZZ_REQUIRE(row);
    for (uint64_t i = 0; i < n_rows && i < 32; i++) {
        if (what->extent == ITER_FROM_INDEX) {
            f->ops->index_row(f->state, i, field, row);
        } else {
            FUZZ_REQUIRE(format_read(f, i, what->extent, row, row_bytes) == row_bytes);
        }
        FUZZ_REQUIRE(memcmp(row, due + i * row_bytes, row_bytes) == 0);
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
