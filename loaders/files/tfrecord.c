/* tfrecord.c - see tfrecord.h. */
#include "loaders/files/tfrecord.h"

#include <inttypes.h>
#include <stdbool.h>

#include "iter/core/crc32c.h"
#include "iter/core/error.h"
#include "loaders/files/byte_order.h"

/* The sum as it is stored: of data that hold sums of their own, it would be weak otherwise. */
static uint32_t sum_of(const uint8_t *bytes, size_t n) {
    const uint32_t crc = iter__crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static bool has_length_sum(const uint8_t *head) {
    return sum_of(head, 8) == iter__get_le32(head + 8);
}

iter_status iter__tfrecord_open(const uint8_t *bytes, size_t size, const uint8_t **out,
                                size_t *out_n, iter_error *err) {
    if (size < ITER_TFRECORD_FRAME)
        return iter__fail(err, ITER_EFORMAT, "the record has %zu bytes, at least %d are needed",
                          size, ITER_TFRECORD_FRAME);
    if (!has_length_sum(bytes))
        return iter__fail(err, ITER_EFORMAT,
                          "the checksum of its length is 0x%08x, the record says 0x%08x",
                          sum_of(bytes, 8), iter__get_le32(bytes + 8));
    const uint64_t n = iter__get_le64(bytes);
    if (n != size - ITER_TFRECORD_FRAME)
        return iter__fail(err, ITER_EFORMAT,
                          "the record says %" PRIu64 " bytes of data, it has %zu", n,
                          size - ITER_TFRECORD_FRAME);
    *out = bytes + ITER_TFRECORD_HEAD;
    *out_n = (size_t)n;
    return ITER_OK;
}

iter_status iter__tfrecord_check(const uint8_t *data, size_t n, iter_error *err) {
    const uint32_t sum = sum_of(data, n), stored = iter__get_le32(data + n);
    if (sum == stored) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT,
                      "the checksum of its data is 0x%08x, the record says 0x%08x", sum, stored);
}

iter_status iter__tfrecord_walk(iter__window *window, uint64_t *at, iter_error *err) {
    const uint64_t left = window->file.bytes - *at;
    const uint8_t *p = NULL;
    size_t n = 0;
    if (left == 0) return ITER_END;
    ITER_TRY(iter__window_at(window, *at, ITER_TFRECORD_HEAD, &p, &n, err));
    if (*at == 0 && n >= 2 && p[0] == 0x1f && p[1] == 0x8b)
        return iter__fail(err, ITER_EUNSUPPORTED, "%s: is gzipped; unpack it first",
                          window->file.path);
    if (n < ITER_TFRECORD_HEAD)
        return iter__fail(err, ITER_EFORMAT,
                          "%s: ends in the head of a record, at %" PRIu64 ", after %zu bytes of it",
                          window->file.path, *at, n);
    if (!has_length_sum(p))
        return iter__fail(err, ITER_EFORMAT,
                          "%s: at %" PRIu64 " is no record: the checksum of its length is 0x%08x, "
                          "it says 0x%08x%s",
                          window->file.path, *at, sum_of(p, 8), iter__get_le32(p + 8),
                          *at == 0 ? " (no TFRecord file, or a compressed one?)" : "");
    const uint64_t length = iter__get_le64(p);
    if (left < ITER_TFRECORD_FRAME || length > left - ITER_TFRECORD_FRAME)
        return iter__fail(err, ITER_EFORMAT,
                          "%s: the record at %" PRIu64 " has %" PRIu64
                          " bytes of data, the file ends %" PRIu64 " bytes after its beginning",
                          window->file.path, *at, length, left);
    *at += ITER_TFRECORD_FRAME + length;
    return ITER_OK;
}
