/*
 * fuzz_tfrecord.c - any bytes as TFRecords.
 *
 * Input: a byte of options; the rest is the file, whose heads and sums are set right if the options
 * say so, because no search would find them. Property: open returns OK or a documented error that
 * names the file. If OK, extents follow one another within the file, and each field of each record
 * decodes or fails with a reason. Bytes that a field has lie within its record.
 */
#include "iter/core/crc32c.h"
#include "loaders/files/byte_order.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIZE_MAX_HERE = 8000, RECORDS_MAX = 64 };

static decoded row;

static uint32_t masked(const uint8_t *bytes, size_t n) {
    const uint32_t crc = iter__crc32c_plain(bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Makes records of at most 255 bytes, whose lengths are the first bytes of their heads. */
static void mend(uint8_t *file, size_t n) {
    for (size_t at = 0; n - at >= 16;) {
        uint64_t length = file[at];
        if (length > n - at - 16) length = n - at - 16;
        iter__put_le64(file + at, length);
        iter__put_le32(file + at + 8, masked(file + at, 8));
        iter__put_le32(file + at + 12 + length, masked(file + at + 12, (size_t)length));
        at += 16 + (size_t)length;
    }
}

static void check_record(const opened *f, uint64_t i, const uint8_t *file, size_t n) {
    iter_extent x;
    f->ops->locate(f->state, i, &x);
    FUZZ_REQUIRE(x.size >= 16 && x.offset + x.size <= n);
    for (int field = 0; field < f->desc.n_fields; field++) {
        iter_error err = {0};
        const iter_desc *desc = &f->desc.fields[field].desc;
        const iter_status s = format_decode(f, i, field, &row, &err);
        FUZZ_REQUIRE(
            s == ITER_OK ||
            ((s == ITER_EFORMAT || s == ITER_EUNSUPPORTED || s == ITER_ENOMEM) && err.message[0]));
        if (s != ITER_OK || desc->n_dims != 1 || desc->dims[0] != ITER_VARIABLE) continue;
        FUZZ_REQUIRE(row.desc.dims[0] >= 0 && row.desc.dims[0] <= desc->capacity);
        if (desc->dtype == ITER_U8)
            FUZZ_REQUIRE(memmem(file + x.offset, x.size, row.bytes, (size_t)row.desc.dims[0]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const fields[] = {NULL, "fields=a:a,b:b",
                                         "fields=a:a:i64*,b:b:bytes,c:b:f32*3,d:a:i64x2",
                                         "fields=a:a:image,b:a:bytes"};
    static uint8_t file[SIZE_MAX_HERE];
    char path[64];
    if (size < 1 || size > SIZE_MAX_HERE) return 0;
    memcpy(file, data + 1, size - 1);
    if (data[0] & 4) mend(file, size - 1);
    const int fd = fuzz_file(file, size - 1, path);
    opened f;
    if (fuzz_open(&iter__format_tfrecord, path, fields[data[0] & 3], "fd/", &f)) {
        FUZZ_REQUIRE(format_fault(&f, 1000) == NULL);
        for (uint64_t i = 0; i < f.desc.n_samples && i < RECORDS_MAX; i++)
            check_record(&f, i, file, size - 1);
        fuzz_close(&f);
    }
    close(fd);
    return 0;
}
