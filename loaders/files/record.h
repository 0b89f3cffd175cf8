/*
 * record.h - one record of a RecordIO file, in memory.
 *
 * On disk, all little-endian: u32 magic, u32 (cflag << 29 | length), the bytes, zeros up to a
 * multiple of 4. cflag 0 is a whole record. A record that contains the magic is cut there, and a
 * reader must insert these four bytes between two pieces; cflag 1, 2 and 3 are its first, a middle
 * and its last piece. In the files of MXNet's im2rec the payload begins with an IRHeader: u32 flag,
 * f32 label, u64 id, u64 id2, and, if flag > 0, that many f32 labels instead of the one.
 *
 * Source: dmlc-core, recordio.h and recordio.cc; MXNet, python/mxnet/recordio.py.
 */
#ifndef ITER_LOADERS_FILES_RECORD_H
#define ITER_LOADERS_FILES_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

#include "loaders/files/byte_order.h"

#define ITER_RECORD_MAGIC  0xced7230au
#define ITER_RECORD_HEAD   8u  /* bytes before the first piece */
#define ITER_RECORD_HEADER 24u /* of an IRHeader, without further labels */

enum { ITER_PIECE_WHOLE = 0, ITER_PIECE_FIRST = 1, ITER_PIECE_MIDDLE = 2, ITER_PIECE_LAST = 3 };

static inline uint32_t iter__record_flag(uint32_t word) {
    return word >> 29;
}

static inline uint32_t iter__record_length(uint32_t word) {
    return word & ((1u << 29) - 1);
}

/* A record while it is read, front to back. */
typedef struct iter__record {
    const uint8_t *bytes; /* [size], borrowed */
    size_t size;
    size_t left;         /* of the payload */
    bool whole;          /* in one piece */
    size_t piece_next;   /* where the piece's next byte is */
    size_t piece_left;   /* of the piece */
    uint32_t magic_left; /* bytes of the magic that come before the piece's */
} iter__record;

/* Checks all pieces of the record at the beginning of bytes[size]. Only another record may follow
 * it. Errors: EFORMAT (with the reason and the place within the record). */
iter_status iter__record_open(iter__record *record, const uint8_t *bytes, size_t size,
                              iter_error *err);

/* The next n <= left bytes of the payload. */
void iter__record_read(iter__record *record, void *out, size_t n);

/* Where the rest of the payload is, as one run of bytes; else NULL. */
const uint8_t *iter__record_rest(const iter__record *record);

typedef struct iter__record_header {
    uint32_t flag; /* labels that follow; 0 = `label` is the only one */
    float label;
    uint64_t id, id2;
} iter__record_header;

/* Reads the IRHeader and checks that the labels after it, if any, exist (flag * 4 <= left). Errors:
 * EFORMAT. */
iter_status iter__record_read_header(iter__record *record, iter__record_header *out,
                                     iter_error *err);

/* The next label, 4 bytes of the payload. */
float iter__record_read_label(iter__record *record);

#endif
