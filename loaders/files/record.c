/*
 * record.c - see record.h.
 *
 * A record is checked as a whole when it is opened, so reading needs no checks. If the record has
 * one piece, the check is a look at its head.
 */
#include "loaders/files/record.h"

#include <assert.h>
#include <string.h>

#include "iter/core/arith.h"
#include "iter/core/error.h"

/* Reads the head at `at`. It must be that of a record's first or later piece (`first`), and the
 * piece must lie in the bytes. */
static iter_status read_head(const iter__record *record, uint64_t at, bool first,
                             uint32_t *out_flag, uint32_t *out_length, iter_error *err) {
    if (at > record->size || record->size - at < ITER_RECORD_HEAD) {
        return iter__fail(err, ITER_EFORMAT,
                          "the record ends early: a head of 8 bytes should be at +%llu, it has %zu",
                          (unsigned long long)at, record->size);
    }
    const uint32_t magic = iter__get_le32(record->bytes + at),
                   word = iter__get_le32(record->bytes + at + 4);
    const uint32_t flag = iter__record_flag(word), length = iter__record_length(word);
    if (magic != ITER_RECORD_MAGIC) {
        return iter__fail(err, ITER_EFORMAT,
                          "no record: at +%llu is 0x%08x, a record's magic is 0x%08x",
                          (unsigned long long)at, magic, ITER_RECORD_MAGIC);
    }
    const bool fits =
        first ? flag <= ITER_PIECE_FIRST : flag == ITER_PIECE_MIDDLE || flag == ITER_PIECE_LAST;
    if (!fits) {
        return iter__fail(err, ITER_EFORMAT, "the piece at +%llu has flag %u, which is not %s",
                          (unsigned long long)at, flag,
                          first ? "a record's first" : "one that goes on");
    }
    if (length > record->size - at - ITER_RECORD_HEAD) {
        return iter__fail(err, ITER_EFORMAT,
                          "the record ends early: the piece at +%llu has %u bytes, %zu are there",
                          (unsigned long long)at, length,
                          (size_t)(record->size - at - ITER_RECORD_HEAD));
    }
    *out_flag = flag;
    *out_length = length;
    return ITER_OK;
}

iter_status iter__record_open(iter__record *record, const uint8_t *bytes, size_t size,
                              iter_error *err) {
    uint32_t flag = 0, length = 0;
    *record = (iter__record){.bytes = bytes, .size = size};
    ITER_TRY(read_head(record, 0, true, &flag, &length, err));
    record->whole = flag == ITER_PIECE_WHOLE;
    record->piece_next = ITER_RECORD_HEAD;
    record->piece_left = record->left = length;
    uint64_t end = ITER_RECORD_HEAD + iter__align_up_u64(length, 4);
    while (flag != ITER_PIECE_WHOLE && flag != ITER_PIECE_LAST) {
        ITER_TRY(read_head(record, end, false, &flag, &length, err));
        end += ITER_RECORD_HEAD + iter__align_up_u64(length, 4);
        record->left += 4 + (size_t)length;
    }
    /* If an index leaves out records, complete ones follow. */
    if (end + 4 <= size && iter__get_le32(bytes + end) != ITER_RECORD_MAGIC) {
        return iter__fail(err, ITER_EFORMAT,
                          "the record has %llu bytes by its head and %zu by the index",
                          (unsigned long long)end, size);
    }
    return ITER_OK;
}

/* Moves to the next piece; the current one must have been read to its end. */
static void next_piece(iter__record *record) {
    const size_t at = (size_t)iter__align_up_u64(record->piece_next, 4);
    record->piece_left = iter__record_length(iter__get_le32(record->bytes + at + 4));
    record->piece_next = at + ITER_RECORD_HEAD;
    record->magic_left = 4;
}

void iter__record_read(iter__record *record, void *out, size_t n) {
    static const uint8_t magic[4] = {0x0a, 0x23, 0xd7, 0xce};
    uint8_t *to = out;
    assert(n <= record->left);
    record->left -= n;
    while (n > 0) {
        if (record->magic_left > 0) {
            *to++ = magic[4 - record->magic_left--];
            n--;
            continue;
        }
        if (record->piece_left == 0) {
            next_piece(record);
            continue;
        }
        const size_t run = iter__min_size(n, record->piece_left);
        memcpy(to, record->bytes + record->piece_next, run);
        record->piece_next += run;
        record->piece_left -= run;
        to += run;
        n -= run;
    }
}

const uint8_t *iter__record_rest(const iter__record *record) {
    return record->whole ? record->bytes + record->piece_next : NULL;
}

iter_status iter__record_read_header(iter__record *record, iter__record_header *out,
                                     iter_error *err) {
    uint8_t b[ITER_RECORD_HEADER];
    if (record->left < sizeof(b)) {
        return iter__fail(err, ITER_EFORMAT,
                          "the record has %zu bytes, its header alone would have %u", record->left,
                          ITER_RECORD_HEADER);
    }
    iter__record_read(record, b, sizeof(b));
    const uint32_t bits = iter__get_le32(b + 4);
    out->flag = iter__get_le32(b);
    memcpy(&out->label, &bits, sizeof(bits));
    out->id = iter__get_le64(b + 8);
    out->id2 = iter__get_le64(b + 16);
    if (out->flag > record->left / 4) {
        return iter__fail(err, ITER_EFORMAT,
                          "the record should have %u labels, %zu bytes follow its header",
                          out->flag, record->left);
    }
    return ITER_OK;
}

float iter__record_read_label(iter__record *record) {
    uint8_t b[4];
    float label;
    iter__record_read(record, b, sizeof(b));
    const uint32_t bits = iter__get_le32(b);
    memcpy(&label, &bits, sizeof(bits));
    return label;
}
