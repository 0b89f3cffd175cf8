/*
 * fuzz_tar.c - any bytes as a tar archive.
 *
 * Property: open returns OK or a documented error that names the file. If OK, extents follow one
 * another within the file, and each field of each sample decodes or fails with a reason. Fields
 * that decode to bytes equal the sample's extent.
 */
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static decoded row;

static void check_sample(const opened *f, uint64_t i, const uint8_t *file, size_t n) {
    iter_extent x;
    f->ops->locate(f->state, i, &x);
    FUZZ_REQUIRE(x.size >= 512 && x.offset + x.size <= n);
    for (int field = 0; field < f->desc.n_fields; field++) {
        iter_error err = {0};
        const iter_status s = format_decode(f, i, field, &row, &err);
        FUZZ_REQUIRE(
            s == ITER_OK ||
            ((s == ITER_EFORMAT || s == ITER_EUNSUPPORTED || s == ITER_ENOMEM) && err.message[0]));
        if (s != ITER_OK || f->desc.fields[field].desc.n_dims != 1) continue;
        FUZZ_REQUIRE(row.desc.dims[0] >= 0 &&
                     row.desc.dims[0] <= f->desc.fields[field].desc.capacity);
        FUZZ_REQUIRE(memmem(file + x.offset, x.size, row.bytes, (size_t)row.desc.dims[0]) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const fields[] = {NULL, "fields=cls,json:a.b,bin;txt"};
    char path[64];
    if (size > 60000) return 0;
    const int fd = fuzz_file(data, size, path);
    for (size_t i = 0; i < 2; i++) {
        opened f;
        iter_error err = {0};
        if (i == 1 && format_open(&iter__format_tar, path, fields[i], &f, &err) < 0) {
            /* the message may name only a field */
            FUZZ_REQUIRE(err.message[0] && iter__alloc_live() == 0);
            continue;
        }
        if (i == 0 && !fuzz_open(&iter__format_tar, path, fields[i], path, &f)) continue;
        FUZZ_REQUIRE(format_fault(&f, 1000) == NULL);
        for (uint64_t k = 0; k < f.desc.n_samples && k < 64; k++)
            check_sample(&f, k, data, size);
        fuzz_close(&f);
    }
    close(fd);
    return 0;
}
